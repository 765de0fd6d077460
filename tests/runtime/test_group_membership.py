"""A member's life on real sockets: joining, state, leaving, being expelled, and the deaths of others."""

from __future__ import annotations

import asyncio
import itertools
import socket
from typing import Any

import pytest

from octoloom import Expelled, Group, UsageError
from octoloom.core.group_register import GroupRegisterConfig
from octoloom.core.register_messages import Declined
from octoloom.runtime.register_line import FINAL
from tests.runtime.group_rooms import Listener, group, run
from tests.waiting import async_until as until

TRANSPORTS = ("tcp", "udp")

PATIENT = GroupRegisterConfig(lease_ms=20_000, closed_grace_ms=1000, suspect_ms=10_000)
"""For stories in which nobody is to be taken for dead, however slow the machine is."""


def test_members_come_and_go_by_name_oldest_first() -> None:
    async def story() -> None:
        async with group(order="total") as rooms:
            ada = await rooms.join("ada")
            told: list[tuple[str, str, list[str]]] = []
            ada.on_join(lambda name, members: told.append(("join", name, members)))
            ada.on_leave(lambda name, members: told.append(("leave", name, members)))
            bob = await rooms.join("bob")
            await rooms.agree("ada", "bob")
            assert (bob.view.order, bob.members) == ("total", ["ada", "bob"])
            await bob.leave()
            await rooms.agree("ada")
            await rooms.join("bob")
            await rooms.agree("ada", "bob")
            both, alone = ["ada", "bob"], ["ada"]
            assert told == [("join", "bob", both), ("leave", "bob", alone), ("join", "bob", both)]

    run(story)


def test_callbacks_come_at_their_place_among_the_messages() -> None:
    """The app reads late: what was said before the newcomer came is read before it hears of it."""

    async def story() -> None:
        async with group(order="total") as rooms:
            ada, bob = await rooms.join_all("ada", "bob")
            seen: list[Any] = []
            bob.on_join(lambda name, _: seen.append(f"{name} came"))
            for body in ("one", "two"):
                await ada.to_others(body)
                await until(lambda body=body: bob._driver.core.received(ada._life.me) == (1 if body == "one" else 2))  # type: ignore[misc]
            seen.append((await anext(bob)).body)
            await rooms.join("cathy")
            await until(lambda: bob.members == ["ada", "bob", "cathy"])
            await ada.to_others("three")
            while "three" not in seen:
                seen.append((await anext(bob)).body)
            assert seen == ["one", "two", "cathy came", "three"]

    run(story)


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_newcomers_get_the_state_where_their_view_begins(transport: str) -> None:
    async def story() -> None:
        async with group(order="total", transport=transport) as rooms:
            texts: dict[str, list[int]] = {}

            async def live(name: str) -> None:
                text = texts[name] = []
                room = await rooms.join(name, state=lambda: texts[name])
                text += room.state or []

                async def follow() -> None:
                    async for message in room:
                        text.append(message.body)

                followers.append(asyncio.create_task(follow()))

            followers: list[asyncio.Task[None]] = []
            numbers = itertools.count()
            await live("ada")

            async def talk() -> None:
                while len(texts) < 4:
                    await rooms.rooms["ada"].send_many([next(numbers) for _ in range(20)])
                    await asyncio.sleep(0.001)

            talking = asyncio.create_task(talk())
            for name in ("bob", "cathy", "dan"):
                await asyncio.sleep(0.03)
                await live(name)
            await talking
            said = next(numbers)
            await until(lambda: all(len(text) >= said for text in texts.values()))
            assert [text == list(range(said)) for text in texts.values()] == [True] * 4

    run(story)


def test_a_state_is_given_when_its_app_has_taken_what_is_before_it() -> None:
    async def story() -> None:
        async with group(order="total") as rooms:
            text: list[int] = []
            ada = await rooms.join("ada", state=lambda: text)
            await ada.send_many([1, 2, 3])
            text.append((await anext(ada)).body)  # two more are read late
            joining = asyncio.create_task(rooms.join("bob", state=lambda: None))
            await until(lambda: ada.members == ["ada", "bob"])
            await asyncio.sleep(0.02)
            assert not joining.done()
            text += [(await anext(ada)).body, (await anext(ada)).body]
            reading = asyncio.create_task(anext(ada))
            assert (await joining).state == [1, 2, 3]
            reading.cancel()

    run(story)


def test_a_long_state_travels_in_datagrams_too() -> None:
    async def story() -> None:
        async with group(order="fifo", transport="udp") as rooms:
            await rooms.join("ada", state=lambda: bytes(500_000))
            bob = await rooms.join("bob", state=lambda: None)
            assert bob.state == bytes(500_000)
            cathy = await rooms.join("cathy")
            assert cathy.state is None  # who gives none does not wait for one

    run(story)


