"""The audit of a space: a history that happened is clean, and each kind of damage is found and named."""

from __future__ import annotations

from collections.abc import Callable
from itertools import zip_longest
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from octoloom.core.acknowledged import Settled
from octoloom.core.app import App, AppEvent
from octoloom.core.backlog import Backlog
from octoloom.core.compute import Worker
from octoloom.core.event import Event, Outcome
from octoloom.core.findings import MEANINGS
from octoloom.core.journal_audit import SpaceAudit, SpaceVerdict
from octoloom.core.merge_patch import copied
from octoloom.core.replay import Replayer
from octoloom.core.space import Space, encode_json
from tests.core.audit_story import (
    Entries,
    change_at,
    entries_of,
    find,
    history,
    kills_of,
    played,
    rewritten,
)
from tests.core.simulated_journals import SEEDS, simulated_journals


def audit(entries: Entries, told: list[Settled] | None = None, saving: bool = False) -> SpaceVerdict:
    made = SpaceAudit("table", told or ())
    for offset, (generation, entry) in enumerate(entries):
        if saving:
            made = SpaceAudit.load(made.save())
        made.read(generation, entry, (0, offset))
    return made.finish()


def acknowledgements(entries: Entries) -> list[Settled]:
    return [
        Settled("table", kill.device, kill.sequencer, kill.outcome.word, version) for version, kill in kills_of(entries)
    ]


def generations() -> Entries:
    """Two generations, with records that come again, and some that the second one undid."""
    one = played(5, 60)
    void = entries_of(one)[-2:]
    one.begin_anew(lost=2)
    one.play(60)
    entries = entries_of(one)
    at = next(at for at, (_, entry) in enumerate(entries) if entry.start is not None)
    return [*entries[:at], *void, *entries[at - 4 : at], entries[at], void[0], *entries[at:]]


@pytest.mark.parametrize("seed", range(6))
def test_a_history_that_happened_is_clean(seed: int) -> None:
    entries = history(seed)
    verdict = audit(entries, acknowledgements(entries))
    assert (verdict.counts, verdict.changes, verdict.version) == ({}, len(entries), len(entries))


@pytest.mark.parametrize("seed", SEEDS)
def test_what_the_simulation_did_is_clean(seed: int) -> None:
    journals = simulated_journals(seed)
    assert journals
    for entries in journals.values():
        assert audit(entries).counts == {}


@pytest.mark.parametrize("saving", [False, True])
def test_generations_and_records_that_come_again_are_clean(saving: bool) -> None:
    verdict = audit(generations(), saving=saving)
    assert (verdict.counts, verdict.generation, verdict.again, verdict.undone) == ({}, 2, 6, 2)


# Damage, each with the name that it must get.

Damage = Callable[[Entries], Entries]


def _of_two(change: Any, events: Any) -> bool:
    """A change of two devices' events that were applied."""
    return len({k.device for k in change.kills}) == len(change.kills) == 2 and all(
        k.outcome is Outcome.APPLIED and e.name == "move" for k, e in zip(change.kills, events, strict=True)
    )


def lost_change(entries: Entries) -> Entries:
    return entries[:20] + entries[21:]


def doubled_effect(entries: Entries) -> Entries:
    """The same events take effect in a version of their own once more."""
    at = find(entries, lambda change, events: b'"count"' in change.merge)
    again = rewritten(entries, at, version=len(entries) + 1)[at]
    return [*entries, again]


def swapped_events(entries: Entries) -> Entries:
    """Two events of one device, in two changes, change their places."""
    for at in range(10, len(entries)):
        device = change_at(entries, at).kills[0].device
        mine = [
            (place, number)
            for place in (at, at + 1)
            for number, kill in enumerate(change_at(entries, place).kills)
            if kill.device == device and not device.startswith("@")
        ]
        if len(mine) == 2 and mine[0][0] != mine[1][0] and not entries[at][1].waiting:
            break
    (one, first), (other, second) = mine
    kills = [list(change_at(entries, place).kills) for place in (one, other)]
    events = [list(entries[place][1].events) for place in (one, other)]
    kills[0][first], kills[1][second] = kills[1][second], kills[0][first]
    events[0][first], events[1][second] = events[1][second], events[0][first]
    entries = rewritten(entries, one, kills=kills[0], events=events[0])
    return rewritten(entries, other, kills=kills[1], events=events[1])


def forged_version(entries: Entries) -> Entries:
    return rewritten(entries, 20, version=entries[20][1].version + 3)


def forged_older_version(entries: Entries) -> Entries:
    return rewritten(entries, 20, version=entries[20][1].version - 3)


def misplaced_version(entries: Entries) -> Entries:
    return [*entries[:20], entries[21], entries[20], *entries[22:]]


