"""History computed again: equal with the same code, and different exactly where other code differs."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from octoloom.core.app import App, AppEvent, Reject, TookTooLong
from octoloom.core.event import Outcome
from octoloom.core.merge_patch import same
from octoloom.core.recorder import Recorder
from octoloom.core.replay import EXAMPLES_MAX, TOOK_TOO_LONG, Divergence, Replayer
from octoloom.simulation.game import make_game
from tests.core.audit_story import Entries, change_at, entries_of, find, history, make_app, played, rewritten
from tests.core.simulated_journals import SEEDS, simulated_journals


def replay(entries: Entries, app: App | None = None) -> tuple[Replayer, list[Divergence]]:
    replayer, found = Replayer("table", app or make_app()), []
    for offset, (generation, entry) in enumerate(entries):
        found += replayer.read(generation, entry, 3, offset)
    return replayer, found


@pytest.mark.parametrize("seed", range(6))
def test_the_same_code_gives_the_same_history(seed: int) -> None:
    one = played(seed)
    replayer, found = replay(entries_of(one))
    verdict = replayer.verdict()
    assert found == []
    assert verdict.clean
    assert same(replayer.state, one.state())
    assert same(replayer.own_state, one.state())
    assert (verdict.changes, verdict.version) == (len(one.records), one.space.version)


def test_a_history_has_all_that_a_journal_can_hold() -> None:
    """Otherwise the other tests prove little."""
    entries = [entry for seed in range(6) for _, entry in history(seed)]
    kills = [kill for entry in entries if entry.change for kill in entry.change.kills]
    assert {kill.outcome for kill in kills} >= {Outcome.APPLIED, Outcome.REJECTED, Outcome.SUPERSEDED}
    assert any(entry.waiting for entry in entries)
    assert any(entry.change and entry.change.timers for entry in entries)
    assert any(entry.change and entry.change.cancelled for entry in entries)
    assert any("the reducer failed" in kill.reason for kill in kills)


@pytest.mark.parametrize("seed", SEEDS)
def test_what_the_simulation_did_comes_out_the_same(seed: int) -> None:
    for entries in simulated_journals(seed).values():
        replayer, found = replay(entries, make_game())
        assert found == []
        assert replayer.verdict().clean


def test_what_comes_again_is_dropped() -> None:
    entries = history()
    replayer, found = replay([*entries[:10], *entries[4:10], *entries[10:], entries[3]])
    assert (found, replayer.verdict().dropped) == ([], 7)


def test_generations_go_on_from_their_start() -> None:
    one = played(2, 60)
    void = entries_of(one)[-3:]
    one.begin_anew(lost=3)
    one.play(60)
    entries = entries_of(one)
    at = next(at for at, (_, entry) in enumerate(entries) if entry.start is not None)
    # What the lost generation wrote stands before the start, and once more behind it.
    replayer, found = replay([*entries[:at], *void, entries[at], void[0], *entries[at + 1 :]])
    assert (found, replayer.verdict().generation) == ([], 2)
    assert same(replayer.state, one.state())


def test_a_changed_reducer_is_found_at_its_event() -> None:
    entries = history()
    replayer, found = replay(entries, make_app(step=2))
    verdict = replayer.verdict()
    first = found[0]
    assert (first.what, first.name, first.partition) == ("state", "move", 3)
    assert (first.recorded, first.replayed) == ("count = 1", "count = 2")
    assert entries[first.offset][1].version == first.version
    event = next(
        e for e in entries[first.offset][1].events if (e.device, e.sequencer) == (first.device, first.sequencer)
    )
    assert first.payload == event.payload.decode()
    # Each move is told, not only the first: every change is computed from what was recorded before it.
    assert verdict.counts["state"] > EXAMPLES_MAX
    assert max(each.version for each in found) > verdict.version - 5
    assert len(verdict.first) == EXAMPLES_MAX
    assert "count" in verdict.end


def test_an_event_that_would_end_otherwise_is_told_as_such() -> None:
    app = make_app()
    handler = app.handlers["move"]

    def stricter(state: Any, event: AppEvent) -> None:
        if event.payload["square"] == 3:
            raise Reject("three as well")
        handler(state, event)

    app.handlers["move"] = stricter
    entries = history()
    replayer, found = replay(entries, app)
    outcomes = replayer.verdict().outcomes
    threes = sum(e.payload == b'{"square":3}' for _, entry in entries for e in entry.events)
    assert threes
    assert outcomes["applied → rejected"] == threes
    told = [each for each in found if each.payload == '{"square":3}']
    assert [(each.what, each.recorded, each.replayed) for each in told] == [
        ("outcome", "applied", "rejected: three as well")
    ] * threes


def test_another_reason_is_another_history() -> None:
    replayer, found = replay(history(), make_app(refusal="no"))
    assert {(each.what, each.recorded, each.replayed) for each in found} == {
        ("reason", "rejected: seven is taken", "rejected: no")
    }
    assert replayer.verdict().end == ""


def test_an_event_that_need_not_wait_any_more_is_told() -> None:
    entries = history(4)
    replayer, found = replay(entries, make_app(patience=-100))
    assert {each.what for each in found} >= {"deferral"}
    assert "deferred → applied" in replayer.verdict().outcomes
    replayer, found = replay(entries, make_app(patience=5))
    assert "applied → deferred" in replayer.verdict().outcomes


def test_another_timer_is_told() -> None:
    _, found = replay(history(), make_app(fuse_ms=501))
    assert found[0].what == "timers"
    assert found[0].name == "fuse"


def test_what_came_from_outside_is_not_computed() -> None:
    """A quarantined event would end the process, and how slow a machine was no event says."""
    entries = history()
    at = find(entries, lambda change, events: [k.outcome for k in change.kills] == [Outcome.REJECTED])
    [kill] = change_at(entries, at).kills
    for outcome, reason in ((Outcome.QUARANTINED, "it ended"), (Outcome.REJECTED, TOOK_TOO_LONG)):
        imposed = msgspec.structs.replace(kill, outcome=outcome, reason=reason)
        replayer, found = replay(rewritten(entries, at, kills=[imposed]))
        assert (found, replayer.verdict().imposed) == ([], 1)


def test_the_reason_of_a_watchdog_is_the_one_that_is_known_here() -> None:
    app = App("slow")

    @app.on("move")
    def move(state: Any, event: AppEvent) -> None:
        raise TookTooLong

    verdict = app.run(Recorder({}), history()[1][1].events[0].__class__(1, "a", 1, "move", b"1", 0, 0), 1)
    assert verdict.reason == TOOK_TOO_LONG


def test_altered_records_are_found() -> None:
    entries = history()
    at = find(entries, lambda change, events: b'"count"' in change.merge)
    merge = msgspec.json.decode(change_at(entries, at).merge)
    merge["count"] += 1
    _, found = replay(rewritten(entries, at, merge=msgspec.json.encode(merge)))
    assert (found[0].what, found[0].version, found[0].name) == ("state", entries[at][1].version, "move")
    _, found = replay(rewritten(entries, at, events=[]))
    assert [each.what for each in found] == ["events"]


def test_after_a_gap_nothing_is_computed_until_the_next_start() -> None:
    one = played(3, 60)
    one.begin_anew()
    one.play(30)
    entries = entries_of(one)
    replayer, found = replay(entries[:10] + entries[11:])
    verdict = replayer.verdict()
    assert [(each.what, each.version) for each in found] == [("gap", entries[11][1].version)]
    assert verdict.unread == next(at for at, (_, entry) in enumerate(entries) if entry.start) - 11
    assert not verdict.clean
    assert same(replayer.state, one.state())
