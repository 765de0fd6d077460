"""The proof must be able to fail: each way of breaking a promise is planted in good evidence, and found."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from octoloom.arena import follow_trail
from octoloom.runtime.proof import Evidence, Move, PlayerRecord, Replica, Witness, digest_of, prove

OUTCOMES = "every event has one outcome"
ONCE = "nothing lost, nothing doubled"
ORDER = "each player's order kept"
BACK = "nobody saw the state go back"
AGREE = "all replicas agree"


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
    return Evidence(players, observers, replicas, 3, state)


def broken(found: Evidence) -> list[str]:
    return [verdict.promise for verdict in prove(found) if not verdict.held]


def test_good_evidence_holds() -> None:
    assert broken(evidence()) == []
    assert len(prove(evidence())) == 5


def reckon(found: Evidence) -> None:
    """Have everybody agree on a doctored state."""
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


@pytest.mark.parametrize(
    ("doctor", "promises"),
    [
        (an_outcome_is_missing, [OUTCOMES]),
        (an_outcome_came_twice, [OUTCOMES]),
        (an_outcome_was_quarantined, [OUTCOMES]),
        (a_move_was_lost, [ONCE, ORDER]),
        (a_move_was_doubled, [ONCE, ORDER]),
        (a_rejected_move_was_applied, [ONCE, ORDER]),
        (two_moves_were_swapped, [ORDER]),
        (two_outcomes_were_swapped, [ORDER]),
        (a_cell_was_counted_twice, [ONCE]),
        (a_version_fell, [BACK]),
        (the_history_began_anew, [BACK]),
        (a_replica_differs, [AGREE]),
        (a_player_sees_another_state, [AGREE]),
        (a_replica_is_missing, [AGREE]),
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
