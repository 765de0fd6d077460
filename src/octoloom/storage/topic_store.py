"""The register's memory of brokers and topics: one row for each thing, in tables of the register's file.

A decision about a thousand partitions writes a thousand small rows, one about a single partition writes one. Bodies
are JSON, for people who look with ``sqlite3``. Each row has a checksum over its key and body: a row that was changed or
moved is found, and a row that is missing leaves a gap that `load` finds.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from typing import TypeVar
from zlib import crc32

import msgspec

from octoloom.core.errors import StoreError
from octoloom.core.log_messages import BrokerAddress, PartitionState, TopicInfo, TopicPartition
from octoloom.core.log_saved import Counters, Identity, LogSaved, Persist

Body = TypeVar("Body", Counters, Identity, BrokerAddress, TopicInfo, PartitionState)

TABLES = ("log_counters", "log_identities", "log_brokers", "log_topics", "log_partitions")

_encode = msgspec.json.Encoder().encode


class TopicTables:
    """The tables in an open database. Whoever owns it begins and ends the transactions, and names the file."""

    def __init__(self, database: sqlite3.Connection) -> None:
        self._database = database

    def create(self) -> None:
        for table in TABLES:
            columns = "name TEXT NOT NULL, number INTEGER NOT NULL, body BLOB NOT NULL, crc INTEGER NOT NULL"
            self._database.execute(f"CREATE TABLE {table} ({columns}, PRIMARY KEY (name, number)) WITHOUT ROWID")

    def save(self, steps: Sequence[Persist]) -> None:
        """Applies these, in order."""
        for step in steps:
            self._put("log_counters", [(("", 0), step.counters)])
            self._put("log_identities", (((name, 0), body) for name, body in step.identities.items()))
            if step.brokers is not None:
                self._database.execute("DELETE FROM log_brokers")
                self._put("log_brokers", (((name, 0), body) for name, body in step.brokers.items()))
            self._put("log_topics", (((name, 0), body) for name, body in step.topics.items()))
            self._put("log_partitions", step.partitions.items())

    def _put(self, table: str, entries: Iterable[tuple[TopicPartition, msgspec.Struct | None]]) -> None:
        """Writes rows, and deletes those that have no body."""
        kept, gone = [], []
        for key, body in entries:
            if body is None:
                gone.append(key)
            else:
                raw = _encode(body)
                kept.append((*key, raw, _checksum(key, raw)))
        self._database.executemany(f"DELETE FROM {table} WHERE name = ? AND number = ?", gone)
        self._database.executemany(f"REPLACE INTO {table} (name, number, body, crc) VALUES (?, ?, ?, ?)", kept)

    def load(self) -> LogSaved | None:
        """All of it, or None if nothing was ever saved. Raises `StoreError` if it does not fit together."""
        saved = LogSaved(
            next((body for _, body in self._rows("log_counters", Counters)), Counters()),
            {name: body for (name, _), body in self._rows("log_identities", Identity)},
            {name: body for (name, _), body in self._rows("log_brokers", BrokerAddress)},
            {name: body for (name, _), body in self._rows("log_topics", TopicInfo)},
            dict(self._rows("log_partitions", PartitionState)),
        )
        _check(saved)
        return saved if saved.counters != Counters() else None

    def _rows(self, table: str, kind: type[Body]) -> Iterator[tuple[TopicPartition, Body]]:
        decode = msgspec.json.Decoder(kind).decode
        for name, number, raw, checksum in self._database.execute(f"SELECT name, number, body, crc FROM {table}"):
            if not isinstance(raw, bytes) or _checksum((name, number), raw) != checksum:
                raise StoreError(f"the checksum of {name or 'the only row'} in {table} does not match")
            yield (name, number), decode(raw)


def _checksum(key: TopicPartition, raw: bytes) -> int:
    return crc32(raw, crc32(f"{key[0]}\0{key[1]}".encode()))


def _check(saved: LogSaved) -> None:
    """Every topic has its partitions, every partition its topic, and the counters know of all of them."""
    counts = dict.fromkeys(saved.topics, 0)
    for topic, _ in saved.partitions:
        if topic not in counts:
            raise StoreError(f"there are partitions of {topic}, but no topic of that name")
        counts[topic] += 1
    for topic, count in counts.items():
        if not count or any((topic, number) not in saved.partitions for number in range(count)):
            raise StoreError(f"{topic} lacks a partition")
    newest = max((info.number for info in saved.topics.values()), default=0)
    if saved.counters.topics < newest or (saved.brokers and not saved.counters.revision):
        raise StoreError("the counters are older than the rest")
