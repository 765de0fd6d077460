"""Journals of any size, without a cluster: the real reducer and the real worker play, and the real codec writes.

A `Play` is one space with devices that come, move and go. What it journals is what a chain's head would publish: each
change with the events that it consumed, in batches of one to a few events, and a `start` when a generation begins anew.
The same arguments give the same journal.

    records = make_journal(spaces=10, events=1_000)          # the arena, as in the demo
    rows = to_rows(doubled(records))                         # as they lie in the topic, some of them twice
    table = to_arrow(rows)                                   # with the columns of format("octoloom")
    produce(bootstrap, "journal", rows)                      # or into a real topic
"""

from __future__ import annotations

import asyncio
import heapq
import random
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from octoloom.arena import CELLS
from octoloom.arena import app as arena
from octoloom.core.app import App
from octoloom.core.backlog import Backlog
from octoloom.core.compute import Worker
from octoloom.core.event import JOIN, LEAVE, PRESENCE, TIMER, Event
from octoloom.core.journal import JournalReader
from octoloom.core.space import Space, decode_json, encode_json
from octoloom.runtime.log_client import LogClient
from octoloom.runtime.log_producer import Producer
from octoloom.wire.journal import TOPIC, Headers, JournalRecord, encode, encode_mark
from octoloom.wire.kafka.partitioner import partition_of

BEGINNING_MS = 1_767_225_600_000
PARTITIONS = 8
STEP_MAX = 4
"""How many events one change consumes at most."""

Move = tuple[str, Any]
Moves = Callable[[random.Random, str, int], Move]


def claims(dice: random.Random, device: str, number: int) -> Move:
    """A move of the arena's; one in fifty is off the board."""
    cell = dice.choice(CELLS) if dice.random() < 0.98 else "z9"
    return "claim", {"cell": cell, "number": number}


class Row(NamedTuple):
    """A record in its place."""

    key: bytes | None
    value: bytes | None
    headers: Headers
    topic: str
    partition: int
    offset: int
    timestamp_ms: int


class Play:
    """One space. `play` goes on with it, `begin_anew` is what a chain does that has lost all of its links."""

    def __init__(self, app: App, space: str, devices: int, seed: int, moves: Moves = claims) -> None:
        self.app, self.moves, self.generation = app, moves, 1
        self.dice = random.Random(f"{seed} {space}")
        self.devices = [f"{space}-{number}" for number in range(1, devices + 1)]
        self.records: list[JournalRecord] = []
        self.now = BEGINNING_MS + self.dice.randrange(1_000)
        self._take(Space(space))

    def _take(self, space: Space) -> None:
        space.backlog = Backlog(space.version)
        self.space, self.worker = space, Worker(self.app, space)

    def play(self, events: int) -> list[JournalRecord]:
        """So many more events (and the timers that fall due): the records that are new."""
        before, left = len(self.records), events
        while left > 0:
            taken = min(left, self.dice.randint(1, STEP_MAX))
            left -= taken
            for _ in range(taken):
                self.now += self.dice.randint(1, 400)
                self._fire()
                self._move()
            self._step()
        return self.records[before:]

    def _move(self) -> None:
        device = self.dice.choice(self.devices)
        is_there = device in self.space.present
        # Those who have come in the same step are not in the space's book yet: they move when it is written.
        if not is_there or self.dice.random() < 0.01:
            self._put(PRESENCE, LEAVE if is_there else JOIN, {"device": device})
            self._step()
            return
        name, payload = self.moves(self.dice, device, self.space.device(device).next())
        self._put(device, name, payload)

    def _fire(self) -> None:
        due = [timer for timer in self.space.timers.values() if timer.due_ms <= self.now]
        for timer in sorted(due, key=lambda one: (one.due_ms, one.timer)):
            if timer.timer not in self.space.device(TIMER).live:
                self._put(TIMER, timer.name, decode_json(timer.payload), timer.timer)

    def _put(self, device: str, name: str, payload: Any, sequencer: int | None = None) -> None:
        space = self.space
        number = space.device(device).next() if sequencer is None else sequencer
        dice = self.dice.getrandbits(64)
        event = Event(space.next_chain_sequencer, device, number, name, encode_json(payload), self.now, dice)
        space.add(event)
        self.worker.inbox.append(event)

    def _step(self) -> None:
        change = self.worker.step(epoch=self.generation)
        if change is None:
            return
        assert self.space.backlog is not None
        self.now += self.dice.randint(1, 30)
        for entry in self.space.backlog.entries():
            self.records.append(
                JournalRecord(self.space.name, "chain1", self.generation, change.epoch, self.now, entry)
            )
        self.space.backlog.on_journaled(change.version)

    def begin_anew(self, lost: int = 0) -> JournalRecord:
        """The `start` of the next generation, made of all records so far but the last `lost`.

        Those are void from now on, wherever they turn up: the caller puts them into the journal, or does not.
        """
        reader = JournalReader(self.space.name)
        for record in self.records[: len(self.records) - lost]:
            reader.read(record.generation, record.entry)
        self.generation += 1
        snapshot = reader.start()
        space = Space(self.space.name)
        space.restore(snapshot)
        self._take(space)
        self.now += 1_000
        entry = snapshot.backlog[0]
        start = JournalRecord(space.name, "chain1", self.generation, self.generation, self.now, entry)
        self.records = [*self.records[: len(self.records) - lost], start]
        return start

    def state(self) -> dict[str, Any]:
        """The live state, as plain JSON."""
        state: dict[str, Any] = decode_json(encode_json(self.space.state))
        return state


