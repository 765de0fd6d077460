"""Plain values become the response of every version that is served, and nothing that a version has is left out."""

from __future__ import annotations

import dataclasses
from datetime import timedelta
from typing import Any

import pytest

from octoloom.wire.kafka.apis import SERVED, Api, RequestHeader
from octoloom.wire.kafka.cold import decode_response, encode_response
from octoloom.wire.kafka.compose import compose

MEMBER = {"member_id": "m", "group_instance_id": "i", "metadata": b"bytes"}
JOINED = {
    "error_code": 27,
    "generation_id": 7,
    "protocol_type": "consumer",
    "protocol_name": "range",
    "leader": "m",
    "skip_assignment": True,
    "member_id": "m",
    "members": [MEMBER, {**MEMBER, "group_instance_id": None}],
}
PARTITION = {
    "partition_index": 3,
    "committed_offset": 2**40,
    "committed_leader_epoch": 5,
    "metadata": None,
    "error_code": 3,
}
TOPIC = {"name": "t", "partitions": [PARTITION]}
FETCHED = {"topics": [TOPIC], "error_code": 16, "groups": [{"group_id": "g", "topics": [TOPIC], "error_code": 16}]}
CREATED = {"topics": [{"name": "t", "error_code": 36, "error_message": "it is", "topic_id": None, "configs": None}]}

SAID: list[tuple[int, dict[str, Any]]] = [
    (Api.JOIN_GROUP, JOINED),
    (Api.OFFSET_FETCH, FETCHED),
    (Api.CREATE_TOPICS, CREATED),
    (Api.HEARTBEAT, {"error_code": 25}),
]


def plain(entity: Any) -> Any:
    if isinstance(entity, tuple):
        return [plain(each) for each in entity]
    if dataclasses.is_dataclass(entity):
        return {field.name: plain(getattr(entity, field.name)) for field in dataclasses.fields(entity)}
    return entity


def covered(values: Any, said: Any) -> None:
    """Everything in the entity was said, or is a default that nobody contradicts."""
    if isinstance(values, dict):
        for name, value in values.items():
            if name in said:
                covered(value, said[name])
            else:
                assert name in ("throttle_time", "topic_config_error_code", "num_partitions", "replication_factor")
    elif isinstance(values, list):
        assert len(values) == len(said)
        for value, one in zip(values, said, strict=True):
            covered(value, one)
    else:
        assert values == said


@pytest.mark.parametrize(
    ("api", "version", "said"),
    [
        pytest.param(api, version, said, id=f"{Api(api).name}-{version}")
        for api, said in SAID
        for version in range(SERVED[api].first, SERVED[api].last + 1)
    ],
)
def test_every_version_gets_what_it_has(api: int, version: int, said: dict[str, Any]) -> None:
    header = RequestHeader(api, version, 9, None, 0)
    response = compose(header, **said)
    decoded = decode_response(api, version, memoryview(encode_response(header, response))[4:])
    assert decoded == response
    covered(plain(decoded), said)
    assert getattr(decoded, "throttle_time", timedelta(0)) == timedelta(0)


def test_what_has_no_default_must_be_said() -> None:
    with pytest.raises(TypeError, match="error_code"):
        compose(RequestHeader(Api.HEARTBEAT, 4, 9, None, 0))


def test_an_unknown_error_code_is_not_sent() -> None:
    with pytest.raises(ValueError, match="4711"):
        compose(RequestHeader(Api.HEARTBEAT, 4, 9, None, 0), error_code=4711)
