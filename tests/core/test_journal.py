"""The journal's reader: each version once, in order, whatever heads and generations wrote."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from octoloom.core.backlog import Backlog
from octoloom.core.event import Change, Event, JournalEntry, Kill, Outcome
from octoloom.core.journal import JournalGap, JournalReader
from octoloom.core.space import Space


def event(number: int, sequencer: int = 0) -> Event:
    return Event(number, "ada", sequencer or number, "put", b"%d" % number, 100 + number, number)


def change(version: int, *killed: int, merge: Any = None) -> Change:
    """Kills the events with these numbers; if nothing is said it puts the version into the state."""
    kills = [Kill(number, "ada", number, Outcome.APPLIED) for number in killed]
    return Change(1, version, False, msgspec.json.encode(merge or {"version": version}), kills)


class Writer:
    """A space and its journal. Changes consume the event of their version, unless told otherwise."""

    def __init__(self) -> None:
        self.space = Space("lobby")
        self.space.backlog = Backlog()
        self.log: list[tuple[int, JournalEntry]] = []
        self.generation = 1

    def go_on(self, *killed: int) -> None:
        version = self.space.version + 1
        for number in range(self.space.next_chain_sequencer, max(killed, default=version) + 1):
            self.space.add(event(number))
        self.space.apply(change(version, *(killed or (version,))))

    def publish(self) -> None:
        assert self.space.backlog is not None
        self.log += [(self.generation, entry) for entry in self.space.backlog.unpublished()]

    def read(self) -> JournalReader:
        reader = JournalReader("lobby")
        for generation, entry in self.log:
            reader.read(generation, entry)
        return reader

    def start_anew(self) -> None:
        """All links are lost: a new generation takes over what the journal holds."""
        snapshot = self.read().start()
        self.generation += 1
        self.space = Space("lobby")
        self.space.backlog = Backlog()
        self.space.restore(snapshot)


def whole(space: Space) -> tuple[Any, ...]:
    """All that a replica is, but for what it still has to hand over."""
    bare = msgspec.structs.replace(space.snapshot(), journaled=0, backlog=[])
    return msgspec.structs.astuple(bare)


def test_a_reader_holds_what_the_writer_held() -> None:
    writer = Writer()
    for _ in range(3):
        writer.go_on()
    writer.publish()
    reader = writer.read()
    assert reader.space.state == {"version": 3}
    assert whole(reader.space) == whole(writer.space)


def test_what_comes_again_is_dropped() -> None:
    writer = Writer()
    for _ in range(3):
        writer.go_on()
    writer.publish()
    reader = JournalReader("lobby")
    assert [reader.read(*record) for record in writer.log] == [True] * 3
    assert [reader.read(*record) for record in writer.log] == [False] * 3
    assert reader.space.version == 3


def test_a_missing_version_is_a_gap_and_changes_nothing() -> None:
    writer = Writer()
    for _ in range(3):
        writer.go_on()
    writer.publish()
    reader = JournalReader("lobby")
    reader.read(*writer.log[0])
    with pytest.raises(JournalGap, match="lobby: version 3 of generation 1 follows 1: a record is missing"):
        reader.read(*writer.log[2])
    assert (reader.space.version, reader.generation) == (1, 1)
    assert reader.read(*writer.log[1])


def test_an_event_that_was_deferred_is_live_for_the_reader_too() -> None:
    """Event 2 is consumed before event 1, and the journal has not told of event 1 before."""
    writer = Writer()
    writer.go_on(2)
    writer.publish()
    reader = writer.read()
    assert list(reader.space.events) == [1]
    assert whole(reader.space) == whole(writer.space)
    writer.go_on(1)
    writer.publish()
    assert writer.log[1][1].waiting == []
    assert whole(writer.read().space) == whole(writer.space)


def test_time_is_that_of_the_last_event() -> None:
    writer = Writer()
    writer.go_on(1, 2)
    writer.go_on(3)
    writer.publish()
    assert writer.read().space.time_ms == 103


def test_time_does_not_go_back_with_an_older_event() -> None:
    writer = Writer()
    writer.go_on(2, 1)
    writer.publish()
    assert writer.read().space.time_ms == 102


def test_a_journal_that_is_kept_from_now_on_begins_with_all_of_the_space() -> None:
    silent = Space("lobby")
    for version in (1, 2):
        silent.add(event(version))
        silent.apply(change(version, version))
    writer = Writer()
    writer.space.restore(silent.snapshot())
    writer.go_on()
    writer.publish()
    assert [(entry.version, entry.start is not None) for _, entry in writer.log] == [(2, True), (3, False)]
    reader = writer.read()
    assert (reader.space.version, reader.space.state) == (3, {"version": 3})


def test_a_new_generation_begins_with_all_of_the_space() -> None:
    writer = Writer()
    writer.go_on()
    writer.publish()
    writer.start_anew()
    writer.publish()
    [(generation, start)] = writer.log[1:]
    assert (generation, start.version, start.change, start.events) == (2, 1, None, [])
    writer.go_on()
    writer.publish()
    reader = writer.read()
    assert (reader.generation, reader.space.version) == (2, 2)
    assert whole(reader.space) == whole(writer.space)


def test_what_a_lost_generation_still_writes_is_dropped() -> None:
    """The old head had version 2 under way when its chain was lost; the new generation has another version 2."""
    writer = Writer()
    writer.go_on()
    writer.publish()
    stray = (1, JournalEntry(2, change(2, 2, merge={"stray": True}), [event(2)]))
    writer.start_anew()
    writer.publish()
    writer.go_on()
    writer.publish()
    writer.log += [stray]
    assert writer.read().space.state == {"version": 2}
    writer.log.insert(2, writer.log.pop())
    assert writer.read().space.state == {"version": 2}


def test_a_generation_that_starts_further_on_takes_the_reader_along() -> None:
    """What the lost generation had written after the new one had read is not in the new one, and is undone."""
    writer = Writer()
    writer.go_on()
    writer.publish()
    snapshot = writer.read().start()
    writer.go_on()
    writer.publish()
    reader = writer.read()
    assert reader.space.version == 2
    [start] = snapshot.backlog
    assert reader.read(2, start)
    assert (reader.generation, reader.space.version, reader.space.state) == (2, 1, {"version": 1})


def test_a_start_is_a_record_that_is_still_to_be_published() -> None:
    writer = Writer()
    writer.go_on()
    writer.go_on()
    writer.publish()
    snapshot = writer.read().start()
    assert (snapshot.version, snapshot.journaled, [entry.version for entry in snapshot.backlog]) == (2, 1, [2])


def test_a_journal_without_records_starts_from_nothing() -> None:
    snapshot = JournalReader("lobby").start()
    assert (snapshot.version, snapshot.state) == (0, b"{}")


steps = st.lists(st.sampled_from(["go on", "go on", "publish", "journaled", "new head", "start anew"]), max_size=40)


@given(steps)
def test_any_history_of_heads_and_generations_is_read_as_it_was_published(history: list[str]) -> None:
    writer = Writer()
    for step in history:
        assert writer.space.backlog is not None
        if step == "go on":
            writer.go_on()
        elif step == "publish":
            writer.publish()
        elif step == "journaled":
            writer.space.backlog.on_journaled(writer.read().space.version)
        elif step == "new head":
            writer.space.backlog.publish_anew()
        else:
            writer.start_anew()
    writer.publish()
    assert whole(writer.read().space) == whole(writer.space)
