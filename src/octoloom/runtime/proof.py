"""The proof that a chain kept its promises: what players were told, against what every replica holds.

The two sides are independent. Players write down each move when they send it, and each outcome when they hear of it.
The game's state counts the moves that were applied to it and keeps a checksum over their numbers, in order. If a move
is lost, doubled or swapped anywhere in between, the two do not fit any more.

The journal is a third side (`journal_proof.py`): whoever has nothing but its records must come to the same. Groups have
proofs of their own (`causal_proof.py`, `group_proof.py`).
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import Any

import msgspec

from octoloom.arena import follow_trail
from octoloom.runtime.causal_proof import chat_doubts
from octoloom.runtime.group_proof import GroupEvidence, one_order_doubts
from octoloom.runtime.journal_proof import JournalCopy, Made, Reading

DOUBTS_SHOWN = 3


class Move(msgspec.Struct, array_like=True):
    """One move: when it was sent, and what its player was told. No `status` means: nothing."""

    number: int
    sent_ms: float
    settled_ms: float = 0.0
    status: str = ""
    reason: str = ""
    version: int = 0
    sequencer: int = 0

    @property
    def lag_ms(self) -> float:
        return self.settled_ms - self.sent_ms


class Witness(msgspec.Struct):
    """Somebody who followed the state: how often it went back or began anew, and what it was in the end."""

    name: str
    version: int = 0
    digest: str = ""
    fell: int = 0
    resets: int = 0


class PlayerRecord(msgspec.Struct):
    witness: Witness
    moves: list[Move]
    told: list[tuple[int, str]] = []
    """(sequencer, status) of every outcome that arrived, in order of arrival."""


class Replica(msgspec.Struct, frozen=True):
    link: str
    version: int
    digest: str


class Evidence(msgspec.Struct):
    players: list[PlayerRecord]
    observers: list[Witness]
    replicas: list[Replica]
    replicas_wanted: int
    state: dict[str, Any]
    """The game's state, as one of the replicas holds it."""
    journal: JournalCopy | None = None
    """None if none was kept."""
    groups: GroupEvidence | None = None
    """None if there were none."""


class Verdict(msgspec.Struct, frozen=True):
    promise: str
    held: bool
    detail: str


def digest_of(state: Any) -> str:
    """The same text for the same state, whatever the order of its keys; links reckon theirs alike."""
    return hashlib.sha256(msgspec.json.encode(state, order="deterministic")).hexdigest()


def prove(evidence: Evidence) -> list[Verdict]:
    """One verdict per promise, in the order in which people ask."""
    moves = [move for player in evidence.players for move in player.moves]
    witnesses = f"{len(evidence.players)} players, {len(evidence.observers)} observers"
    once = f"{_applied(moves)} applied, each is in the state once"
    verdicts = [
        _verdict("every event has one outcome", f"{len(moves)} events", _outcomes, evidence),
        _verdict("nothing lost, nothing doubled", once, _counts, evidence),
        _verdict("each player's order kept", f"{len(evidence.players)} players", _order, evidence),
        _verdict("nobody saw the state go back", witnesses, _never_back, evidence),
        _verdict("all replicas agree", f"{len(evidence.replicas)} replicas, {witnesses}", _agree, evidence),
    ]
    if evidence.journal is not None:
        verdicts.append(_journal_verdict(evidence, evidence.journal))
    if evidence.groups is not None:
        verdicts += [_chat_verdict(evidence, evidence.groups), _one_order_verdict(evidence, evidence.groups)]
    return verdicts


def _journal_verdict(evidence: Evidence, copy: JournalCopy) -> Verdict:
    reading = Reading(copy, max((replica.version for replica in evidence.replicas), default=0))
    duplicates = "1 duplicate" if reading.dropped == 1 else f"{reading.dropped} duplicates"
    detail = (
        f"{reading.version} changes in {len(copy.lines)} records, {duplicates} dropped, all below the high watermark "
        f"{copy.high} of {copy.place}; read alone they give the replicas' state and the players' moves"
    )

    def doubts(_evidence: Evidence) -> Iterator[str]:
        yield from reading.doubts
        yield from reading.differences(digest_of(reading.state) == digest_of(evidence.state), _told(evidence))

    return _verdict("every committed change is in the journal once, in order", detail, doubts, evidence)


