"""A bounded look at the records of a partition, for people: values as text where they are text, and not all of them."""

from __future__ import annotations

import asyncio

import msgspec

from octoloom.core.errors import UsageError
from octoloom.runtime.log_client import LogClient
from octoloom.runtime.log_errors import error_of
from octoloom.wire.kafka.errors import ErrorCode
from octoloom.wire.kafka.records import Record, read_fetched

COUNT, COUNT_MAX = 50, 200
TEXT_BYTES_MAX = 4 * 1024
"""What is shown of a key, a value or a header."""
HEX_BYTES_MAX = 512
HEADERS_MAX = 20
FETCHES_MAX = 20
FETCH_BYTES_MAX = 256 * 1024
PATIENCE_MS = 3_000


class Shown(msgspec.Struct, frozen=True):
    """Bytes for people. `kind` is none, json, text or hex; `size` counts all bytes, also those that were cut off."""

    kind: str
    text: str
    size: int
    cut: bool = False


class RecordShown(msgspec.Struct, frozen=True):
    offset: int
    time_ms: int
    key: Shown
    value: Shown
    headers: list[tuple[str, Shown]]
    headers_left_out: int = 0


class Peek(msgspec.Struct, frozen=True):
    """Records from `first` on; `next` is the offset after the last one. The partition goes from `start` to `high`."""

    topic: str
    partition: int
    start: int
    high: int
    first: int
    next: int
    records: list[RecordShown]


async def peek(client: LogClient, topic: str, partition: int, first: int | None, count: int) -> Peek:
    """`count` records from the offset `first` on, or the last ones. What is not there any more is passed over."""
    if not 1 <= count <= COUNT_MAX:
        raise UsageError(f"{count} records cannot be shown at once: ask for 1 to {COUNT_MAX} with count=")
    place = topic, partition
    if partition not in (await client.topic(topic, PATIENCE_MS)).partitions:
        # It may have been given more partitions since.
        await client.cluster.refresh(client.cluster.revision)
        if partition not in (await client.topic(topic, PATIENCE_MS)).partitions:
            raise error_of(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"the partition {topic}-{partition}")
    start, high = (await client.bounds([place], PATIENCE_MS))[place]
    begin = min(max(high - count if first is None else first, start), high)
    records = await read(client, topic, partition, begin, count, high)
    end = records[-1].offset + 1 if records else begin
    return Peek(topic, partition, start, high, begin, end, [shown_record(record) for record in records])


async def read(client: LogClient, topic: str, partition: int, offset: int, count: int, high: int) -> list[Record]:
    """At most `count` records from `offset` up to `high`, in at most `FETCHES_MAX` fetches."""
    records: list[Record] = []
    for _ in range(FETCHES_MAX):
        if offset >= high or len(records) >= count:
            break
        fetched = await client.fetch(
            topic, partition, offset, bytes_max=FETCH_BYTES_MAX, wait_ms=0, timeout_ms=PATIENCE_MS, lane="console-peek"
        )
        # A batch may have to be decompressed, and links may live in this very process.
        found, offset = await asyncio.to_thread(read_fetched, fetched.batches, offset)
        if not len(fetched.batches):
            break
        records += found[: count - len(records)]
    return records


def shown_record(record: Record) -> RecordShown:
    headers = [(name, shown(value)) for name, value in record.headers[:HEADERS_MAX]]
    left_out = max(len(record.headers) - HEADERS_MAX, 0)
    return RecordShown(record.offset, record.timestamp, shown(record.key), shown(record.value), headers, left_out)


def shown(data: bytes | None) -> Shown:
    if data is None:
        return Shown("none", "", 0)
    part = data[:TEXT_BYTES_MAX]
    try:
        text = part.decode()
    except UnicodeDecodeError as error:
        # What was cut within a letter is text all the same.
        if len(part) == len(data) or error.start < len(part) - 3:
            return Shown("hex", data[:HEX_BYTES_MAX].hex(" "), len(data), len(data) > HEX_BYTES_MAX)
        text = part[: error.start].decode()
    if any(not sign.isprintable() and sign not in "\n\r\t" for sign in text):
        return Shown("hex", data[:HEX_BYTES_MAX].hex(" "), len(data), len(data) > HEX_BYTES_MAX)
    cut = len(part) < len(data)
    return Shown("json" if not cut and _is_json(part) else "text", text, len(data), cut)


def _is_json(data: bytes) -> bool:
    if data[:1] not in (b"{", b"["):
        return False
    try:
        msgspec.json.decode(data)
    except (msgspec.MsgspecError, RecursionError):
        return False
    return True
