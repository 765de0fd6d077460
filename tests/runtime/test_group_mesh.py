"""Bad input over TCP, from raw sockets and from a member that misbehaves: a typed error, a counter, and no change."""

from __future__ import annotations

import asyncio

import pytest

from octoloom import Group
from octoloom.core import group_messages as say
from octoloom.runtime import group_mesh
from octoloom.wire.framing import frame
from octoloom.wire.group import (
    Intro,
    Refusal,
    Welcome,
    decode_answer,
    encode_first,
    encode_part,
    packet_head,
    packet_of,
)
from tests.runtime.group_rooms import Listener, Rooms, group, run
from tests.waiting import async_until as until


class Stranger:
    """A raw connection to a member."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    @classmethod
    async def dial(cls, room: Group) -> Stranger:
        host, _, port = room.view.members[0].peer.rpartition(":")
        return cls(*await asyncio.open_connection(host, int(port)))

    async def say(self, data: bytes) -> bytes:
        """All that is answered until the other side hangs up."""
        self._writer.write(data)
        try:
            answer = await self._reader.read()
        except ConnectionResetError:
            answer = b""
        self._writer.close()
        return answer


async def unmoved(rooms: Rooms) -> None:
    """The group goes on as it was."""
    ada, bob = rooms.rooms["ada"], rooms.rooms["bob"]
    epoch = ada.view.epoch
    await bob.to_others("fine")
    assert (await anext(ada)).body == "fine"
    assert ada.members == bob.members == ["ada", "bob"]
    assert ada.view.epoch == epoch


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (b"GET / HTTP/1.1\r\n\r\n", "frame-too-large"),
        (frame(b"garbage"), "malformed"),
        (frame(b""), "malformed"),
        (frame(packet_of(packet_head("room", "bob#1", "ada#1"), [])), "malformed"),
        (b"\xff" * 1000, "frame-too-large"),
    ],
)
def test_garbage_from_a_stranger_ends_its_connection(data: bytes, code: str) -> None:
    async def story() -> None:
        async with group(order="fifo") as rooms:
            ada, _ = await rooms.join_all("ada", "bob")
            stranger = await Stranger.dial(ada)
            assert await stranger.say(data) == b""
            assert ada.counters[code] == 1
            await unmoved(rooms)

    run(story)


def test_who_is_not_a_member_is_held_and_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group_mesh, "HELD_S_MAX", 0.05)

    async def story() -> None:
        async with group(order="fifo") as rooms:
            ada, _ = await rooms.join_all("ada", "bob")
            me = ada._life.me
            for intro, code in (
                (Intro("room", "eve#1", me), "not-a-member"),
                (Intro("room", me, me), "not-a-member"),
                (Intro("other", "bob#1", me), "wrong-member"),
                (Intro("room", "bob#1", "ada#1"), "wrong-member"),
            ):
                before = ada.counters[code]
                answer = decode_answer((await (await Stranger.dial(ada)).say(encode_first(intro)))[4:])
                assert isinstance(answer, Refusal)
                assert answer.code == code
                assert ada.counters[code] == before + 1
            early = encode_first(Intro("room", "eve#1", me)) + frame(b"what follows")
            assert await (await Stranger.dial(ada)).say(early) == b""
            assert ada.counters["too-early"] == 1
            await unmoved(rooms)

    run(story)


def test_who_is_in_the_next_view_is_welcome_when_that_comes() -> None:
    async def story() -> None:
        async with group(order="fifo") as rooms:
            ada, _ = await rooms.join_all("ada", "bob")
            carrier, view = ada._driver._carrier, ada.view
            assert carrier is not None
            stranger = await Stranger.dial(ada)
            answer = asyncio.create_task(stranger.say(encode_first(Intro("room", "eve#1", ada._life.me))))
            await until(lambda: "eve#1" in carrier._held.values())  # type: ignore[attr-defined]
            carrier.on_view(
                say.GroupView("room", 9, "fifo", [*view.members, say.MemberAddress("eve#1", "127.0.0.1:1")])
            )
            carrier.on_view(view)  # and out again: what she was told comes first
            assert decode_answer((await answer)[4:]) == Welcome()
            await unmoved(rooms)

    run(story)


def bad_parts(ada: Group, bob: Group) -> dict[str, tuple[list[say.Part], str]]:
    """What a member of the group may not say, with the counter that it moves."""
    me, other, epoch = bob._life.me, ada._life.me, ada.view.epoch
    own = [say.Bundle(me, 9, 1, b"\x91\x01")]
    return {
        "forged sender": ([say.Cast(epoch, other, 1, [say.Bundle(other, 1, 1, b"\x90")])], "forged-sender"),
        "forged origin": ([say.Cast(epoch, me, 5, [say.Bundle(other, 1, 1, b"\x90")])], "forged-sender"),
        "somebody who is not there": ([say.Resent([say.Cast(epoch, "eve#1", 1, own)])], "not-a-member"),
        "forged sequence": ([say.Cast(epoch, me, 0, own)], "forged-sequence"),
        "forged acknowledgement": ([say.Acked(1 << 40)], "forged-sequence"),
        "part 0": ([say.Numbered(0, say.Ready(epoch))], "forged-sequence"),
        "stamp of a wrong size": ([say.Cast(epoch, me, 1, own, [1, 2, 3])], "bad-stamp"),
        "stamp that goes back": ([say.Cast(epoch, me, 2, own, [0, 1])], "bad-stamp"),
        "too few counts": ([say.Have(epoch, [1])], "bad-counts"),
        "stable by who does not lead": ([say.Stable(epoch, [1, 1], [1, 1])], "bad-counts"),
    }


CASES = [
    *("forged sender", "forged origin", "somebody who is not there", "forged sequence", "forged acknowledgement"),
    *("part 0", "stamp of a wrong size", "stamp that goes back", "too few counts", "stable by who does not lead"),
]


@pytest.mark.parametrize("transport", ["tcp", "udp"])
@pytest.mark.parametrize("case", CASES)
def test_a_member_that_breaks_the_rules_changes_nothing(case: str, transport: str) -> None:
    async def story() -> None:
        async with group(order="causal", transport=transport) as rooms:
            ada, bob = await rooms.join_all("ada", "bob")
            parts, code = bad_parts(ada, bob)[case]
            before = ada._driver.core.casting
            bob._driver._carrier.send(ada._life.me, [encode_part(part) for part in parts])  # type: ignore[union-attr]
            await until(lambda: ada.counters[code] == 1)
            assert ada._driver.core.casting is before
            await unmoved(rooms)

    run(story)


def test_what_is_said_of_an_old_view_is_counted_and_left() -> None:
    async def story() -> None:
        async with group(order="causal") as rooms:
            ada, bob = await rooms.join_all("ada", "bob")
            cast = say.Cast(ada.view.epoch - 1, bob._life.me, 1, [say.Bundle(bob._life.me, 1, 1, b"\x91\x01")], [0, 1])
            bob._driver._carrier.send(ada._life.me, [encode_part(cast), encode_part(say.Have(1, [0, 0]))])  # type: ignore[union-attr]
            await until(lambda: ada.counters["old-view"] == 2)
            await unmoved(rooms)

    run(story)


@pytest.mark.parametrize("transport", ["tcp", "udp"])
def test_a_packet_in_anothers_name_is_not_taken(transport: str) -> None:
    async def story() -> None:
        async with group(order="fifo", transport=transport) as rooms:
            ada, bob = await rooms.join_all("ada", "bob")
            carrier, me = bob._driver._carrier, ada._life.me
            assert carrier is not None
            right, carrier._heads[me] = carrier._heads[me], packet_head("room", "eve#1", me)  # type: ignore[attr-defined]
            carrier.send(me, [encode_part(say.Acked(0))])
            carrier._heads[me] = right  # type: ignore[attr-defined]
            await until(lambda: ada.counters["forged-sender"] == 1)
            await unmoved(rooms)

    run(story)


@pytest.mark.parametrize("payload", [b"\xc1", b"\x92\x01\x02", b"not a list"])
def test_a_payload_that_cannot_be_read_is_left_out(payload: bytes) -> None:
    async def story() -> None:
        async with group(order="fifo") as rooms:
            ada, bob = await rooms.join_all("ada", "bob")
            bob._driver.core.send(bob._driver.begin(), payload, 1)
            bob._driver.core.send_to(bob._driver.begin(), ada._life.me, b"\xc1")
            await unmoved(rooms)
            assert ada.counters["bad-payload"] == 2

    run(story)


def test_who_does_not_read_for_a_while_gets_what_it_lacks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group_mesh, "BUFFERED_MAX", 1_000_000)

    async def story() -> None:
        async with group(order="fifo") as rooms:
            ada, bob = await rooms.join_all("ada", "bob")
            listener = Listener(bob)
            (lazy,) = bob._driver._carrier._peers  # type: ignore[union-attr]
            lazy.pause_reading()
            for number in range(600):
                await ada.to_others((number, bytes(20_000)))
                await asyncio.sleep(0)
            assert ada.counters["unsent"] > 0
            lazy.resume_reading()
            await until(lambda: len(listener.messages) == 600)
            assert [number for number, _ in listener.bodies] == list(range(600))

    run(story)
