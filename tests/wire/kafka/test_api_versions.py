from __future__ import annotations

import pytest

from octoloom.wire.kafka.api_versions import encode_api_versions
from octoloom.wire.kafka.apis import ADVERTISED, Api
from octoloom.wire.kafka.errors import ErrorCode
from tests.wire.kafka.oracle import read_response, versions_of


@pytest.mark.parametrize("version", versions_of(Api.API_VERSIONS))
def test_every_version_tells_the_same(version: int) -> None:
    correlation, answer = read_response(Api.API_VERSIONS, version, encode_api_versions(version, -7))
    assert correlation == -7
    assert answer.error_code == ErrorCode.NONE
    assert {key.api_key: (key.min_version, key.max_version) for key in answer.api_keys} == ADVERTISED


@pytest.mark.parametrize("version", [-1, 5, 6, 32767])
def test_an_unknown_version_is_answered_in_version_0(version: int) -> None:
    correlation, answer = read_response(Api.API_VERSIONS, 0, encode_api_versions(version, 9))
    assert correlation == 9
    assert answer.error_code == ErrorCode.UNSUPPORTED_VERSION
    assert [(key.api_key, key.min_version, key.max_version) for key in answer.api_keys] == [(Api.API_VERSIONS, 0, 4)]
