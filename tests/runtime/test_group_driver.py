"""The driver's duties: what was sent goes before what came, a turn is one packet, and what is broken ends."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from octoloom import Expelled, Group, UsageError
from octoloom.core import group_messages as say
from octoloom.runtime import group_inbox
from octoloom.wire.group import encode_bodies
from tests.runtime.group_rooms import Listener, group, run
from tests.waiting import async_until as until


def casts_of(room: Group, count: int) -> list[say.Cast]:
    casting = room._driver.core.casting
    assert casting is not None
    return casting.nakack.get([(room._life.me, number) for number in range(1, count + 1)])


def test_what_was_sent_before_something_came_does_not_count_it_among_its_causes() -> None:
    async def story() -> None:
        async with group(order="causal") as rooms:
            ada, bob = await rooms.join_all("ada", "bob")
            me = bob._life.me
            answer = say.Cast(ada.view.epoch, me, 1, [say.Bundle(me, 1, 1, encode_bodies(["B"]))], [0, 1])
            await ada.to_others("before")
            assert ada._driver.on_packet(me, [answer])  # in the same tick
            await ada.to_others("after")
            await asyncio.sleep(0)
            assert [cast.stamp for cast in casts_of(ada, 2)] == [[1, 0], [2, 1]]

    run(story)


def test_a_turn_is_one_packet_for_each_member_and_a_part_is_encoded_once(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story() -> None:
        async with group(order="fifo") as rooms:
            ada, bob, cathy = await rooms.join_all("ada", "bob", "cathy")
            sent: list[tuple[str, Sequence[bytes]]] = []
            monkeypatch.setattr(ada._driver._carrier, "send", lambda member, parts: sent.append((member, parts)))
            await ada.to_others(1)
            await ada.send_many([2, 3])
            await ada.to_others(4)
            await asyncio.sleep(0)
            casts = [(member, parts) for member, parts in sent if len(parts) == 3]
            assert [member for member, _ in casts] == [bob._life.me, cathy._life.me]
            assert all(one is other for one, other in zip(casts[0][1], casts[1][1], strict=True))
            monkeypatch.undo()

    run(story)


def test_a_lone_message_leaves_in_its_own_tick() -> None:
    async def story() -> None:
        async with group(order="fifo") as rooms:
            ada, _ = await rooms.join_all("ada", "bob")
            await ada.to_others("now")
            assert len(ada._driver.outbox) == 1
            await asyncio.sleep(0)
            assert len(ada._driver.outbox) == 0
            assert casts_of(ada, 1)[0].bundles[0].count == 1

    run(story)


def test_an_app_that_sends_without_end_lets_others_have_their_turn() -> None:
    async def story() -> None:
        async with group(order="fifo") as rooms:
            ada, bob = await rooms.join_all("ada", "bob")
            listener = Listener(bob)
            talking = asyncio.create_task(_talk(ada))
            await until(lambda: len(listener.messages) > 10_000)  # it is the same loop
            talking.cancel()
            await asyncio.gather(talking, return_exceptions=True)

    async def _talk(room: Group) -> None:
        while True:
            await room.to_others("and")

    run(story)


def test_an_app_that_does_not_read_slows_the_senders_down_and_loses_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group_inbox, "INBOX_BYTES_MAX", 100_000)

    async def story() -> None:
        async with group(order="fifo", settings={"kept_bytes_max": 300_000, "cast_bytes_max": 20_000}) as rooms:
            ada, bob = await rooms.join_all("ada", "bob")
            talking = asyncio.create_task(_talk(ada, 1000))
            await until(lambda: bob.counters["inbox-full"] > 3)
            assert not talking.done()
            assert bob._driver.inbox.size < 400_000
            listener = Listener(bob)
            await talking
            await until(lambda: len(listener.messages) == 1000)
            assert [number for number, _ in listener.bodies] == list(range(1000))
            assert bob.members == ["ada", "bob"]

    async def _talk(room: Group, count: int) -> None:
        for number in range(count):
            await room.to_others((number, bytes(1000)))

    run(story)


def test_a_member_whose_app_never_reads_gives_up_in_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """The coordinator has to take what it orders itself."""
    monkeypatch.setattr(group_inbox, "INBOX_BYTES_MAX", 50_000)

    async def story() -> None:
        async with group(order="total") as rooms:
            ada, bob = await rooms.join_all("ada", "bob")
            listener = Listener(bob)
            for number in range(300):
                await bob.to_others((number, bytes(1000)))
                await asyncio.sleep(0)
            await rooms.agree("bob")
            await until(lambda: len(listener.messages) == 300)
            with pytest.raises(Expelled, match="read faster"):
                await ada.to_others("?")

    run(story)


def test_a_broken_invariant_ends_the_member_and_the_others_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story() -> None:
        async with group(order="fifo") as rooms:
            ada, bob = await rooms.join_all("ada", "bob")

            def broken(*_: Any) -> None:
                raise AssertionError("this cannot be")

            monkeypatch.setattr(ada._driver.core, "on_packet", broken)
            await bob.to_others("hello")
            with pytest.raises(AssertionError, match="this cannot be"):
                await anext(ada)
            with pytest.raises(AssertionError, match="this cannot be"):
                await ada.to_others("hello?")
            await rooms.agree("bob")

    run(story)


def test_what_was_posted_too_late_is_among_what_is_unsure() -> None:
    async def story() -> None:
        async with group(order="total") as rooms:
            ada, bob = await rooms.join_all("ada", "bob")
            for connection in [*bob._driver._carrier._peers]:  # type: ignore[union-attr]
                connection.pause_reading()
            await bob.to_others("on its way")
            await asyncio.sleep(0.02)
            view = bob.view
            bob._driver.on_view(say.GroupView("room", view.epoch + 1, "total", view.members[:1]))
            await bob.to_others("too late")
            with pytest.raises(Expelled, match=r"bob is no longer in room .*: join again") as caught:
                await anext(bob)
            assert caught.value.unsure == ["on its way", "too late"]
            assert ada.members

    run(story)


def test_who_waits_for_room_is_told_when_there_will_be_none() -> None:
    async def story() -> None:
        async with group(order="fifo", settings={"kept_bytes_max": 1000}) as rooms:
            ada, bob = await rooms.join_all("ada", "bob")
            for connection in [*bob._driver._carrier._peers]:  # type: ignore[union-attr]
                connection.pause_reading()
            await ada.to_others(bytes(5000))
            await asyncio.sleep(0)
            waiting = asyncio.create_task(ada.to_others("later"))
            await asyncio.sleep(0.02)
            assert not waiting.done()
            await ada.abandon()
            with pytest.raises(UsageError, match="ada has left room"):
                await waiting

    run(story)
