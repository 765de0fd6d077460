"""The register's tables of topics: what was saved comes back whole or not at all, and damage is named."""

from __future__ import annotations

import random
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from octoloom.core.errors import StoreError
from octoloom.core.log_messages import BrokerAddress, PartitionState, TopicInfo
from octoloom.core.log_saved import Counters, Identity, LogSaved, Persist
from octoloom.core.register_messages import Directory
from octoloom.storage.register_store import RegisterStore
from octoloom.storage.topic_store import TABLES, TopicTables

BROKERS = {f"b{n}#1": BrokerAddress(f"b{n}#1", "127.0.0.1", 9092 + n, f"disk{n}", 7, n) for n in (1, 2, 3)}


def state(epoch: int, version: int = 1) -> PartitionState:
    return PartitionState("b1#1", epoch, ["b1#1", "b2#1"], ["b1", "b2", "b3"], version)


def first_step(partitions: int = 3) -> Persist:
    step = Persist(Counters(revision=1, topics=1), {"b1": Identity(1, "disk1")}, dict(BROKERS))
    step.topics = {"moves": TopicInfo("moves", 1, {"retention.ms": "1000", "ü": "ö"})}
    step.partitions = {("moves", number): state(1) for number in range(partitions)}
    return step


def applied(old: LogSaved, step: Persist) -> LogSaved:
    """What a step means, said plainly."""
    topics = {name: info for name, info in {**old.topics, **step.topics}.items() if info is not None}
    places = {**old.partitions, **step.partitions}
    brokers = old.brokers if step.brokers is None else dict(step.brokers)
    kept = {place: state for place, state in places.items() if state is not None}
    return LogSaved(step.counters, {**old.identities, **step.identities}, brokers, topics, kept)


EMPTY = LogSaved(Counters(), {}, {}, {}, {})


class Dice:
    """Steps that could come from a core: topics come and go whole, and partitions are contiguous."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._counters = Counters()
        self._sizes: dict[str, int] = {}

    def step(self) -> Persist:
        roll = self._random
        count = self._counters.topics
        step = Persist(self._counters)
        match roll.randrange(5):
            case 0 if len(self._sizes) < 5:
                count += 1
                name = f"t{roll.randrange(8)}" if roll.random() < 0.5 else f"new{count}"
                if name not in self._sizes:
                    self._sizes[name] = size = roll.randrange(1, 5)
                    step.topics[name] = TopicInfo(name, count, {"segment.bytes": str(roll.randrange(10**6))})
                    step.partitions.update({(name, number): state(1) for number in range(size)})
            case 1 if self._sizes:
                name = roll.choice(list(self._sizes))
                step.topics[name] = None
                step.partitions.update(dict.fromkeys((name, number) for number in range(self._sizes.pop(name))))
            case 2:
                step.brokers = {broker: BROKERS[broker] for broker in roll.sample(list(BROKERS), roll.randrange(4))}
            case 3:
                step.identities[f"b{roll.randrange(4)}"] = Identity(roll.randrange(9), f"disk{roll.randrange(9)}")
            case _ if self._sizes:
                name = roll.choice(list(self._sizes))
                step.partitions[name, roll.randrange(self._sizes[name])] = state(roll.randrange(99), roll.randrange(99))
        step.counters = self._counters = Counters(self._counters.revision + 1, count)
        return step


@pytest.mark.parametrize("seed", range(5))
def test_any_steps_in_any_transactions_come_back(tmp_path: Path, seed: int) -> None:
    dice, roll, expected = Dice(seed), random.Random(seed), EMPTY
    store = RegisterStore(tmp_path / "register.db")
    assert store.load_log() is None
    for _ in range(40):
        steps = [dice.step() for _ in range(roll.randrange(1, 5))]
        for step in steps:
            expected = applied(expected, step)
        store.save(None, steps)
        if roll.random() < 0.2:
            store.close()
            store = RegisterStore(tmp_path / "register.db")
        assert store.load_log() == expected
    store.close()


def test_chains_and_topics_lie_in_one_file_side_by_side(tmp_path: Path) -> None:
    store = RegisterStore(tmp_path / "register.db")
    store.save(Directory(5, {}, {}), [first_step()])
    store.save(None, [Persist(Counters(revision=2, topics=1))])
    store.save(Directory(6, {}, {}))
    store.close()
    store = RegisterStore(tmp_path / "register.db")
    assert store.load() == Directory(6, {}, {})
    loaded = store.load_log()
    assert loaded is not None
    assert loaded.counters.revision == 2
    assert len(loaded.partitions) == 3
    store.close()


def test_a_step_that_fails_midway_leaves_nothing_of_itself(tmp_path: Path) -> None:
    store = RegisterStore(tmp_path / "register.db")
    store.save(Directory(1, {}, {}), [first_step()])
    before = store.load_log()
    store._database.execute(
        "CREATE TEMP TRIGGER full BEFORE INSERT ON log_partitions WHEN NEW.number = 7"
        " BEGIN SELECT RAISE(ABORT, 'disk is full'); END"
    )
    step = Persist(Counters(revision=9, topics=1))
    step.partitions = {("moves", number): state(2) for number in range(10)}
    with pytest.raises(StoreError, match="disk is full"):
        store.save(Directory(9, {}, {}), [step])
    assert store.load_log() == before
    assert store.load() == Directory(1, {}, {})
    store._database.execute("DROP TRIGGER full")
    store.save(None, [step])
    store.close()


WRITER = """
import sys
sys.path.insert(0, sys.argv[2])
from tests.storage.test_topic_store import Persist, Counters, RegisterStore, first_step, state
store = RegisterStore(sys.argv[1])
loaded = store.load_log()
revision = loaded.counters.revision if loaded else 1
store.save(None, [] if loaded else [first_step(50)])
print("ready", revision, flush=True)
while True:
    revision += 1
    step = Persist(Counters(revision, 1))
    step.partitions = {("moves", number): state(revision) for number in range(50)}
    store.save(None, [step])
    print("saved", revision, flush=True)
