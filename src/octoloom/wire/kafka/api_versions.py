"""ApiVersions: the first thing every client asks, built once.

The response keeps the old header in every version, since a client that asked in too new a version must be able to read
the refusal: error 35 in the form of version 0, with the versions of ApiVersions alone, after which it asks again.
"""

from __future__ import annotations

import struct

from octoloom.wire.kafka.apis import ADVERTISED, SERVED, Api
from octoloom.wire.kafka.errors import ErrorCode
from octoloom.wire.kafka.primitives import CLASSIC, COMPACT

_HEAD = struct.Struct(">ii")
_ERROR = struct.Struct(">h")
_RANGE = struct.Struct(">hhh")
_THROTTLE_MS = struct.Struct(">i")

_THROTTLE_FROM = 1


def encode_api_versions(version: int, correlation: int) -> bytes:
    """The whole response, its length in front, to a request of this version, whether it is known or not."""
    body = _BODIES.get(version, _REFUSAL)
    return _HEAD.pack(len(body) + 4, correlation) + body


def _body(version: int, error: ErrorCode, ranges: dict[int, tuple[int, int]]) -> bytes:
    form = COMPACT if version >= SERVED[Api.API_VERSIONS].flexible_from else CLASSIC
    pieces = [_ERROR.pack(error), form.write_long(len(ranges))]
    for api, (first, last) in ranges.items():
        pieces += (_RANGE.pack(api, first, last), form.no_tags)
    if version >= _THROTTLE_FROM:
        pieces.append(_THROTTLE_MS.pack(0))
    pieces.append(form.no_tags)
    return b"".join(pieces)


_SERVED = SERVED[Api.API_VERSIONS]
_BODIES = {version: _body(version, ErrorCode.NONE, ADVERTISED) for version in range(_SERVED.first, _SERVED.last + 1)}
_REFUSAL = _body(0, ErrorCode.UNSUPPORTED_VERSION, {Api.API_VERSIONS: ADVERTISED[Api.API_VERSIONS]})
