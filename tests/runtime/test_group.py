"""The public face of groups: every order over both transports, on real sockets."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from octoloom import ConcurrentMessages, Group, ReceivedMessage, UsageError
from octoloom.core.filters import Forwarder, MessageFilters, SentMessage, UnknownFilter
from octoloom.core.group_register import GroupRegisterConfig
from octoloom.core.steps import DELIVERED, SENT, VIEW, Step
from octoloom.runtime.step_file import read_steps
from tests.runtime.group_rooms import BadWeather, Listener, group, run
from tests.waiting import async_until as until

TRANSPORTS = ("tcp", "udp")


@pytest.mark.parametrize("transport", TRANSPORTS)
@pytest.mark.parametrize("order", ["none", "fifo", "causal", "total"])
def test_everybody_gets_what_the_others_send(order: str, transport: str) -> None:
    async def story() -> None:
        async with group(order=order, transport=transport) as rooms:
            members = await rooms.join_all("ada", "bob", "cathy")
            listeners = [Listener(room) for room in members]
            for number in range(50):
                for room in members:
                    await room.to_others([room.name, number])
                await asyncio.sleep(0)
            count = 150 if order == "total" else 100
            await until(lambda: all(len(each.messages) == count for each in listeners))
            for listener in listeners:
                for name in ("ada", "bob", "cathy"):
                    bodies = [body for sender, body in listener.heard if sender == name]
                    expected = [[name, n] for n in range(50)] if name != listener.room.name or order == "total" else []
                    assert (bodies if order != "none" else sorted(bodies)) == expected
            if order == "total":
                assert listeners[0].bodies == listeners[1].bodies == listeners[2].bodies

    run(story, plain=transport == "udp")


@pytest.mark.parametrize("order", ["none", "causal"])
def test_lunch_comes_before_its_question_only_without_an_order(order: str) -> None:
    """Ada's line to Cathy is slow; Bob answers at once."""

    async def story() -> list[str]:
        async with group(order=order) as rooms:
            ada, bob, cathy = await rooms.join_all("ada", "bob", "cathy")
            # However slow the machine is, Ada's line is slower, where that matters.
            ada.set_minimum_delay("cathy", 600_000 if order == "none" else 200)
            await asyncio.sleep(0.05)
            await ada.to_others("Done?")
            assert (await anext(bob)).body == "Done?"
            await bob.to_others("Lunch?")
            first = (await anext(cathy)).body
            ada.set_minimum_delay("cathy", 0)
            return [first, (await anext(cathy)).body] if order == "causal" else [first]

    assert run(story) == (["Done?", "Lunch?"] if order == "causal" else ["Lunch?"])


def test_a_total_order_survives_loss_doubling_and_reordering() -> None:
    # On a busy machine, too, nobody is to be taken for dead: this is about loss.
    patient = GroupRegisterConfig(lease_ms=20_000, suspect_ms=10_000)

    async def story() -> None:
        async with group(patient, order="total", transport="udp") as rooms:
            names = ["ada", "bob", "cathy", "dan"]
            weathers = {name: BadWeather(seed) for seed, name in enumerate(names)}
            members = [await rooms.join(name, loss=weathers[name]) for name in names]
            await rooms.agree(*names)
            listeners = [Listener(room) for room in members]
            for number in range(100):
                for room in members:
                    await room.to_others((room.name, number))
                await asyncio.sleep(0.001)
            await until(lambda: all(len(each.messages) == 400 for each in listeners))
            assert all(weather.losses for weather in weathers.values())
            assert all(listener.bodies == listeners[0].bodies for listener in listeners)
            for name in names:
                assert [n for who, n in listeners[0].bodies if who == name] == list(range(100))

    run(story)


def test_messages_to_one_member_pass_by_the_order() -> None:
    async def story() -> None:
        async with group(order="total") as rooms:
            ada, bob, cathy = await rooms.join_all("ada", "bob", "cathy")
            for number in range(3):
                await ada.to_user("bob", number)
            got = [await anext(bob) for _ in range(3)]
            assert got == [ReceivedMessage("ada", number, to_me=True) for number in range(3)]
            for nobody in ("eve", "ada"):
                with pytest.raises(UsageError, match=f"{nobody} is not in room with ada: choose one of bob, cathy"):
                    await ada.to_user(nobody, "psst")
            await cathy.to_others("all")
            assert (await anext(bob)).body == (await anext(ada)).body == "all"

    run(story)