def test_a_state_that_cannot_be_given_is_its_givers_error() -> None:
    async def story() -> None:
        async with group(order="fifo") as rooms:
            ada = await rooms.join("ada", state=lambda: 1 // 0)
            bob = rooms.place("bob", state=lambda: None)
            async with bob:
                assert bob.state is None  # nobody was left who had one
            with pytest.raises(ZeroDivisionError):
                await ada.to_others("hello")

    run(story)


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_survivors_agree_when_the_coordinator_dies_under_load(transport: str) -> None:
    async def story() -> None:
        names = ["ada", "bob", "cathy", "dan"]
        async with group(order="total", transport=transport) as rooms:
            members = await rooms.join_all(*names)
            listeners = {room.name: Listener(room) for room in members}
            talks = [asyncio.create_task(_talk(room)) for room in members]
            for dead, alive in (("ada", names[1:]), ("bob", names[2:])):
                await asyncio.sleep(0.15)
                await rooms.kill(dead)
                await rooms.agree(*alive)
            await asyncio.sleep(0.1)
            for talking in talks:
                talking.cancel()
            said = await asyncio.gather(*talks)
            cathy, dan = listeners["cathy"], listeners["dan"]
            await until(lambda: len(cathy.messages) == len(dan.messages) and _whole(cathy, said[2], said[3]))
            assert cathy.heard == dan.heard
            for name, count in zip(names, said, strict=True):
                numbers = [number for sender, number in cathy.heard if sender == name]
                assert numbers == list(range(len(numbers)))
                assert len(numbers) == count if name in ("cathy", "dan") else len(numbers) <= count

    run(story)


async def _talk(room: Group) -> int:
    """Says numbers until it is cancelled, or cannot go on; answers how many it said."""
    for number in itertools.count():
        try:
            await room.to_others(number)
            await asyncio.sleep(0.001)
        except (asyncio.CancelledError, UsageError):
            return number + 1
    raise AssertionError


def _whole(listener: Listener, *counts: int) -> bool:
    return all(
        sum(sender == name for sender, _ in listener.heard) == count
        for name, count in zip(("cathy", "dan"), counts, strict=True)
    )


def test_connections_that_break_are_made_again_and_nothing_is_lost() -> None:
    async def story() -> None:
        async with group(PATIENT, order="fifo") as rooms:
            members = await rooms.join_all("ada", "bob", "cathy")
            listeners = [Listener(room) for room in members]
            for number in range(60):
                for room in members:
                    await room.to_others(number)
                if number % 20 == 10:
                    for connection in [*members[1]._driver._carrier._peers]:  # type: ignore[union-attr]
                        connection.abort()
                await asyncio.sleep(0.002)
            await until(lambda: all(len(each.messages) == 120 for each in listeners))
            assert members[0].view.epoch == 3  # nobody was taken for dead
            for listener in listeners:
                for name in {sender for sender, _ in listener.heard}:
                    assert [n for sender, n in listener.heard if sender == name] == list(range(60))

    run(story)


def test_what_was_said_before_there_was_a_connection_is_said_again_when_there_is() -> None:
    """Nobody waits for the time after which a part is sent again."""

    async def story() -> None:
        async with group(order="fifo", settings={"retry_ms": 60_000}) as rooms:
            ada, bob = await rooms.join_all("ada", "bob")
            for connection in [*bob._driver._carrier._peers]:  # type: ignore[union-attr]
                connection.abort()
            await asyncio.sleep(0)
            await ada.to_user("bob", "still there?")
            assert (await anext(bob)).body == "still there?"

    run(story)


def test_a_member_comes_back_to_the_register_after_the_order_was_switched() -> None:
    async def story() -> None:
        async with group(PATIENT, order="fifo") as rooms:
            ada, bob = await rooms.join_all("ada", "bob")
            await bob.set_order("total")
            await until(lambda: ada.view.order == "total")
            epoch = ada.view.epoch
            for room in (ada, bob):
                line = room._life._client.line
                lost = line.connection
                assert lost is not None
                lost.abort()
                await until(lambda line=line, lost=lost: line.connection not in (None, lost))  # type: ignore[misc]
            await asyncio.sleep(1.2)  # longer than the register's grace
            await ada.to_others("still here")
            assert (await anext(bob)).body == "still here"
            assert bob.view.epoch == epoch

    run(story)


def test_what_a_lost_coordinator_had_not_ordered_is_dropped_on_demand() -> None:
    async def story() -> None:
        async with group(order="total") as rooms:
            members = await rooms.join_all("ada", "bob", "cathy", failover="drop")
            listener = Listener(members[2])
            # The coordinator reads nothing from bob any more.
            for connection, peer in members[0]._driver._carrier._peers.items():  # type: ignore[union-attr]
                if peer.startswith("bob#"):
                    connection.pause_reading()
            await members[1].send_many(["lost", "too"])
            await asyncio.sleep(0.05)
            await rooms.kill("ada")
            await rooms.agree("bob", "cathy")
            assert members[1].dropped == ["lost", "too"]
            await members[1].to_others("next")
            await until(lambda: listener.bodies == ["next"])

    run(story)


@pytest.mark.parametrize("order", ["fifo", "total"])
def test_a_leaver_has_said_everything_before_it_goes(order: str) -> None:
    async def story() -> None:
        async with group(order=order) as rooms:
            ada, bob = await rooms.join_all("ada", "bob")
            listener, own = Listener(bob), Listener(ada)
            (slow,) = bob._driver._carrier._peers  # type: ignore[union-attr]
            slow.pause_reading()
            asyncio.get_running_loop().call_later(0.1, slow.resume_reading)
            await ada.send_many(list(range(5000)))
            await ada.leave()
            await rooms.agree("bob")
            await until(lambda: own.ended)
            assert listener.bodies == list(range(5000))
            assert own.bodies == (list(range(5000)) if order == "total" else [])
            with pytest.raises(UsageError, match="ada has left room: join again"):
                await ada.to_others("too late")
            with pytest.raises(UsageError, match="ada has left room"):
                ada.set_minimum_delay("bob", 1)
            await ada.leave()  # once more does no harm

    run(story)


def test_who_hangs_is_expelled_and_told_to_join_again() -> None:
    async def story() -> None:
        async with group(register=GroupRegisterConfig(lease_ms=1000), order="total") as rooms:
            ada, bob = await rooms.join_all("ada", "bob")
            listener = Listener(bob)
            bob._life._client.line._beat_ms = 10_000  # it does not beat any more
            await rooms.agree("ada")
            await until(lambda: listener.error is not None)
            assert isinstance(listener.error, Expelled)
            assert "join again" in str(listener.error)
            with pytest.raises(Expelled, match="join again"):
                await bob.to_others("hello?")
            again = await rooms.join("bob")
            await rooms.agree("ada", "bob")
            await again.to_others("back")
            assert (await anext(ada)).body == "back"

    run(story)


@pytest.mark.parametrize("order", ["fifo", "total"])
def test_what_was_sent_in_the_last_moment_is_in_doubt_too(order: str) -> None:
    """The register's refusal comes in the tick in which the app sends: nothing of it has left yet."""

    async def story() -> None:
        async with group(order=order) as rooms:
            bob, _ = await rooms.join_all("bob", "ada")
            await bob.to_others("last words")
            bob._life.on_declined(Declined(FINAL[0], "somebody else is here"))
            with pytest.raises(Expelled) as caught:
                await bob.to_others("hello?")
            assert caught.value.unsure == ["last words"]

    run(story)


def test_a_second_of_the_same_name_takes_the_place_of_the_first() -> None:
    async def story() -> None:
        async with group(order="fifo") as rooms:
            await rooms.join("ada")
            first = await rooms.join("bob")
            second = await rooms.join("bob")
            await rooms.agree("ada", "bob")
            with pytest.raises(Expelled, match="join again"):
                await anext(first)
            await second.to_others("me")
            assert (await anext(rooms.rooms["ada"])).body == "me"

    run(story)


def test_nobody_joins_where_it_cannot_be() -> None:
    async def story() -> None:
        async with group(register=GroupRegisterConfig(members_max=1), order="total") as rooms:
            await rooms.join("ada")
            for name, options, text in (
                ("bob", {}, "bob cannot join room: .* wait until one leaves"),
                ("ada", {"order": "fifo"}, "delivers in the order total, not fifo"),
                ("ada", {"transport": "udp"}, "join with transport=tcp"),
            ):
                with pytest.raises(UsageError, match=text):
                    await rooms.join(name, **options)

    run(story)


def test_a_register_that_does_not_answer_is_not_waited_for_for_ever() -> None:
    async def story() -> None:
        with socket.create_server(("127.0.0.1", 0)) as silent:
            address = f"127.0.0.1:{silent.getsockname()[1]}"
            with pytest.raises(UsageError, match=f"no register answered at {address} within 0.2 s"):
                async with Group.join("room", name="ada", register=address, timeout_s=0.2):
                    pass
        assert len(asyncio.all_tasks()) == 1

    run(story, plain=True)


def test_a_port_that_is_taken_is_named() -> None:
    async def story() -> None:
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = taken.getsockname()[1]
            async with group() as rooms:
                with pytest.raises(UsageError, match=f"cannot listen for the group on 127.0.0.1:{port}"):
                    await rooms.join("ada", port=port)

    run(story)


def test_the_group_goes_on_while_the_register_is_away() -> None:
    async def story() -> None:
        async with group(order="total") as rooms:
            ada, bob = await rooms.join_all("ada", "bob")
            await rooms.server.stop()
            await asyncio.sleep(0.05)
            await bob.to_others("still here")
            assert (await anext(ada)).body == (await anext(bob)).body == "still here"
            await asyncio.gather(ada.leave(), bob.leave())

    run(story)