def forked_version(entries: Entries) -> Entries:
    other = rewritten(entries, 20, merge=b'{"count":1000}')[20]
    return [*entries[:22], other, *entries[22:]]


def altered_payload(entries: Entries) -> Entries:
    at = find(entries, lambda change, events: events[0].name == "move")
    first, *others = entries[at][1].events
    return rewritten(entries, at, events=[msgspec.structs.replace(first, payload=b'{"square":8}'), *others])


def altered_patch(entries: Entries) -> Entries:
    """A refused event with an effect after all."""
    at = find(entries, lambda change, events: all(k.outcome is Outcome.REJECTED for k in change.kills))
    return rewritten(entries, at, merge=b'{"count":99}')


def removed_from_the_state(entries: Entries) -> Entries:
    """A patch that was altered is seen where a later one says what is so already."""
    at = find(entries, lambda change, events: b'"count"' in change.merge)
    later = find(entries, lambda change, events: b'"count"' in change.merge, at + 1)
    patch = msgspec.json.decode(change_at(entries, at).merge)
    patch["count"] = msgspec.json.decode(change_at(entries, later).merge)["count"]
    return rewritten(entries, at, merge=encode_json(patch))


def missing_event(entries: Entries) -> Entries:
    at = find(entries, _of_two)
    return rewritten(entries, at, events=entries[at][1].events[:1])


def swapped_in_the_list(entries: Entries) -> Entries:
    at = find(entries, _of_two)
    return rewritten(entries, at, events=entries[at][1].events[::-1])


def forged_device(entries: Entries) -> Entries:
    at = find(entries, _of_two)
    first, second = entries[at][1].events
    return rewritten(entries, at, events=[msgspec.structs.replace(first, device="mallory"), second])


def unknown_outcome(entries: Entries) -> Entries:
    first, *others = change_at(entries, 20).kills
    return rewritten(entries, 20, kills=[msgspec.structs.replace(first, outcome=Outcome.FORGOTTEN), *others])


def altered_time(entries: Entries) -> Entries:
    at = find(entries, lambda change, events: events[0].name == "move" and len(events) == 1)
    [event] = entries[at][1].events
    return rewritten(entries, at, events=[msgspec.structs.replace(event, time_ms=event.time_ms - 100_000)])


def forgotten_timer(entries: Entries) -> Entries:
    at = find(entries, lambda change, events: change.timers)
    return rewritten(entries, at, timers=[])


def forged_presence(entries: Entries) -> Entries:
    return rewritten(entries, 20, presence=[("mallory", True)])


def older_epoch(entries: Entries) -> Entries:
    return rewritten(rewritten(entries, 20, epoch=5), 21, epoch=4)


def waiting_again(entries: Entries) -> Entries:
    generation, entry = entries[20]
    return [
        *entries[:20],
        (generation, msgspec.structs.replace(entry, waiting=entries[10][1].events)),
        *entries[21:],
    ]


DAMAGE: list[tuple[Damage, str]] = [
    (lost_change, "version-missing"),
    (doubled_effect, "settled-twice"),
    (swapped_events, "out-of-order"),
    (forged_version, "version-forged"),
    (forged_older_version, "version-forged"),
    (misplaced_version, "version-misplaced"),
    (forked_version, "version-forked"),
    (altered_payload, "digest-differs"),
    (altered_patch, "effect-without-cause"),
    (removed_from_the_state, "patch-idle"),
    (missing_event, "event-missing"),
    (swapped_in_the_list, "event-mismatch"),
    (forged_device, "event-mismatch"),
    (unknown_outcome, "outcome-invalid"),
    (altered_time, "time-back"),
    (forgotten_timer, "timer-unset"),
    (forged_presence, "presence-differs"),
    (older_epoch, "epoch-back"),
    (waiting_again, "waiting-settled"),
]


@pytest.mark.parametrize(("damage", "name"), DAMAGE, ids=[damage.__name__ for damage, _ in DAMAGE])
def test_each_damage_is_found_and_named(damage: Damage, name: str) -> None:
    entries = history(3, 240)
    damaged = damage(entries)
    verdict = audit(damaged)
    assert name in verdict.counts
    assert verdict.counts == audit(damaged, saving=True).counts
    found = next(each for each in verdict.findings if each.name == name)
    assert (found.about, found.partition) == ("table", 0)
    assert found.text
    assert MEANINGS[name]
    # The place is the record that was altered, or one behind it.
    assert found.offset >= next(at for at, pair in enumerate(zip_longest(entries, damaged)) if pair[0] != pair[1])