def test_a_message_may_pass_by_the_order() -> None:
    async def story() -> None:
        async with group(order="causal") as rooms:
            ada, _, cathy = await rooms.join_all("ada", "bob", "cathy")
            ada.set_minimum_delay("cathy", 0)
            await ada.to_others("first")
            await ada.to_others("aside", ordered=False)
            await ada.to_others("second")
            bodies = [(await anext(cathy)).body for _ in range(3)]
            assert bodies == ["first", "aside", "second"]

    run(story)


def test_what_is_sent_in_a_tick_and_many_at_once_are_bundles() -> None:
    async def story() -> None:
        async with group(order="fifo") as rooms:
            ada, bob = await rooms.join_all("ada", "bob")
            await ada.to_others(0)
            await ada.to_others(1)
            await ada.send_many(list(range(2, 1000)))
            await ada.to_others(1000)
            got: list[ReceivedMessage] = []
            async for batch in bob.batches():
                got += batch
                if len(got) == 1001:
                    break
            assert [message.body for message in got] == list(range(1001))
            assert [got[at].number for at in (0, 1, 2, 999, 1000)] == [1, 1, 2, 2, 3]

    run(story)


def test_leaving_off_in_a_batch_loses_nothing() -> None:
    async def story() -> None:
        async with group(order="fifo") as rooms:
            ada, bob = await rooms.join_all("ada", "bob")
            await ada.send_many([1, 2, 3, 4, 5])
            async for message in bob:
                if message.body == 2:
                    break
            assert (await anext(bob)).body == 3
            async for batch in bob.batches():
                assert [message.body for message in batch] == [4, 5]
                break

    run(story)


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_the_order_can_be_switched_under_load(transport: str) -> None:
    async def story() -> None:
        async with group(order="fifo", transport=transport) as rooms:
            members = await rooms.join_all("ada", "bob", "cathy")
            listeners = [Listener(room) for room in members]

            async def talk(room: Group) -> None:
                for number in range(300):
                    await room.to_others((room.name, number, room.view.order))
                    await asyncio.sleep(0.001)

            talks = [asyncio.create_task(talk(room)) for room in members]
            await asyncio.sleep(0.1)
            await members[2].set_order("total")
            assert members[2].view.order == "total"
            await asyncio.gather(*talks)
            await members[0].set_order("causal")
            for room in members:
                await room.to_others((room.name, 300, "end"))
            await until(lambda: all(_lasts(each) for each in listeners))
            for listener in listeners:
                for name in ("ada", "bob", "cathy"):
                    numbers = [number for who, number, _ in listener.bodies if who == name]
                    if name != listener.room.name:
                        assert numbers == list(range(301))
            with pytest.raises(UnknownFilter, match="no order called 'upside'"):
                await members[0].set_order("upside")

    def _lasts(listener: Listener) -> bool:
        return len([body for body in listener.bodies if body[1] == 300]) == 2

    run(story)


def test_concurrent_messages_are_flagged_or_raised() -> None:
    async def story() -> None:
        async with group(order="causal") as rooms:
            ada, bob, cathy = [await rooms.join("ada"), await rooms.join("bob"), await rooms.join("cathy")]
            strict = await rooms.join("dan", concurrent="raise")
            await rooms.agree("ada", "bob", "cathy", "dan")
            await ada.to_others("A")
            await bob.to_others("B")  # neither has heard the other
            flags = {message.body: message.concurrent for message in [await anext(cathy), await anext(cathy)]}
            assert sorted(flags.values()) == [False, True]
            with pytest.raises(ConcurrentMessages, match="are concurrent"):
                async for _ in strict:
                    pass

    run(story)


class Doubler:
    """Says everything twice, and counts on the way in."""

    def __init__(self) -> None:
        self.processor: Any = None

    def filter(self, message: SentMessage) -> None:
        self.processor(message)
        self.processor(SentMessage(message.body.upper()))


class Later:
    """Holds messages back until it is called."""

    def __init__(self) -> None:
        self.processor: Any = None
        self.held: list[ReceivedMessage] = []

    def filter(self, message: ReceivedMessage) -> None:
        self.held.append(message)

    def on_time(self, now: int) -> int | None:
        held, self.held = self.held[:1], self.held[1:]
        for message in held:
            self.processor(message)
        return now + 5 if self.held else None


