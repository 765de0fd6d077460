"""What is asked of every log alike: the cases, the loads, and how a load is measured.

A *record* is what a user wants to keep. A *message* is what a client sends of its own: one record, or a blob into which
the user has packed many. All figures are records.

  batched   one record per message, as many under way as suits the client: batches of librdkafka, 1,000 unacknowledged
            publishes of NATS, pipelines of 1,000 commands of Redis
  blobs     the user packs records into messages of 64 KB, and unpacks them again; the packing is part of the time
  single    one record per message, one message per request, at most `SINGLE_WINDOW` without an answer

A produce ends when everything sent is acknowledged by all replicas, and that is part of its time. A consume reads from
the beginning to the end and looks at the length of every record. Connections, topics and the first record of each run
are made before the clock starts.
"""

from __future__ import annotations

import struct
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, Protocol

import msgspec
import psutil

Sync = Literal["os", "always"]
Way = Literal["batched", "blobs", "single"]

BLOB_SIZE = 65_536
SINGLE_WINDOW = 5
"""What librdkafka allows an idempotent producer to have in flight."""
LATENCY_RATE = 200.0
LATENCY_SIZE = 100
DRAIN_S_MAX = 60.0
"""How long the last acknowledgements or records may take before a run counts as failed."""

_LENGTH = struct.Struct(">I")


class LogError(RuntimeError):
    """A log could not be started, or did not do what a run asked for."""


class Setup(msgspec.Struct, frozen=True):
    """One log that is measured."""

    system: str
    replicas: int
    sync: Sync

    def __str__(self) -> str:
        return f"{self.system}, {self.replicas} replica{'s' if self.replicas > 1 else ''}, sync {self.sync}"


@dataclass(frozen=True)
class Load:
    """Records of one size that are sent in one way, for some seconds."""

    size: int
    way: Way
    seconds: float

    @cached_property
    def record(self) -> bytes:
        return bytes(number * 31 % 251 for number in range(self.size))

    @cached_property
    def records_per_message(self) -> int:
        return BLOB_SIZE // (self.size + _LENGTH.size) if self.way == "blobs" else 1

    def messages(self, count: int) -> list[bytes]:
        """The next messages. What makes records is not what is measured; packing them into blobs is."""
        return [self.record] * count if self.way != "blobs" else [self.message() for _ in range(count)]

    def message(self) -> bytes:
        """The next message; a blob is packed from its records each time."""
        if self.way != "blobs":
            return self.record
        records = [self.record] * self.records_per_message
        return b"".join([part for record in records for part in (_LENGTH.pack(len(record)), record)])

    def look_at(self, messages: Sequence[bytes]) -> int:
        """What a reader does with what it got: unpack it, and look at every record. Answers how many there were."""
        if self.way == "blobs":
            messages = [record for blob in messages for record in unpacked(blob)]
        found = sum(map(len, messages))
        if found != len(messages) * self.size:
            raise LogError(f"{len(messages)} records of {self.size} bytes were expected, and {found} bytes came")
        return len(messages)


def unpacked(blob: bytes) -> list[bytes]:
    records, position = [], 0
    while position < len(blob):
        start = position + _LENGTH.size
        position = start + _LENGTH.unpack_from(blob, position)[0]
        records.append(blob[start:position])
    return records


class Measured(msgspec.Struct, frozen=True):
    """One run. CPU is in cores: seconds of CPU per second."""

    records: int
    elapsed_s: float
    client_cpu: float
    server_cpu: float

    @property
    def records_per_s(self) -> float:
        return self.records / self.elapsed_s


class Meter:
    """The clock of one run. A log starts it when it is connected, and stops it when the last answer is there."""

    def __init__(self, pids: Sequence[int]) -> None:
        self._servers = [psutil.Process(pid) for pid in pids]
        self._started = self._stopped = (0.0, 0.0, 0.0)

    def _now(self) -> tuple[float, float, float]:
        return time.perf_counter(), time.process_time(), sum(sum(each.cpu_times()[:2]) for each in self._servers)

    def start(self) -> None:
        self._started = self._now()

    def stop(self) -> None:
        self._stopped = self._now()

    def measured(self, records: int) -> Measured:
        elapsed, client, server = (after - before for before, after in zip(self._started, self._stopped, strict=True))
        return Measured(records, elapsed, client / elapsed, server / elapsed)


class Pace:
    """Turns of a slow sender: one message at a time, `LATENCY_RATE` a second at most. A late answer moves the rest."""

    def __init__(self) -> None:
        self._next = time.perf_counter()

    def pause_s(self) -> float:
        """How long to sleep before the next message."""
        now = time.perf_counter()
        pause = max(self._next - now, 0.0)
        self._next = now + pause + 1 / LATENCY_RATE
        return pause


class LogUnderTest(Protocol):
    """What can be measured. Only one run is under way at a time."""

    setup: Setup

    @property
    def pids(self) -> Sequence[int]: ...
    def make(self, topic: str) -> None: ...
    def drop(self, topic: str) -> None: ...

    def produce(self, topic: str, load: Load, meter: Meter) -> int:
        """Sends until the load's time is over; answers how many messages the topic holds. All are acknowledged."""

    def consume(self, topic: str, load: Load, messages: int, meter: Meter) -> int:
        """Reads all messages of a topic; answers how many records they held."""

    def latencies(self, topic: str, record: bytes, count: int) -> list[float]:
        """Seconds from a send to its acknowledgement, one at a time."""