def test_one_lost_change_is_one_finding() -> None:
    """What follows from it is not told as if it were damage of its own."""
    assert audit(lost_change(history(3, 240))).counts == {"version-missing": 1}
    assert audit(forged_version(history(3, 240))).counts == {"version-forged": 1}
    assert audit(forged_older_version(history(3, 240))).counts == {"version-forged": 1}
    assert audit(forked_version(history(3, 240))).counts == {"version-forked": 1}
    assert audit(misplaced_version(history(3, 240))).counts == {"version-misplaced": 1}
    assert audit(missing_event(history(3, 240))).counts == {"event-missing": 1}


def test_outcomes_are_held_against_what_devices_were_told() -> None:
    entries = history(3, 240)
    told = acknowledgements(entries)
    at = find(entries, lambda change, events: change.kills[0].outcome is Outcome.APPLIED and events[0].name == "move")
    first, *others = change_at(entries, at).kills
    forged = rewritten(entries, at, kills=[msgspec.structs.replace(first, outcome=Outcome.REJECTED), *others])
    assert "acknowledged-otherwise" in audit(forged, told).counts
    lost = audit([*entries[:-1]], told)
    assert lost.counts == {"acknowledged-lost": len(change_at(entries, -1).kills)}


def test_what_was_told_of_versions_that_were_undone_is_lost() -> None:
    """Unless it was settled again, in the generation that counts."""
    entries = generations()
    at = next(at for at, (_, entry) in enumerate(entries) if entry.start is not None)
    void = acknowledgements(entries[at - 6 : at - 4])
    assert audit(entries, acknowledgements(entries[: at - 6])).counts == {}
    lost = audit(entries, void)
    assert set(lost.counts) <= {"acknowledged-lost", "acknowledged-otherwise"}
    assert not lost.clean
    assert audit(entries[:at], void).clean


def test_a_generation_that_begins_with_something_else_is_found() -> None:
    entries = generations()
    at = next(at for at, (_, entry) in enumerate(entries) if entry.start is not None)
    entries = [*entries[: at - 6], *entries[at:]]  # nothing undone: the start follows what it took over
    generation, entry = entries[at - 6]
    start = entry.start
    assert start is not None
    assert audit(entries).clean
    state = copied(msgspec.json.decode(start.state)) | {"count": 1}
    alterations: list[dict[str, Any]] = [
        {"state": encode_json(state)},
        {"next_timer": 99},
        {"present": []},
        {"devices": []},
    ]
    for fields in alterations:
        altered = msgspec.structs.replace(entry, start=msgspec.structs.replace(start, **fields))
        verdict = audit([*entries[: at - 6], (generation, altered), *entries[at - 5 :]])
        assert "start-differs" in verdict.counts
    assert "start-missing" in audit([*entries[: at - 6], *entries[at - 3 :]]).counts
    assert "version-missing" in audit([*entries[: at - 8], *entries[at - 6 :]]).counts


def test_what_cannot_be_read_is_told() -> None:
    made = SpaceAudit("table")
    made.unreadable("this is not JSON", (2, 77))
    [finding] = made.finish().findings
    assert (finding.name, finding.place) == ("unreadable", "partition 2, offset 77")


# Whatever an app writes, its journal is clean.

values: Any = st.recursive(
    st.none() | st.booleans() | st.integers(0, 2) | st.floats(0, 1, width=16),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from("xyz"), inner, max_size=2),
    max_leaves=4,
)
writes = st.lists(st.tuples(st.lists(st.sampled_from("xyz"), min_size=1, max_size=3), values), max_size=4)


def writer() -> App:
    """An app that writes what it is told to; a 2 removes, and whoever writes into a leaf fails."""
    app = App("writer", state={"x": {"y": 1}})

    @app.on("write")
    def write(state: Any, event: AppEvent) -> None:
        for path, value in event.payload:
            place = state
            for key in path[:-1]:
                place = place.setdefault(key, {})
            if value == 2:
                place.pop(path[-1], None)
            else:
                place[path[-1]] = value
            if isinstance(value, list) and value:
                place[path[-1]].append(value[0])

    return app


@given(st.lists(writes, min_size=1, max_size=8), st.integers(1, 3))
def test_whatever_an_app_writes_its_journal_is_clean(history: list[Any], batch: int) -> None:
    space = Space("table")
    space.backlog = Backlog()
    worker = Worker(writer(), space)
    for at in range(0, len(history), batch):
        for payload in history[at : at + batch]:
            number = space.next_chain_sequencer
            event = Event(number, "ada", number, "write", encode_json(payload), number, number)
            space.add(event)
            worker.inbox.append(event)
        worker.step(1)
    entries = [(1, entry) for entry in space.backlog.entries()]
    assert audit(entries, saving=True).counts == {}
    replayer = Replayer("table", writer())
    assert [replayer.read(*each) for each in entries] == [[] for _ in entries]
