"""A jitter buffer against a clock that is told: what comes out when, and that nothing is lost."""

from __future__ import annotations

import random
from itertools import pairwise

import pytest
from examples.filters.jitter_buffer import DELAY_MS, LATE_MS, PACE_MS, QUEUED_MAX, jitter_buffer

from octoloom.core.filters import MessageFilters, ReceivedMessage, SentMessage, message_filters


class Player:
    """Drives a pair as a group does: arrivals at their time, `on_time` after each and whenever it was asked for."""

    def __init__(self) -> None:
        self.pair: MessageFilters = message_filters.find("jitter-buffer")("me")
        self.shown: list[tuple[int, ReceivedMessage]] = []
        self.pair.receive.processor = lambda message: self.shown.append((self.now, message))
        self.now = 0
        self.deadline: int | None = None

    def run_to(self, now: int) -> None:
        while self.deadline is not None and self.deadline <= now:
            self.now = max(self.now, self.deadline)
            self._tick()
        self.now = now

    def arrive(self, at: int, sender: str, body: int) -> None:
        self.run_to(at)
        self.pair.receive.filter(ReceivedMessage(sender, body))
        self._tick()

    def _tick(self) -> None:
        assert self.pair.on_time is not None
        self.deadline = self.pair.on_time(self.now)
        assert self.deadline is None or self.deadline > self.now, "it would be called for ever"

    def times(self, sender: str) -> list[int]:
        return [at for at, message in self.shown if message.sender == sender]

    def bodies(self, sender: str) -> list[int]:
        return [message.body for _, message in self.shown if message.sender == sender]


def test_what_comes_in_bursts_goes_out_at_an_even_pace() -> None:
    player, dice = Player(), random.Random(4)
    latest = 0
    for body in range(200):
        # A network that keeps the sequence of a sender: nobody overtakes.
        latest = max(latest, PACE_MS * body + dice.randint(0, DELAY_MS - 1))
        player.arrive(latest, "ada", body)
    player.run_to(latest + 1_000)
    assert player.bodies("ada") == list(range(200))
    gaps = [later - earlier for earlier, later in pairwise(player.times("ada"))]
    assert set(gaps) == {PACE_MS}
    assert player.deadline is None


def test_a_silence_begins_anew() -> None:
    player = Player()
    for start in (0, 5_000):
        for body in range(3):
            player.arrive(start, "ada", body)
    player.run_to(10_000)
    one = [DELAY_MS, DELAY_MS + PACE_MS, DELAY_MS + 2 * PACE_MS]
    assert player.times("ada") == one + [5_000 + at for at in one]


def test_who_goes_on_is_not_delayed_anew() -> None:
    player = Player()
    player.arrive(0, "ada", 1)
    player.arrive(DELAY_MS + PACE_MS, "ada", 2)
    player.arrive(DELAY_MS + 2 * PACE_MS - 1, "ada", 3)
    player.arrive(DELAY_MS + 3 * PACE_MS + 1, "ada", 4)
    player.run_to(5_000)
    assert player.times("ada") == [DELAY_MS + PACE_MS * turn for turn in range(3)] + [2 * DELAY_MS + 3 * PACE_MS + 1]


def test_senders_do_not_wait_for_each_other() -> None:
    player = Player()
    for body in range(5):
        player.arrive(0, "ada", body)
    player.arrive(47, "bob", 1)
    player.run_to(5_000)
    assert player.times("bob") == [47 + DELAY_MS]
    assert player.times("ada") == [DELAY_MS + PACE_MS * body for body in range(5)]


def test_who_is_faster_than_the_pace_is_not_delayed_ever_more() -> None:
    player = Player()
    sent = [PACE_MS * 2 // 3 * body for body in range(2_000)]
    for body, at in enumerate(sent):
        player.arrive(at, "ada", body)
    player.run_to(sent[-1] + 10_000)
    assert player.bodies("ada") == list(range(2_000))
    assert max(shown - at for shown, at in zip(player.times("ada"), sent, strict=True)) <= LATE_MS + 2 * PACE_MS


@pytest.mark.parametrize("seed", range(30))
def test_nothing_is_lost_doubled_or_reordered(seed: int) -> None:
    player, dice = Player(), random.Random(seed)
    now, sent = 0, {"ada": 0, "bob": 0}
    for _ in range(400):
        now += dice.choice([0, 0, 0, 1, 5, 30, 200])
        sender = dice.choice(["ada", "ada", "bob"])
        sent[sender] += 1
        player.arrive(now, sender, sent[sender])
    player.run_to(now + 60_000)
    for sender, count in sent.items():
        assert player.bodies(sender) == list(range(1, count + 1))
    assert player.deadline is None


def test_a_full_queue_gives_its_oldest_at_once() -> None:
    player = Player()
    for body in range(QUEUED_MAX + 3):
        player.arrive(0, "ada", body)
    assert player.bodies("ada") == [0, 1, 2]
    player.run_to(QUEUED_MAX * PACE_MS)
    assert player.bodies("ada") == list(range(QUEUED_MAX + 3))


def test_without_a_clock_the_bound_holds_too() -> None:
    player = Player()
    player.arrive(0, "ada", 0)
    for body in range(1, QUEUED_MAX + 4):
        player.pair.receive.filter(ReceivedMessage("ada", body))
    assert player.bodies("ada") == [0, 1, 2, 3]


def test_what_a_leaver_sent_is_shown_with_the_view() -> None:
    player = Player()
    for body in range(3):
        player.arrive(0, "ada", body)
    player.arrive(0, "bob", 7)
    player.pair.receive.filter(ReceivedMessage("ada", 3))
    assert player.pair.on_members is not None
    player.pair.on_members(["bob", "me"])
    assert player.bodies("ada") == [0, 1, 2, 3]
    assert player.bodies("bob") == []
    player.run_to(1_000)
    assert player.bodies("ada") == [0, 1, 2, 3]
    assert player.bodies("bob") == [7]
    assert player.deadline is None


def test_what_is_sent_goes_out_at_once() -> None:
    sent: list[SentMessage] = []
    pair = jitter_buffer("me")
    pair.send.processor = sent.append
    pair.send.filter(SentMessage("x"))
    assert sent == [SentMessage("x")]
