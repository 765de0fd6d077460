"""The replicas of a broker: a log on disk, its place in the core, and what waits for its next write.

Beside each log a small file keeps what would be slow to find out again: the watermark, and the producer table as it
was at some committed offset. A table that was taken at an offset is only trusted once everything below is committed,
since what is not may be cut off again. The batches behind it are read when the log is opened.

Folders are called ``topic@number-partition``: a topic that was deleted and made again has another number.
"""

from __future__ import annotations

import contextlib
import logging
import os
import re
import shutil
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from octoloom.core.errors import StoreError
from octoloom.core.log_messages import TopicInfo, TopicPartition
from octoloom.core.partition import LogTail, Partition
from octoloom.core.producers import ProducerSnapshot, ProducerTable
from octoloom.storage.log import Log, LogSettings
from octoloom.storage.log_damage import DamagedLog
from octoloom.wire.kafka.batches import BatchHeader

if TYPE_CHECKING:
    from octoloom.runtime.broker_fetch import Waiting
    from octoloom.runtime.broker_produce import Produced

SIDE = "tail"
MESSAGE_BYTES = "max.message.bytes"
SEGMENT_BYTES = "segment.bytes"
SEGMENT_BYTES_MIN = 16 * 1024
FRESH_BYTES_MAX = 16 * 1024
"""What was written in one turn is kept at hand until its end if it is no more than this."""
OPENERS = 16
"""Logs that are opened at once: what takes time is the disk, which serves many as quickly as one."""

_FOLDER = re.compile(r"(.+)@([0-9]+)-([0-9]+)")
_log = logging.getLogger("octoloom.broker")

Place = tuple[str, int, int]
"""(topic, its number, partition)"""


class Side(msgspec.Struct, frozen=True, array_like=True):
    """What is kept beside a log. `producers` is the table of all batches below `offset`."""

    high: int
    offset: int
    producers: list[ProducerSnapshot]


_encode_side = msgspec.msgpack.Encoder().encode
_side_decoder = msgspec.msgpack.Decoder(Side)


class Fresh(NamedTuple):
    """Batches that were written just now. Their bytes are still those of the connections that they came on."""

    offset: int
    end: int
    size: int
    batches: list[memoryview | bytearray]


class Replica:
    """One replica. What was admitted or taken since the last write is in `batches`, with its `headers`."""

    __slots__ = (
        "_candidate",
        "_safe",
        "_saved",
        "batches",
        "cuts",
        "fresh",
        "headers",
        "info",
        "local",
        "log",
        "message_bytes_max",
        "name",
        "partition",
        "readers",
        "table",
    )

    def __init__(
        self, name: TopicPartition, info: TopicInfo, log: Log, partition: Partition, table: ProducerTable | None
    ) -> None:
        self.name, self.info, self.log, self.partition = name, info, log, partition
        self.table = table
        """What was read when the log was opened; for the first tail only."""
        self.batches: list[memoryview | bytearray] = []
        self.headers: list[BatchHeader] = []
        self.fresh: Fresh | None = None
        """What was written in this turn, until it ends, if it is little: followers are sent it as it came."""
        self.local: list[tuple[Produced, int]] = []
        """Producers that wait for no more than the write, with the index of the part."""
        self.readers: dict[Waiting, int] = {}
        """Consumers that wait for more records, with the index of the part."""
        self.cuts = 0
        """How often the log was cut: a sync that began before a cut says nothing about what came after it."""
        self.message_bytes_max = 0
        self._safe = load_side(log) or Side(0, 0, [])
        self._candidate: Side | None = None
        self._saved = (self._safe.high, self._safe.offset)

    def tail(self, is_written_durable: bool) -> LogTail:
        """Where the log stands, with a producer table that knows exactly what is in it. Raises `DamagedLog`."""
        log = self.log
        durable = log.end if is_written_durable else log.synced
        table, self.table = self.table or read_table(log, self._safe), None
        return LogTail(log.start, log.end, durable, self._safe.high, list(log.epochs), table)

    def forget_queue(self) -> None:
        """What was to be written has no place any more."""
        self.batches, self.headers = [], []

    # What is kept beside the log.

    def save(self, closing: bool = False) -> None:
        """Keeps the watermark and, if it is due, the producer table."""
        partition = self.partition
        if not partition.opened:
            return
        high, end = partition.high, partition.end
        if self._candidate is not None and self._candidate.offset <= high:
            self._safe, self._candidate = self._candidate, None
        if closing and high == end == self.log.end:
            self._safe = Side(high, end, partition.producers.snapshot())
        elif self._candidate is None and end > self._safe.offset:
            self._candidate = Side(high, end, partition.producers.snapshot())
        if (high, self._safe.offset) != self._saved:
            self._safe = msgspec.structs.replace(self._safe, high=high)
            self.log.save_side(SIDE, _encode_side(self._safe), sync=False)
            self._saved = high, self._safe.offset

    def on_cut(self) -> None:
        """The log was cut: nothing that was to be written has a place, and no sync under way counts."""
        self.cuts += 1
        self.fresh = None
        self.forget_queue()
        self._candidate = self.table = None


def load_side(log: Log) -> Side | None:
    data = log.load_side(SIDE)
    try:
        return None if data is None else _side_decoder.decode(data)
    except msgspec.MsgspecError:
        return None


