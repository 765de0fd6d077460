"""Each number once, and in order."""

from __future__ import annotations

from octoloom.core.device_audit import DeviceAudit
from octoloom.core.event import TIMER, DeviceRecord, Event, Kill, Outcome, SpaceSnapshot


def kill(number: int, place: int, device: str = "ada") -> Kill:
    return Kill(place, device, number, Outcome.APPLIED)


def event(number: int, place: int) -> Event:
    return Event(place, "ada", number, "move", b"1", 0, 0)


def settle(audit: DeviceAudit, *kills: Kill, waiting: tuple[Event, ...] = ()) -> list[str]:
    """One change."""
    audit.begin()
    live = {each.chain_sequencer: each for each in waiting}
    return [wrong[0] for each in kills if (wrong := audit.settle(each, live)) is not None]


def test_events_in_order_are_fine_whoever_sends_them() -> None:
    audit = DeviceAudit()
    assert settle(audit, kill(1, 1), kill(1, 2, "bob"), kill(2, 3)) == []
    assert settle(audit, kill(9, 5), kill(2, 6, "bob")) == []  # a device that lost its store leaves numbers out


def test_a_number_or_a_place_that_comes_again_is_settled_twice() -> None:
    audit = DeviceAudit()
    settle(audit, kill(1, 1), kill(2, 2))
    assert settle(audit, kill(2, 3)) == ["settled-twice"]
    assert settle(audit, kill(3, 2)) == ["settled-twice"]
    assert settle(audit, kill(1, 1, "bob")) == ["settled-twice"]
    assert settle(audit, kill(7, 9, TIMER), kill(7, 9, TIMER)) == ["settled-twice"]


def test_an_older_number_must_have_waited() -> None:
    audit = DeviceAudit()
    settle(audit, kill(2, 2))
    assert settle(audit, kill(1, 1), waiting=(event(1, 1),)) == []
    settle(audit, kill(5, 5))
    assert settle(audit, kill(4, 4)) == ["out-of-order"]


def test_what_is_deferred_and_done_within_one_change_needs_no_word() -> None:
    assert settle(DeviceAudit(), kill(2, 2), kill(3, 3), kill(1, 1)) == []


def test_the_chains_order_is_that_of_the_numbers() -> None:
    assert settle(DeviceAudit(), kill(2, 5), kill(3, 4)) == ["chain-order"]
    assert settle(DeviceAudit(), kill(3, 4), kill(2, 5)) == ["chain-order"]


def test_a_generation_goes_on_with_what_it_took_over() -> None:
    start = SpaceSnapshot("s", 9, b"{}", 8, [event(3, 5)], [DeviceRecord("ada", 2, [4], [])], [], 1, [], 0)
    audit = DeviceAudit()
    settle(audit, kill(1, 1), kill(7, 7))  # undone
    audit.restart(start)
    assert audit.highest_place == 7
    assert settle(audit, kill(2, 8)) == ["settled-twice"]
    assert settle(audit, kill(4, 9)) == ["settled-twice"]
    assert settle(audit, kill(3, 5), waiting=(event(3, 5),)) == []
    assert settle(audit, kill(5, 10)) == []


def test_it_goes_on_after_it_was_saved() -> None:
    audit = DeviceAudit()
    settle(audit, kill(1, 1), kill(4, 4))
    again = DeviceAudit(audit.save())
    assert again.is_settled(event(4, 4))
    assert not again.is_settled(event(3, 3))
    assert settle(again, kill(4, 5)) == ["settled-twice"]
    assert settle(again, kill(3, 3)) == ["out-of-order"]
