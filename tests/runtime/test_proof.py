"""The proof must be able to fail: each way of breaking a promise is planted in good evidence, and found."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest
from msgspec.structs import replace

from octoloom.arena import follow_trail
from octoloom.core.event import Change, Event, JournalEntry, Kill, Outcome
from octoloom.runtime.causal_proof import Chat
from octoloom.runtime.group_proof import GroupEvidence
from octoloom.runtime.journal_proof import JournalCopy, Line
from octoloom.runtime.proof import Evidence, Move, PlayerRecord, Replica, Witness, digest_of, prove
from tests.runtime import group_story

OUTCOMES = "every event has one outcome"
ONCE = "nothing lost, nothing doubled"
ORDER = "each player's order kept"
BACK = "nobody saw the state go back"
AGREE = "all replicas agree"
JOURNAL = "every committed change is in the journal once, in order"

VERSION = 110


def evidence() -> Evidence:
    """Two players with five moves each, the third of which was rejected."""
    state = {"cells": {"a1": "ada", "b1": "bob"}, "players": {}}
    players = []
    for name in ("ada", "bob"):
        moves = [
            Move(n, 10.0 * n, 10.0 * n + 3, "rejected" if n == 3 else "applied", "", 100 + n, n) for n in range(1, 6)
        ]
        trail = 0
        for number in (1, 2, 4, 5):
            trail = follow_trail(trail, number)
        state["players"][name] = {"cells": 1, "moves": 4, "trail": trail}  # type: ignore[assignment]
        told = [(move.sequencer, move.status) for move in moves]
        players.append(PlayerRecord(Witness(name, 110), moves, told))
    digest = digest_of(state)
    for player in players:
        player.witness.digest = digest
    observers = [Witness("eve", 110, digest)]
    replicas = [Replica(f"link{number}#1", 110, digest) for number in range(3)]
    return Evidence(players, observers, replicas, 3, state, journal(players, state))


def journal(players: list[PlayerRecord], state: object) -> JournalCopy:
    """The first change makes all of the state; those after the hundredth consume the moves, one of each player."""
    lines = []
    for version in range(1, VERSION + 1):
        events, kills = [], []
        for at, player in enumerate(players):
            for move in player.moves:
                if move.version == version:
                    number, name = 2 * version + at, player.witness.name
                    payload = msgspec.json.encode({"cell": "a1", "number": move.number})
                    events.append(Event(number, name, move.sequencer, "claim", payload, 5, 6))
                    outcome = Outcome.REJECTED if move.status == "rejected" else Outcome.APPLIED
                    kills.append(Kill(number, name, move.sequencer, outcome))
        merge = msgspec.json.encode(state) if version == 1 else b"{}"
        change = Change(1, version, replace=False, merge=merge, kills=kills)
        lines.append(Line(version - 1, 1, JournalEntry(version, change, events)))
    return JournalCopy("journal-0", "arena", VERSION, lines)


def broken(found: Evidence) -> list[str]:
    return [verdict.promise for verdict in prove(found) if not verdict.held]


def test_good_evidence_holds() -> None:
    assert broken(evidence()) == []
    assert len(prove(evidence())) == 6


def test_without_a_journal_nothing_is_said_of_it() -> None:
    found = evidence()
    found.journal = None
    assert [verdict.promise for verdict in prove(found)] == [OUTCOMES, ONCE, ORDER, BACK, AGREE]


def test_duplicates_in_the_journal_are_dropped_and_counted() -> None:
    found = evidence()
    lines = lines_of(found)
    again = [Line(VERSION + at, 1, line.entry) for at, line in enumerate(lines[-5:])]
    found.journal = JournalCopy("journal-0", "arena", VERSION + 5, [*lines, *again])
    assert broken(found) == []
    text = "110 changes in 115 records, 5 duplicates dropped, all below the high watermark 115 of journal-0"
    assert prove(found)[-1].detail.startswith(text)


def test_what_the_journal_says_beyond_the_replicas_version_is_of_no_matter() -> None:
    found = evidence()
    later = Change(1, VERSION + 1, replace=True, merge=b"{}", kills=[])
    lines_of(found).append(Line(VERSION, 1, JournalEntry(VERSION + 1, later, [])))
    assert found.journal is not None
    found.journal.high += 1
    assert broken(found) == []


def test_groups_are_proved_with_the_rest() -> None:
    found = evidence()
    chats = [
        Chat("none", "cathy", "ada", 800, ["a", "b"], ["b", "a"]),
        Chat("causal", "cathy", "ada", 800, ["a", "b"], ["a", "b"]),
    ]
    found.groups = GroupEvidence(chats, group_story.total(), 47.4)
    *_, chat, order = prove(found)
    assert (chat.promise, chat.held) == ("no answer before its question", True)
    text = "cathy, slow to hear ada, read each word after what it answers, with causal; 1 too early with none"
    assert chat.detail == text
    assert (order.promise, order.held) == ("one order at all survivors", True)
    assert order.detail == "7 messages of 4 members at 3 survivors, 0 lost, 0 doubled; longest pause 47 ms"


def test_groups_that_break_their_promise_are_found() -> None:
    found = evidence()
    found.groups = GroupEvidence([], [], 0.0)
    assert broken(found) == ["no answer before its question", "one order at all survivors"]
    lives = group_story.total()
    del lives[2].lines[-1]
    found.groups = GroupEvidence([Chat("causal", "cathy", "ada", 800, ["a", "b"], ["b", "a"])] * 2, lives, 0.0)
    assert broken(found) == ["no answer before its question", "one order at all survivors"]


def lines_of(found: Evidence) -> list[Line]:
    assert found.journal is not None
    return found.journal.lines


def rewrite(found: Evidence, version: int, **fields: object) -> None:
    """Says something else in the record of a version."""
    lines, at = lines_of(found), version - 1
    entry, change = lines[at].entry, lines[at].entry.change
    assert change is not None
    wrong = replace(entry, **fields) if "events" in fields else replace(entry, change=replace(change, **fields))
    lines[at] = replace(lines[at], entry=wrong)


def renumber(found: Evidence) -> None:
    lines = lines_of(found)
    lines[:] = [replace(line, offset=at) for at, line in enumerate(lines)]


def reckon(found: Evidence) -> None:
    """Have everybody agree on a doctored state."""
    rewrite(found, 1, merge=msgspec.json.encode(found.state))
    digest = digest_of(found.state)
    found.replicas = [Replica(replica.link, replica.version, digest) for replica in found.replicas]
    for witness in [*(player.witness for player in found.players), *found.observers]:
        witness.digest = digest


def an_outcome_is_missing(found: Evidence) -> None:
    found.players[0].moves[2] = Move(3, 30.0)
    found.players[0].told.pop(2)


def an_outcome_came_twice(found: Evidence) -> None:
    found.players[1].told.append(found.players[1].told[0])


def an_outcome_was_quarantined(found: Evidence) -> None:
    found.players[1].moves[2].status = "quarantined"
    found.players[1].told[2] = (3, "quarantined")


def a_move_was_lost(found: Evidence) -> None:
    """Its player was told that it was applied, but the state knows nothing of it."""
    found.state["players"]["ada"]["moves"] = 3
    found.state["players"]["ada"]["trail"] = follow_trail(follow_trail(follow_trail(0, 1), 2), 4)
    reckon(found)


def a_move_was_doubled(found: Evidence) -> None:
    ada = found.state["players"]["ada"]
    ada["moves"], ada["trail"] = 5, follow_trail(ada["trail"], 5)
    reckon(found)


def a_rejected_move_was_applied(found: Evidence) -> None:
    found.players[0].moves[2].status = "applied"
    found.players[0].told[2] = (3, "applied")


def two_moves_were_swapped(found: Evidence) -> None:
    trail = 0
    for number in (1, 4, 2, 5):
        trail = follow_trail(trail, number)
    found.state["players"]["bob"]["trail"] = trail
    reckon(found)


def two_outcomes_were_swapped(found: Evidence) -> None:
    first, second = found.players[0].moves[:2]
    first.version, second.version = second.version, first.version


def a_cell_was_counted_twice(found: Evidence) -> None:
    found.state["cells"]["c1"] = "ada"
    reckon(found)


def a_version_fell(found: Evidence) -> None:
    found.observers[0].fell = 1


def the_history_began_anew(found: Evidence) -> None:
    found.players[0].witness.resets = 1


def a_replica_differs(found: Evidence) -> None:
    found.replicas[1] = Replica("link1#1", 110, digest_of({}))


def a_player_sees_another_state(found: Evidence) -> None:
    found.players[1].witness.digest = digest_of({})


def a_replica_is_missing(found: Evidence) -> None:
    found.replicas.pop()


def a_change_is_not_in_the_journal(found: Evidence) -> None:
    del lines_of(found)[50]
    renumber(found)


def the_journal_ends_too_early(found: Evidence) -> None:
    lines_of(found).pop()


def the_journal_begins_too_late(found: Evidence) -> None:
    del lines_of(found)[0]
    renumber(found)


def the_journal_is_empty(found: Evidence) -> None:
    lines_of(found).clear()


def two_changes_are_swapped_in_the_journal(found: Evidence) -> None:
    lines = lines_of(found)
    lines[20], lines[21] = lines[21], lines[20]
    renumber(found)


def the_journal_was_read_out_of_order(found: Evidence) -> None:
    lines = lines_of(found)
    lines[-1] = replace(lines[-1], offset=3)


def a_duplicate_says_something_else(found: Evidence) -> None:
    other = Change(2, VERSION, replace=True, merge=b"{}", kills=[])
    lines_of(found).append(Line(VERSION, 1, JournalEntry(VERSION, other, [])))
    assert found.journal is not None
    found.journal.high += 1


def a_change_in_the_journal_is_another(found: Evidence) -> None:
    rewrite(found, 40, merge=b'{"cells":{"a1":"eve"}}')


def a_consumed_event_is_not_in_the_journal(found: Evidence) -> None:
    rewrite(found, 102, events=lines_of(found)[101].entry.events[1:])


def a_consumed_event_is_twice_in_the_journal(found: Evidence) -> None:
    rewrite(found, 102, events=2 * lines_of(found)[101].entry.events)


def a_consumed_event_is_another(found: Evidence) -> None:
    first, *rest = lines_of(found)[101].entry.events
    rewrite(found, 102, events=[replace(first, payload=b'{"number":7}'), *rest])


def an_outcome_in_the_journal_is_another(found: Evidence) -> None:
    change = lines_of(found)[101].entry.change
    assert change is not None
    first, *rest = change.kills
    rewrite(found, 102, kills=[replace(first, outcome=Outcome.REJECTED), *rest])


def a_record_is_not_below_the_high_watermark(found: Evidence) -> None:
    assert found.journal is not None
    found.journal.high -= 1


def a_record_is_in_the_wrong_partition(found: Evidence) -> None:
    assert found.journal is not None
    found.journal.strays.append("a record of the space is at journal-3, offset 7")


@pytest.mark.parametrize(
    ("doctor", "promises"),
    [
        (an_outcome_is_missing, [OUTCOMES, JOURNAL]),
        (an_outcome_came_twice, [OUTCOMES]),
        (an_outcome_was_quarantined, [OUTCOMES, JOURNAL]),
        (a_move_was_lost, [ONCE, ORDER]),
        (a_move_was_doubled, [ONCE, ORDER]),
        (a_rejected_move_was_applied, [ONCE, ORDER, JOURNAL]),
        (two_moves_were_swapped, [ORDER]),
        (two_outcomes_were_swapped, [ORDER]),
        (a_cell_was_counted_twice, [ONCE]),
        (a_version_fell, [BACK]),
        (the_history_began_anew, [BACK]),
        (a_replica_differs, [AGREE]),
        (a_player_sees_another_state, [AGREE]),
        (a_replica_is_missing, [AGREE]),
        (a_change_is_not_in_the_journal, [JOURNAL]),
        (the_journal_ends_too_early, [JOURNAL]),
        (the_journal_begins_too_late, [JOURNAL]),
        (the_journal_is_empty, [JOURNAL]),
        (two_changes_are_swapped_in_the_journal, [JOURNAL]),
        (the_journal_was_read_out_of_order, [JOURNAL]),
        (a_duplicate_says_something_else, [JOURNAL]),
        (a_change_in_the_journal_is_another, [JOURNAL]),
        (a_consumed_event_is_not_in_the_journal, [JOURNAL]),
        (a_consumed_event_is_twice_in_the_journal, [JOURNAL]),
        (a_consumed_event_is_another, [JOURNAL]),
        (an_outcome_in_the_journal_is_another, [JOURNAL]),
        (a_record_is_not_below_the_high_watermark, [JOURNAL]),
        (a_record_is_in_the_wrong_partition, [JOURNAL]),
    ],
    ids=lambda value: value.__name__ if callable(value) else "",
)
def test_the_proof_bites(doctor: Callable[[Evidence], None], promises: list[str]) -> None:
    found = evidence()
    doctor(found)
    assert broken(found) == promises


def test_nobody_playing_proves_nothing() -> None:
    assert len(broken(Evidence([], [], [], 3, {}))) == 5


def test_many_doubts_are_cut_short() -> None:
    found = evidence()
    for player in found.players:
        for move in player.moves:
            move.status = ""
    detail = next(verdict.detail for verdict in prove(found) if verdict.promise == OUTCOMES)
    assert "more)" in detail
    assert detail.count(";") == 2
