"""How much one turn does: batches that follow their cost, and a large audience that is told half of the time."""

from __future__ import annotations

import msgspec

from octoloom.core import device_messages as say
from octoloom.core.admission import Limits
from octoloom.core.app import App
from octoloom.core.chain import Chain
from octoloom.core.compute import BATCH_MAX
from octoloom.core.effects import Fan
from octoloom.core.pace import COMPUTE_LONG_US, COMPUTE_SHORT_US, FAN_FREE_US, FAN_WAIT_MS_MAX, FanPace, next_batch_max
from octoloom.core.register_messages import Directory, LinkAddress, View


def test_a_batch_grows_while_it_is_short_up_to_its_bound() -> None:
    sizes = [64]
    for _ in range(6):
        sizes.append(next_batch_max(sizes[-1], COMPUTE_SHORT_US - 1))
    assert sizes == [64, 128, 256, 512, 1024, BATCH_MAX, BATCH_MAX]


def test_a_long_batch_is_halved_down_to_one_event() -> None:
    sizes = [5]
    for _ in range(4):
        sizes.append(next_batch_max(sizes[-1], COMPUTE_LONG_US + 1))
    assert sizes == [5, 2, 1, 1, 1]


def test_between_short_and_long_a_batch_stays() -> None:
    assert next_batch_max(64, COMPUTE_SHORT_US) == 64
    assert next_batch_max(64, COMPUTE_LONG_US) == 64


def test_a_small_audience_never_waits() -> None:
    pace = FanPace()
    pace.spent(1000, FAN_FREE_US)
    assert pace.may_fan(1000)


def test_a_large_audience_is_told_half_of_the_time() -> None:
    pace = FanPace()
    pace.spent(1000, 8_000)
    assert [pace.may_fan(now) for now in (1000, 1007, 1008)] == [False, False, True]
    assert pace.fan_from == 1008


def test_nobody_waits_for_longer_than_the_bound() -> None:
    pace = FanPace()
    pace.spent(1000, 60_000_000)
    assert pace.fan_from == 1000 + FAN_WAIT_MS_MAX


class Table:
    """A chain of one link with one device, which has put one event."""

    def __init__(self) -> None:
        app = App("tally")
        app.on("put")(lambda state, event: state.update(last=event.sequencer))
        self.chain = Chain("main", "a", app, Limits())
        address = LinkAddress("a", "a:1", "ws://a")
        self.chain.on_directory(0, Directory(1, {"a": address}, {"main": View("main", 1, 1, ["a"], ["a"])}))
        self.chain.service.on_message(0, 1, say.Bootstrap("lobby", "ada"))
        self.chain.flush(0)
        self.chain.flush(0)

    def put(self, now: int, sequencer: int) -> list[Fan]:
        self.chain.service.on_message(now, 1, say.Send([(sequencer, "put", msgspec.Raw(b"1"))]))
        return self.turn(now)

    def turn(self, now: int) -> list[Fan]:
        return [effect for effect in self.chain.flush(now) if isinstance(effect, Fan)]


def test_what_is_committed_while_the_audience_waits_goes_out_together_and_on_time() -> None:
    table = Table()
    table.chain.pace.spent(1000, 8_000)
    assert table.put(1001, 1) == []
    assert table.put(1002, 2) == []
    assert table.chain.deadline() == 1008
    [fan] = table.turn(1008)
    assert [note[0] for note in fan.kills[1]] == [1, 2]
    assert table.chain.deadline() is None


def test_an_audience_that_is_told_quickly_is_told_every_turn() -> None:
    table = Table()
    assert len(table.put(1001, 1)) == len(table.put(1001, 2)) == 1