def read_table(log: Log, side: Side | None) -> ProducerTable:
    """The producer table of all that is in the log. Raises `DamagedLog`."""
    table, offset = ProducerTable(), log.start
    if side is not None and side.offset <= log.end:
        table, offset = ProducerTable.restore(side.producers), max(side.offset, log.start)
    for header in log.headers(offset):
        if header.producer_id >= 0:
            table.add(header.producer_id, header.producer_epoch, header.base_sequence, header.count, header.base_offset)
    return table


class Logs:
    """All logs below one folder. They outlive the broker's core, which begins anew after damage."""

    def __init__(self, folder: str, message_bytes_max: int) -> None:
        self._folder = folder
        self._message_bytes_max = message_bytes_max
        self._logs: dict[Place, Log] = {}
        self._tables: dict[Place, ProducerTable] = {}
        self.replicas: dict[TopicPartition, Replica] = {}
        self._retired: dict[Place, Replica] = {}

    def open_all(self) -> list[TopicPartition]:
        """Opens what is there; answers the replicas that hold less than they once had committed.

        Damage that shows now is cut off here. Later it raises `DamagedLog` where somebody reads.
        """
        os.makedirs(self._folder, exist_ok=True)
        places = sorted(self._places())
        with ThreadPoolExecutor(OPENERS) as openers:
            are_whole = list(openers.map(self._open_found, places))
        return [(topic, number) for (topic, _, number), is_whole in zip(places, are_whole, strict=True) if not is_whole]

    def _open_found(self, place: Place) -> bool:
        """Opens a log that is there. False if it is not whole."""
        log = self._open(place, LogSettings())
        side = load_side(log)
        try:
            self._tables[place] = read_table(log, side)
        except DamagedLog as error:
            _log.error("%s", error)
            log.truncate(error.offset)
            return False
        if side is not None and side.high > log.end:
            _log.error("%s ends at %d, but everything below %d was committed", log.path, log.end, side.high)
            return False
        return True

    def _places(self) -> Iterator[Place]:
        for name in os.listdir(self._folder):
            match = _FOLDER.fullmatch(name)
            if match is not None:
                yield match[1], int(match[2]), int(match[3])

    def _path(self, place: Place) -> str:
        return os.path.join(self._folder, "{}@{}-{}".format(*place))

    def _open(self, place: Place, settings: LogSettings) -> Log:
        log = self._logs[place] = Log.open(self._path(place), settings)
        return log

    def take(self, name: TopicPartition, info: TopicInfo, partition: Partition) -> Replica:
        """The replica for the core's partition, its log opened or made."""
        place, settings = (name[0], info.number, name[1]), settings_of(info)
        log = self._logs.get(place)
        if log is not None and settings != LogSettings():
            log.close()
            log = None
        log = log or self._open(place, settings)
        replica = self.replicas[name] = Replica(name, info, log, partition, self._tables.pop(place, None))
        self.configure(replica, info)
        return replica

    def configure(self, replica: Replica, info: TopicInfo) -> None:
        replica.info = info
        replica.message_bytes_max = number_of(info, MESSAGE_BYTES, self._message_bytes_max)

    def retire(self, partitions: Mapping[TopicPartition, Partition]) -> None:
        """Takes out replicas that the core does not have any more: no request finds them from now on."""
        for name, replica in list(self.replicas.items()):
            if partitions.get(name) is not replica.partition:
                self._retired[name[0], replica.info.number, name[1]] = self.replicas.pop(name)

    def drop(self, name: TopicPartition, info: TopicInfo) -> Replica | None:
        """The topic is deleted: so are the files. Answers the replica that was retired."""
        place = (name[0], info.number, name[1])
        replica = self._retired.pop(place, None)
        if replica is not None:
            replica.on_cut()
        log = self._logs.pop(place, None)
        if log is not None:
            with contextlib.suppress(StoreError):
                log.close()
        shutil.rmtree(self._path(place), ignore_errors=True)
        return replica

    def find(self, error: DamagedLog) -> Log | None:
        """The log that the damage was found in; the error names a file of it, or the folder."""
        return next((log for log in self._logs.values() if error.path.startswith(log.path + "/")), None)

    def name_of(self, log: Log) -> TopicPartition | None:
        return next(((topic, number) for (topic, _, number), known in self._logs.items() if known is log), None)

    def forget_replicas(self) -> None:
        """The core begins anew; the logs stay open."""
        for replica in self.replicas.values():
            replica.on_cut()
        self.replicas.clear()
        self._retired.clear()

    def close(self) -> None:
        for replica in self.replicas.values():
            try:
                replica.save(closing=True)
            except StoreError as error:
                _log.warning("%s", error)
        self.replicas.clear()
        for log in self._logs.values():
            try:
                log.close()
            except StoreError as error:
                _log.error("%s", error)
        self._logs.clear()


def number_of(info: TopicInfo, key: str, default: int) -> int:
    """A number of the topic's configuration. The register has checked it, but not every older one."""
    try:
        return int(info.config.get(key, default))
    except ValueError:
        return default


def settings_of(info: TopicInfo) -> LogSettings:
    size = number_of(info, SEGMENT_BYTES, LogSettings().segment_bytes)
    return LogSettings(segment_bytes=max(size, SEGMENT_BYTES_MIN))
