"""One pair of members over a wire that loses, doubles and turns round: everything arrives, once and in order."""

from __future__ import annotations

import random

import pytest

from octoloom.core.errors import ProtocolError
from octoloom.core.group_messages import Direct, Numbered, Reliable
from octoloom.core.unicast import AHEAD_MAX, BACKOFF_MAX, RESENT_MAX, UNACKED_MAX, Unicast


def text(part: Reliable) -> str:
    assert isinstance(part, Direct)
    return part.payload.decode()


def word(number: int) -> Direct:
    return Direct(str(number).encode())


@pytest.mark.parametrize("seed", range(60))
def test_everything_arrives_once_and_in_order(seed: int) -> None:
    dice = random.Random(seed)
    loss = dice.choice([0.0, 0.1, 0.4])
    sender, receiver = Unicast(retry_ms=10), Unicast(retry_ms=10)
    wire: list[Numbered] = []
    arrived: list[int] = []
    sent = now = 0
    while len(arrived) < 80:
        now += dice.randrange(4)
        assert now < 60_000, "it never ends"
        if sent < 80 and dice.random() < 0.5:
            sent += 1
            wire.append(sender.send(now, word(sent)))
        wire += sender.due(now)
        if wire and dice.random() < 0.8:
            numbered = wire.pop(dice.randrange(len(wire)) if dice.random() < 0.5 else 0)
            if dice.random() >= loss:
                arrived += [int(text(part)) for part in receiver.on_numbered(numbered)]
            if dice.random() < 0.1:
                wire.append(numbered)
        # The twin: what was handed on is a beginning of what was sent.
        assert arrived == list(range(1, len(arrived) + 1))
        assert len(arrived) <= sent
        if receiver.ack_due and dice.random() < 0.3:
            number = receiver.ack()
            assert number == len(arrived)
            if dice.random() >= loss:
                sender.on_acked(now, number)
    sender.on_acked(now, receiver.ack())
    assert sender.deadline() is None
    assert sender.unacked_since is None


def test_the_oldest_few_are_sent_again_with_growing_patience() -> None:
    sender = Unicast(retry_ms=10)
    for number in range(1, 2 * RESENT_MAX):
        sender.send(0, word(number))
    assert sender.due(9) == []
    pauses, now = [], 0
    for _ in range(6):
        due_at = sender.deadline()
        assert due_at is not None
        pauses.append(due_at - now)
        now = due_at
        assert [numbered.number for numbered in sender.due(now)] == list(range(1, RESENT_MAX + 1))
    assert pauses == [10, 20, 40, 80, 10 * BACKOFF_MAX, 10 * BACKOFF_MAX]
    sender.on_acked(now, RESENT_MAX)
    assert sender.deadline() == now + 10
    assert sender.due(now + 10)[0].number == RESENT_MAX + 1
    assert sender.deadline() == now + 30, "who got an answer is patient anew"


def test_an_acknowledgement_that_says_nothing_new_gains_no_patience() -> None:
    sender = Unicast(retry_ms=10)
    sender.send(0, word(1))
    for number in (0, -5):
        sender.on_acked(9, number)
    assert sender.deadline() == 10
    assert sender.unacked_since == 0


def test_the_way_is_open_again() -> None:
    sender = Unicast(retry_ms=10)
    sender.hurry(5)
    assert sender.deadline() is None
    sender.send(5, word(1))
    sender.hurry(7)
    assert [numbered.number for numbered in sender.due(7)] == [1]


def test_what_was_never_sent_cannot_be_acknowledged() -> None:
    sender = Unicast(retry_ms=10)
    sender.send(0, word(1))
    with pytest.raises(ProtocolError, match="forged-sequence: 2 was acknowledged, 1 is the last"):
        sender.on_acked(0, 2)
    assert sender.unacked_since == 0


@pytest.mark.parametrize("number", [0, -1])
def test_parts_are_numbered_from_1(number: int) -> None:
    receiver = Unicast(retry_ms=10)
    with pytest.raises(ProtocolError, match="forged-sequence"):
        receiver.on_numbered(Numbered(number, word(1)))
    assert not receiver.ack_due


def test_what_is_too_far_ahead_is_dropped_and_comes_again() -> None:
    receiver = Unicast(retry_ms=10)
    for number in (AHEAD_MAX, AHEAD_MAX + 1, 10**12):
        assert receiver.on_numbered(Numbered(number, word(number))) == []
    for number in range(2, AHEAD_MAX):
        receiver.on_numbered(Numbered(number, word(number)))
    assert len(receiver.on_numbered(Numbered(1, word(1)))) == AHEAD_MAX
    assert receiver.ack() == AHEAD_MAX
    assert receiver.on_numbered(Numbered(AHEAD_MAX + 1, word(0))) == [word(0)]


def test_it_says_when_it_is_full() -> None:
    sender = Unicast(retry_ms=10)
    for number in range(1, UNACKED_MAX + 1):
        assert not sender.full
        sender.send(0, word(number))
    assert sender.full
    sender.on_acked(0, 1)
    assert not sender.full


def test_what_comes_again_is_acknowledged_again() -> None:
    """The first acknowledgement was lost, or it would not have come again."""
    receiver = Unicast(retry_ms=10)
    first = Unicast(retry_ms=10).send(0, word(1))
    assert receiver.on_numbered(first) == [word(1)]
    assert receiver.ack() == 1
    assert not receiver.ack_due
    assert receiver.on_numbered(first) == []
    assert receiver.ack_due