"""


def test_a_killed_process_loses_nothing_that_it_had_saved_and_halves_nothing(tmp_path: Path) -> None:
    root, path = str(Path(__file__).parent.parent.parent), tmp_path / "register.db"
    told = 0
    for lines in (3, 10, 30):
        process = subprocess.Popen([sys.executable, "-c", WRITER, str(path), root], stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        for _ in range(lines):
            told = int(process.stdout.readline().split()[1])
        process.send_signal(signal.SIGKILL)
        told = max([told, *(int(line.split()[1]) for line in process.stdout if line.endswith("\n"))])
        process.wait()
        store = RegisterStore(path)
        loaded = store.load_log()
        store.close()
        assert loaded is not None
        assert loaded.counters.revision >= told
        if loaded.counters.revision > 1:
            assert {each.epoch for each in loaded.partitions.values()} == {loaded.counters.revision}


def test_a_file_from_before_there_were_topics_is_brought_up_to_date(tmp_path: Path) -> None:
    path = tmp_path / "register.db"
    store = RegisterStore(path)
    store.save(Directory(3, {}, {}))
    store.close()
    with sqlite3.connect(path) as database:  # what version 1 had
        for table in TABLES:
            database.execute(f"DROP TABLE {table}")
        database.execute("PRAGMA user_version = 1")
    database.close()
    store = RegisterStore(path)
    assert store.load() == Directory(3, {}, {})
    assert store.load_log() is None
    store.save(None, [first_step()])
    store.close()
    store = RegisterStore(path)
    assert store.load_log() == applied(EMPTY, first_step())
    assert store.load() == Directory(3, {}, {})
    store.close()


DAMAGE = [
    "UPDATE log_partitions SET body = replace(body, 'b1#1', 'b9#1') WHERE number = 1",
    "UPDATE log_partitions SET crc = crc + 1 WHERE number = 2",
    "UPDATE log_partitions SET number = 9 WHERE number = 2",
    "UPDATE log_partitions SET name = 'other'",
    "; ".join(f"UPDATE log_partitions SET number = {to} WHERE number = {at}" for at, to in ((1, 9), (2, 1), (9, 2))),
    "UPDATE log_topics SET body = x'7b7d'",
    "UPDATE log_brokers SET body = 'text'",
    "DELETE FROM log_partitions WHERE number = 1",
    "DELETE FROM log_partitions",
    "DELETE FROM log_topics",
    "DELETE FROM log_counters",
    "DROP TABLE log_identities",
]


@pytest.mark.parametrize("damage", DAMAGE)
def test_damaged_rows_say_what_to_do(tmp_path: Path, damage: str) -> None:
    store = RegisterStore(tmp_path / "register.db")
    store.save(None, [first_step()])
    store.close()
    with sqlite3.connect(tmp_path / "register.db") as database:
        database.executescript(damage)
    database.close()
    store = RegisterStore(tmp_path / "register.db")
    with pytest.raises(StoreError, match=r"is damaged .*put a backup in its place"):
        store.load_log()
    store.close()


def test_a_body_that_is_whole_but_not_understood_is_damage_too(tmp_path: Path) -> None:
    store = RegisterStore(tmp_path / "register.db")
    store.save(None, [first_step()])
    TopicTables(store._database)._put("log_topics", [(("moves", 0), Identity(1, "a topic has no disk"))])
    with pytest.raises(StoreError, match=r"is damaged .*put a backup in its place"):
        store.load_log()
    store.close()


def test_a_thousand_partitions_are_one_transaction(tmp_path: Path) -> None:
    store = RegisterStore(tmp_path / "register.db")
    store.save(None, [first_step(1000)])
    said: list[str] = []
    store._database.set_trace_callback(said.append)
    step = Persist(Counters(revision=2, topics=1))
    step.partitions = {("moves", number): state(2) for number in range(1000)}
    store.save(None, [step])
    assert sum(text.startswith("COMMIT") for text in said) == 1
    assert sum(text.startswith("REPLACE INTO log_partitions") for text in said) == 1000
    store.close()
