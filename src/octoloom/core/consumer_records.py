"""What a group coordinator keeps in its partition of the internal topic.

A record is a key and a value; a later record of the same key takes the place of an earlier one, and no value deletes.
Deleting a group deletes its offsets with it, so that one short record does it whatever the group's size.

- a group: its generation, who is in it and, once the leader has said so, who was assigned what;
- an offset: how far a group has come in a partition of a topic.

Both are msgpack arrays. A field that is added later goes to the end and has a default, so that old logs stay readable.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from octoloom.core.consumer_messages import TopicPartition
from octoloom.core.errors import StoreError

Record = tuple[bytes, bytes | None]


class GroupKey(msgspec.Struct, frozen=True, array_like=True, tag="group"):
    group: str


class OffsetKey(msgspec.Struct, frozen=True, array_like=True, tag="offset"):
    group: str
    topic: str
    partition: int


class MemberRecord(msgspec.Struct, frozen=True, array_like=True):
    member: str
    instance: str | None
    client_id: str
    client_host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocols: tuple[tuple[str, bytes], ...]
    assignment: bytes


class GroupRecord(msgspec.Struct, frozen=True, array_like=True):
    generation: int
    protocol_type: str
    protocol: str
    leader: str
    assigned: bool
    """False between the end of a join and the leader's assignment: the members have to join once more."""
    empty_since: int
    """When the last member went, in ms; 0 while there are members."""
    members: list[MemberRecord]


class OffsetRecord(msgspec.Struct, frozen=True, array_like=True, gc=False):
    offset: int
    leader_epoch: int
    metadata: str
    committed_at: int


encode = msgspec.msgpack.Encoder().encode
_decode_key = msgspec.msgpack.Decoder(GroupKey | OffsetKey).decode
_decode_group = msgspec.msgpack.Decoder(GroupRecord).decode
_decode_offset = msgspec.msgpack.Decoder(OffsetRecord).decode


def group_key(group: str) -> bytes:
    return encode(GroupKey(group))


def offset_key(group: str, partition: TopicPartition) -> bytes:
    return encode(OffsetKey(group, *partition))


class Contents:
    """What is left of a log once all of its records have been read."""

    def __init__(self, records: Iterable[Record]) -> None:
        """Raises `StoreError` when a record cannot be read."""
        groups, offsets = _replay(records)
        try:
            # Only what survived is opened: most records of a log are commits that later ones replaced.
            self.groups = {name: (_decode_group(value), value) for name, value in groups.items()}
            self.offsets = {
                name: {partition: _decode_offset(value) for partition, value in table.items()}
                for name, table in offsets.items()
            }
        except msgspec.MsgspecError as error:
            raise StoreError(f"the log of consumer groups holds a value that cannot be read: {error}") from error


def compacted(records: Iterable[Record]) -> list[Record]:
    """The records that are still true after all of these."""
    groups, offsets = _replay(records)
    kept: list[Record] = [(group_key(name), value) for name, value in groups.items()]
    kept += [
        (offset_key(name, partition), value) for name, table in offsets.items() for partition, value in table.items()
    ]
    return kept


def _replay(records: Iterable[Record]) -> tuple[dict[str, bytes], dict[str, dict[TopicPartition, bytes]]]:
    groups: dict[str, bytes] = {}
    offsets: dict[str, dict[TopicPartition, bytes]] = {}
    for raw, value in records:
        try:
            key = _decode_key(raw)
        except msgspec.MsgspecError as error:
            raise StoreError(f"the log of consumer groups holds a key that cannot be read: {error}") from error
        if isinstance(key, OffsetKey):
            table = offsets.setdefault(key.group, {})
            if value is None:
                table.pop((key.topic, key.partition), None)
            else:
                table[key.topic, key.partition] = value
        elif value is None:
            groups.pop(key.group, None)
            offsets.pop(key.group, None)
        else:
            groups[key.group] = value
    return groups, {name: table for name, table in offsets.items() if table}