def _chat_verdict(evidence: Evidence, groups: GroupEvidence) -> Verdict:
    chats = {chat.order: chat for chat in groups.chats}
    ordered, unordered = chats.get("causal"), chats.get("none")

    def doubts(_evidence: Evidence) -> Iterator[str]:
        if ordered is None or unordered is None:
            yield "nobody chatted in both orders, so nothing is proved"
        else:
            yield from chat_doubts(ordered, unordered)

    early = len(unordered.too_early) if unordered is not None else 0
    slow = f"{ordered.slow}, slow to hear {ordered.late}, read" if ordered is not None else "read"
    detail = f"{slow} each word after what it answers, with causal; {early} too early with none"
    return _verdict("no answer before its question", detail, doubts, evidence)


def _one_order_verdict(evidence: Evidence, groups: GroupEvidence) -> Verdict:
    survivors = [life for life in groups.lives if life.lived]
    count = len(survivors[0].heard) if survivors else 0
    detail = (
        f"{count} messages of {len(groups.lives)} members at {len(survivors)} survivors, 0 lost, 0 doubled; "
        f"longest pause {groups.pause_ms:.0f} ms"
    )
    return _verdict("one order at all survivors", detail, lambda _evidence: one_order_doubts(groups.lives), evidence)


def _told(evidence: Evidence) -> dict[str, list[Made]]:
    """What each player was told of its moves, in the order in which they were made."""
    return {
        player.witness.name: [Made(move.sequencer, move.number, move.status) for move in player.moves]
        for player in evidence.players
    }


def _verdict(promise: str, detail: str, doubt: Callable[[Evidence], Iterator[str]], evidence: Evidence) -> Verdict:
    doubts = list(doubt(evidence))
    if not evidence.players or not any(player.moves for player in evidence.players):
        doubts.append("nobody played, so nothing is proved")
    if not doubts:
        return Verdict(promise, True, detail)
    more = f" (and {len(doubts) - DOUBTS_SHOWN} more)" if len(doubts) > DOUBTS_SHOWN else ""
    return Verdict(promise, False, "; ".join(doubts[:DOUBTS_SHOWN]) + more)


def _applied(moves: Sequence[Move]) -> int:
    return sum(move.status == "applied" for move in moves)


def _outcomes(evidence: Evidence) -> Iterator[str]:
    for player in evidence.players:
        name = player.witness.name
        for move in player.moves:
            if move.status not in ("applied", "rejected"):
                yield f"move {move.number} of {name} was {move.status or 'never settled'}"
        told = Counter(player.told)
        expected = Counter((move.sequencer, move.status) for move in player.moves if move.status)
        for (sequencer, status), count in ((told - expected) + (expected - told)).items():
            yield f"{name} was told {status} for number {sequencer} once too often or never ({count})"


def _counts(evidence: Evidence) -> Iterator[str]:
    players = evidence.state.get("players", {})
    for player in evidence.players:
        name, applied = player.witness.name, _applied(player.moves)
        counted = players.get(name, {}).get("moves", 0)
        if counted != applied:
            yield f"{name} was told of {applied} applied moves, the state has {counted}"
    held = Counter(evidence.state.get("cells", {}).values())
    for name, of_player in players.items():
        if of_player["cells"] != held[name]:
            yield f"{name} holds {held[name]} cells and {of_player['cells']} are counted"


def _order(evidence: Evidence) -> Iterator[str]:
    players = evidence.state.get("players", {})
    for player in evidence.players:
        name, trail = player.witness.name, 0
        for move in player.moves:
            if move.status == "applied":
                trail = follow_trail(trail, move.number)
        if players.get(name, {}).get("trail", 0) != trail:
            yield f"the moves of {name} were not applied as they were made"
        settled = [move for move in player.moves if move.status]
        for before, after in pairwise(settled):
            if after.sequencer <= before.sequencer or after.version < before.version:
                yield f"moves {before.number} and {after.number} of {name} were settled the other way round"


def _never_back(evidence: Evidence) -> Iterator[str]:
    for witness in [*(player.witness for player in evidence.players), *evidence.observers]:
        if witness.fell:
            yield f"{witness.name} saw the version fall {witness.fell} times"
        if witness.resets:
            yield f"{witness.name} saw the history begin anew {witness.resets} times"


def _agree(evidence: Evidence) -> Iterator[str]:
    if len(evidence.replicas) != evidence.replicas_wanted:
        yield f"there are {len(evidence.replicas)} replicas, not {evidence.replicas_wanted}"
    right = digest_of(evidence.state)
    for replica in evidence.replicas:
        if replica.digest != right:
            yield f"{replica.link} holds another state, version {replica.version}"
    for witness in [*(player.witness for player in evidence.players), *evidence.observers]:
        if witness.digest != right:
            yield f"{witness.name} sees another state, version {witness.version}"