def test_an_apps_filters_change_multiply_and_hold_back() -> None:
    async def story() -> None:
        members: list[list[str]] = []
        later = Later()
        factories = [
            lambda name: MessageFilters(Doubler(), Forwarder(), on_members=lambda names: members.append([*names])),
            lambda name: MessageFilters(Forwarder(), later, on_time=later.on_time),
        ]
        async with group(order="fifo") as rooms:
            ada = await rooms.join("ada", filters=factories[:1])
            bob = await rooms.join("bob", filters=factories[1:])
            await rooms.agree("ada", "bob")
            await ada.to_others("hi")
            await ada.send_many(["ho"])
            assert [(await anext(bob)).body for _ in range(4)] == ["hi", "HI", "ho", "HO"]
            await ada.to_user("bob", "psst")
            assert (await anext(bob)).body == "psst"
            assert members == [["ada"], ["ada", "bob"]]

    run(story)


def test_steps_are_traced_to_a_file_and_to_a_function(tmp_path: Path) -> None:
    async def story() -> None:
        steps: list[Step] = []
        async with group(order="causal") as rooms:
            ada = await rooms.join("ada", trace=tmp_path / "ada.jsonl")
            bob = await rooms.join("bob", trace=steps.append)
            await rooms.agree("ada", "bob")
            await ada.to_others("Done?")
            assert (await anext(bob)).body == "Done?"
        said = [step for step in read_steps([tmp_path / "ada.jsonl"]) if step.name == SENT]
        assert [(step.text, step.at_ms > 0) for step in said] == [("Done?", True)]
        assert [step.name for step in steps if step.name in (VIEW, DELIVERED)] == [VIEW, DELIVERED]

    run(story)


def test_bodies_that_cannot_be_sent_are_refused_and_nothing_changes() -> None:
    async def story() -> None:
        async with group(order="fifo", transport="udp") as rooms:
            ada, bob = await rooms.join_all("ada", "bob")
            await ada.to_others("before")
            with pytest.raises(UsageError, match="type object cannot be sent"):
                await ada.to_others(object())
            with pytest.raises(UsageError, match=r"over udp has at most 48000 bytes.*transport='tcp'"):
                await ada.to_others(bytes(50_000))
            with pytest.raises(UsageError, match="transport='tcp'"):
                await ada.send_many([b"small", bytes(50_000)])
            with pytest.raises(UsageError, match="transport='tcp'"):
                await ada.to_user("bob", bytes(50_000))
            with pytest.raises(UsageError, match="choose 0 to"):
                ada.set_minimum_delay("bob", -1)
            await ada.send_many([bytes(1000)] * 200)  # it takes several datagrams
            await ada.to_others("after")
            got = [(await anext(bob)).body for _ in range(202)]
            assert got == ["before", *[bytes(1000)] * 200, "after"]

    run(story, plain=True)


def test_a_sender_waits_while_the_group_is_congested() -> None:
    async def story() -> None:
        async with group(order="fifo", settings={"kept_bytes_max": 200_000}) as rooms:
            ada, bob = await rooms.join_all("ada", "bob")
            listener = Listener(bob)
            most = 0
            for number in range(2000):
                await ada.to_others((number, bytes(1000)))
                most = max(most, ada._driver.core.casting.nakack.kept_bytes)  # type: ignore[union-attr]
            await until(lambda: len(listener.messages) == 2000)
            assert [number for number, _ in listener.bodies] == list(range(2000))
            assert 200_000 < most < 1_000_000

    run(story)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"order": "upside"}, "no order called 'upside': use one of .*causal.*, total"),
        ({"filters": ["magic"]}, "no filter called 'magic'"),
        ({"name": "a#b"}, "'a#b' is no name"),
        ({"name": ""}, "'' is no name"),
        ({"transport": "pigeon"}, "transport is one of tcp, udp, not 'pigeon'"),
        ({"concurrent": "shrug"}, "concurrent is one of flag, raise, paths, not 'shrug'"),
        ({"failover": "pray"}, "failover is resend or drop, not 'pray'"),
        ({"register": "nowhere"}, "'nowhere' is not an address"),
        ({"host": "0.0.0.0"}, "the others cannot dial '0.0.0.0': name the address"),
        ({"settings": {"speed": 9}}, "a group has no setting 'speed'"),
    ],
)
def test_what_cannot_be_is_refused_before_anything_is_done(options: dict[str, Any], text: str) -> None:
    with pytest.raises(UsageError, match=text):
        Group.join("room", **{"name": "ada", "register": "127.0.0.1:7070", **options})
