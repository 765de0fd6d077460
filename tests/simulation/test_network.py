"""Simulated connections: in order or not at all, late or never."""

from __future__ import annotations

from typing import Any

import pytest

from octoloom.simulation.network import DELAY_MS, DIAL_TIMEOUT_MS, SLOW_DELAY_MS, Channel, Network
from octoloom.simulation.world import World


class Party:
    """A node that writes down what it hears."""

    def __init__(self, world: World, name: str) -> None:
        self.world, self.name = world, name
        self.alive, self.paused, self.slow = True, False, False
        self.heard: list[Any] = []
        self.times: list[int] = []

    def on_open(self, channel: Channel) -> None:
        self._hear("open")

    def on_data(self, channel: Channel, data: Any) -> None:
        self._hear(data)

    def on_close(self, channel: Channel) -> None:
        self._hear("close")

    def _hear(self, what: Any) -> None:
        self.heard.append(what)
        self.times.append(self.world.now)


class Call:
    """Two parties, connected."""

    def __init__(self, seed: int = 1) -> None:
        self.world = World(seed)
        self.network = Network(self.world)
        self.ada, self.bob = Party(self.world, "ada"), Party(self.world, "bob")
        self.channel = self.dial()
        self.run()

    def dial(self) -> Channel:
        channel = self.network.dial(self.ada, self.bob, "talk")
        assert channel is not None
        return channel

    def run(self, ms: int = 1000) -> None:
        self.world.run(self.world.now + ms)

    def say(self, *words: Any) -> None:
        for word in words:
            self.channel.send(self.ada, word)


def test_both_sides_hear_that_the_connection_is_open() -> None:
    call = Call()
    assert (call.ada.heard, call.bob.heard) == (["open"], ["open"])
    assert call.channel.other(call.ada) is call.bob


@pytest.mark.parametrize("seed", range(20))
def test_data_arrives_in_order_whatever_the_delays(seed: int) -> None:
    call = Call(seed)
    for number in range(20):
        call.say(number)
        call.run(1)
    call.run()
    assert call.bob.heard == ["open", *range(20)]
    assert call.bob.times == sorted(call.bob.times)


def test_a_slow_node_hears_later() -> None:
    call = Call()
    call.bob.slow = True
    start = call.world.now
    call.say("x")
    call.run()
    assert SLOW_DELAY_MS[0] <= call.bob.times[-1] - start <= SLOW_DELAY_MS[1]
    call.bob.slow = False
    start = call.world.now
    call.say("y")
    call.run()
    assert DELAY_MS[0] <= call.bob.times[-1] - start <= DELAY_MS[1]


def test_the_other_side_learns_of_the_end_after_all_that_was_sent_before() -> None:
    call = Call()
    call.say("last words")
    call.channel.close(call.ada)
    call.say("too late")
    call.run()
    assert call.bob.heard == ["open", "last words", "close"]
    assert call.ada.heard == ["open"], "who ends it knows"


def test_what_a_crashed_node_had_sent_still_arrives() -> None:
    call = Call()
    call.say("last words")
    call.channel.send(call.bob, "never heard")
    call.ada.alive = False
    call.network.crash(call.ada)
    call.run()
    assert call.bob.heard == ["open", "last words", "close"]
    assert call.ada.heard == ["open"]


def test_a_dead_node_does_not_answer() -> None:
    call = Call()
    call.bob.alive = False
    call.dial()
    call.run()
    assert call.ada.heard == ["open", "close"]
    assert call.network.dial(call.ada, None, "talk") is None


def test_a_call_across_a_cut_ends_after_a_while() -> None:
    call = Call()
    call.network.cut("bob", "ada")
    start = call.world.now
    call.dial()
    call.run()
    assert call.ada.heard == ["open", "close"]
    assert call.ada.times[-1] >= start + DIAL_TIMEOUT_MS


def test_a_cut_holds_everything_back_and_when_it_heals_old_words_arrive() -> None:
    call = Call()
    call.network.cut("ada", "bob")
    call.say("old", "words")
    call.run(60_000)
    assert call.bob.heard == ["open"]
    call.network.heal("ada", "bob", reset=False)
    call.say("new")
    call.run()
    assert call.bob.heard == ["open", "old", "words", "new"]


def test_new_words_never_pass_those_that_are_held() -> None:
    call = Call()
    call.network.cut("ada", "bob")
    call.say("old")
    call.run()
    call.network.cuts.clear()
    call.say("new")
    call.run()
    call.network.release()
    assert call.bob.heard == ["open", "old", "new"]


def test_a_connection_that_is_reset_loses_what_was_under_way_and_both_sides_hear_of_it() -> None:
    call = Call()
    call.network.cut("ada", "bob")
    call.say("lost")
    call.run()
    call.network.heal("ada", "bob", reset=True)
    call.run()
    assert (call.ada.heard, call.bob.heard) == (["open", "close"], ["open", "close"])


def test_a_paused_node_hears_everything_at_once_when_it_goes_on() -> None:
    call = Call()
    call.bob.paused = True
    call.say("one", "two")
    call.run()
    assert call.bob.heard == ["open"]
    call.bob.paused = False
    call.network.release()
    assert call.bob.heard == ["open", "one", "two"]


def test_a_connection_that_both_sides_have_left_is_forgotten() -> None:
    call = Call()
    assert call.network.of(call.ada) == [call.channel]
    call.channel.close(call.ada)
    call.run()
    assert call.network.of(call.ada) == []
    assert call.network.channels == {}