def make_plays(
    app: App = arena, *, spaces: int = 3, events: int = 300, devices: int = 4, seed: int = 1, moves: Moves = claims
) -> list[Play]:
    """Spaces that were played: `events` are those of all together, `devices` those of each."""
    plays = [Play(app, f"space{number}", devices, seed, moves) for number in range(1, spaces + 1)]
    for number, play in enumerate(plays):
        play.play(events // spaces + (number < events % spaces))
    return plays


def make_journal(
    app: App = arena, *, spaces: int = 3, events: int = 300, devices: int = 4, seed: int = 1, moves: Moves = claims
) -> list[JournalRecord]:
    """The records of all spaces, in the order of their time."""
    return merged(make_plays(app, spaces=spaces, events=events, devices=devices, seed=seed, moves=moves))


def merged(plays: Iterable[Play]) -> list[JournalRecord]:
    return list(heapq.merge(*(play.records for play in plays), key=lambda record: record.at_ms))


def doubled(records: list[JournalRecord], seed: int = 1, times: int = 5, run_max: int = 20) -> list[JournalRecord]:
    """As after deaths of heads: the next one publishes the last records again, a moment later."""
    dice = random.Random(seed)
    places = sorted(dice.randrange(1, len(records) + 1) for _ in range(times))
    out: list[JournalRecord] = []
    for number, record in enumerate(records, start=1):
        out.append(record)
        for _ in range(places.count(number)):
            again = records[max(0, number - dice.randint(1, run_max)) : number]
            out += [one._replace(at_ms=record.at_ms + 500) for one in again]
    return out


def troubled(seed: int = 1) -> tuple[list[JournalRecord], list[Play]]:
    """A journal with all that a reader has to cope with: two lost chains, and heads that published things twice.

    What space1 had lost was in the journal before its new generation began, and is void. What space2 had lost came
    after that, too late. The records of each play are the history that counts.
    """
    plays = make_plays(spaces=3, events=240, seed=seed)
    first, second, third = plays
    lost = second.records[-2:]
    before = [record for record in merged(plays) if not any(record is one for one in lost)]
    starts = [first.begin_anew(lost=3), second.begin_anew(lost=2)]
    after = heapq.merge(first.play(40), second.play(40), third.play(40), key=lambda record: record.at_ms)
    return [*doubled(before, seed), *starts, *lost, *doubled(list(after), seed)], plays


def to_kafka(record: JournalRecord) -> tuple[bytes, bytes, Headers]:
    """Key, value and headers."""
    return encode(record)


def to_rows(records: Iterable[JournalRecord], *, topic: str = TOPIC, partitions: int = PARTITIONS) -> list[Row]:
    """The records where a producer puts them, in the order given; each partition's offsets begin at 0."""
    ends = [0] * partitions
    rows = []
    for record in records:
        key, value, headers = encode(record)
        partition = partition_of(key, partitions)
        rows.append(Row(key, value, headers, topic, partition, ends[partition], record.at_ms))
        ends[partition] += 1
    return rows


def mark_row(at_ms: int = BEGINNING_MS, *, topic: str = TOPIC, partition: int = 0, offset: int = 0) -> Row:
    value, headers = encode_mark({"chain1": 2}, at_ms)
    return Row(None, value, headers, topic, partition, offset, at_ms)


def to_arrow(rows: Iterable[Row]) -> Any:
    """A pyarrow.Table with the columns of the source, in the order given."""
    import pyarrow as pa

    rows = list(rows)
    header = pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())])
    headers = [[{"key": key, "value": value} for key, value in row.headers] or None for row in rows]
    return pa.table(
        {
            "key": pa.array([row.key for row in rows], pa.binary()),
            "value": pa.array([row.value for row in rows], pa.binary()),
            "topic": pa.array([row.topic for row in rows], pa.string()),
            "partition": pa.array([row.partition for row in rows], pa.int32()),
            "offset": pa.array([row.offset for row in rows], pa.int64()),
            "timestamp": pa.array([row.timestamp_ms * 1000 for row in rows], pa.timestamp("us", "UTC")),
            "timestampType": pa.array([0 for _ in rows], pa.int32()),
            "headers": pa.array(headers, pa.list_(header)),
        }
    )


def to_frame(spark: Any, rows: Iterable[Row]) -> Any:
    """A Spark DataFrame as the source gives it: each partition is one task's, in the order of its offsets."""
    frame = spark.createDataFrame(to_arrow(rows))
    return frame.repartition("topic", "partition").sortWithinPartitions("topic", "partition", "offset")


def produce(bootstrap: str, topic: str, rows: Iterable[Row], *, partitions: int = PARTITIONS) -> None:
    """Makes the topic, unless it is there, and writes the rows into their partitions, in order."""
    asyncio.run(_produce(bootstrap, topic, list(rows), partitions))


async def _produce(bootstrap: str, topic: str, rows: list[Row], partitions: int) -> None:
    async with LogClient(bootstrap) as client:
        known = await client.metadata()
        if topic not in known.topics:
            # Kept for ever, as a link makes it: the times in it are of long ago.
            await client.create_topic(topic, partitions, config={"retention.ms": "-1"})
        async with Producer(client, in_flight_max=1) as producer:
            for row in rows:
                producer.send(
                    topic,
                    row.value,
                    key=row.key,
                    headers=row.headers,
                    partition=row.partition,
                    timestamp=row.timestamp_ms,
                )
                await producer.room()
