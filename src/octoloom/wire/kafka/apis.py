"""What a broker serves: the APIs, their versions, and the header in front of every request.

A client asks for the versions first (ApiVersions) and then uses, for each API, the highest that both sides know. The
tops here are the last versions that make sense without what we do not have: topic ids in Fetch and Produce,
transactions, tiered storage, the newer consumer groups. Two things are odd, and both are Kafka's own:

- Produce is advertised from version 0 but served from 3. Older librdkafka looks for the low versions before it
  believes that a broker understands compression, and without them sends everything uncompressed, in silence.
- ApiVersions is answered whatever its version is, since its asker cannot know better; see `api_versions`.

A header is (api, version, correlation id, client id). The client id keeps its classic form in all versions; what
follows it in the flexible ones are tagged fields.
"""

from __future__ import annotations

import struct
from enum import IntEnum
from typing import NamedTuple

from octoloom.core.errors import ProtocolError
from octoloom.wire.kafka.primitives import UNREADABLE, malformed, name_of, skip_tags


class Api(IntEnum):
    PRODUCE = 0
    FETCH = 1
    LIST_OFFSETS = 2
    METADATA = 3
    OFFSET_COMMIT = 8
    OFFSET_FETCH = 9
    FIND_COORDINATOR = 10
    JOIN_GROUP = 11
    HEARTBEAT = 12
    LEAVE_GROUP = 13
    SYNC_GROUP = 14
    DESCRIBE_GROUPS = 15
    LIST_GROUPS = 16
    API_VERSIONS = 18
    CREATE_TOPICS = 19
    DELETE_TOPICS = 20
    DELETE_RECORDS = 21
    INIT_PRODUCER_ID = 22
    OFFSET_FOR_LEADER_EPOCH = 23
    DESCRIBE_CONFIGS = 32
    ALTER_CONFIGS = 33
    CREATE_PARTITIONS = 37
    DELETE_GROUPS = 42
    INCREMENTAL_ALTER_CONFIGS = 44
    DESCRIBE_CLUSTER = 60


REPLICATE = 32000
"""Our brokers among themselves. Kafka's own keys are below 100, and private ones of others near 10000."""


SMALL_REQUEST_MAX = 1 << 20
"""Bytes in a request that carries no records. What is made of it takes many times its size, and its time."""


class Versions(NamedTuple):
    """The versions of one API that are served, both ends included, and the first of them that is flexible."""

    first: int
    last: int
    flexible_from: int


SERVED: dict[int, Versions] = {
    Api.PRODUCE: Versions(3, 12, 9),
    Api.FETCH: Versions(4, 12, 12),
    Api.LIST_OFFSETS: Versions(1, 7, 6),
    Api.METADATA: Versions(0, 12, 9),
    Api.OFFSET_COMMIT: Versions(2, 8, 8),
    Api.OFFSET_FETCH: Versions(1, 8, 6),
    Api.FIND_COORDINATOR: Versions(0, 4, 3),
    Api.JOIN_GROUP: Versions(0, 9, 6),
    Api.HEARTBEAT: Versions(0, 4, 4),
    Api.LEAVE_GROUP: Versions(0, 5, 4),
    Api.SYNC_GROUP: Versions(0, 5, 4),
    Api.DESCRIBE_GROUPS: Versions(0, 5, 5),
    Api.LIST_GROUPS: Versions(0, 4, 3),
    Api.API_VERSIONS: Versions(0, 4, 3),
    Api.CREATE_TOPICS: Versions(2, 7, 5),
    Api.DELETE_TOPICS: Versions(1, 5, 4),
    Api.DELETE_RECORDS: Versions(0, 2, 2),
    Api.INIT_PRODUCER_ID: Versions(0, 4, 2),
    Api.OFFSET_FOR_LEADER_EPOCH: Versions(2, 4, 4),
    Api.DESCRIBE_CONFIGS: Versions(1, 4, 4),
    Api.ALTER_CONFIGS: Versions(0, 2, 2),
    Api.CREATE_PARTITIONS: Versions(0, 3, 2),
    Api.DELETE_GROUPS: Versions(0, 2, 2),
    Api.INCREMENTAL_ALTER_CONFIGS: Versions(0, 1, 1),
    Api.DESCRIBE_CLUSTER: Versions(0, 1, 0),
    REPLICATE: Versions(0, 0, 1),
}

ADVERTISED: dict[int, tuple[int, int]] = {
    api: (0 if api == Api.PRODUCE else versions.first, versions.last)
    for api, versions in SERVED.items()
    if api != REPLICATE
}
"""What ApiVersions answers."""

_IS_FLEXIBLE: dict[tuple[int, int], bool] = {
    (int(api), version): version >= versions.flexible_from
    for api, versions in SERVED.items()
    for version in range(versions.first, versions.last + 1)
}

_WITH_RECORDS = (int(Api.PRODUCE), REPLICATE)

_HEAD = struct.Struct(">hhih")
_CORRELATION = struct.Struct(">i")
_CORRELATION_AT = 4


class RequestHeader(NamedTuple):
    api: int
    version: int
    correlation: int
    client_id: str | None
    body_at: int
    """Where the request's body begins in its frame."""


def is_served(api: int, version: int) -> bool:
    return (api, version) in _IS_FLEXIBLE


def is_flexible(api: int, version: int) -> bool:
    """Whether a served version has compact strings and tagged fields."""
    return _IS_FLEXIBLE[api, version]


def parse_header(frame: memoryview) -> RequestHeader:
    """The header of a frame, whose first four bytes (the length) are already off."""
    try:
        api, version, correlation, client_id_size = _HEAD.unpack_from(frame)
        client_id, at = None, _HEAD.size
        if client_id_size >= 0:
            end = at + client_id_size
            if end > len(frame):
                raise malformed(f"a client id of {client_id_size} bytes in a frame of {len(frame)}")
            client_id, at = name_of(bytes(frame[at:end])), end
        elif client_id_size != -1:
            raise malformed(f"a client id of {client_id_size} bytes")
        flexible = _IS_FLEXIBLE.get((api, version))
        if flexible:
            at = skip_tags(frame, at)
        elif flexible is None and api != Api.API_VERSIONS:
            raise ProtocolError("unsupported-version", f"version {version} of API {api} is not served here")
        if len(frame) > SMALL_REQUEST_MAX and api not in _WITH_RECORDS:
            raise ProtocolError("request-too-large", f"API {api} takes {SMALL_REQUEST_MAX} bytes, not {len(frame)}")
    except UNREADABLE as error:
        raise malformed(f"not the header of a request: {error}") from error
    # As for batches: the tuple is made directly, which takes half the time.
    return tuple.__new__(RequestHeader, (api, version, correlation, client_id, at))


def correlation_of(frame: memoryview) -> int:
    """Which request a response is for: the first number of its frame, whose length is already off."""
    if len(frame) < _CORRELATION.size:
        raise malformed(f"a response of {len(frame)} bytes")
    correlation: int = _CORRELATION.unpack_from(frame)[0]
    return correlation


def with_correlation(response: bytes, correlation: int) -> bytes:
    """The same response, its length in front, for another request: what is kept ready is patched, not built again."""
    after = _CORRELATION_AT + _CORRELATION.size
    return b"".join((response[:_CORRELATION_AT], _CORRELATION.pack(correlation), response[after:]))
