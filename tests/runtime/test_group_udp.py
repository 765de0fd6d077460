"""Datagrams: from strangers, in pieces, and where nobody listens any more."""

from __future__ import annotations

import asyncio
import socket

import pytest

from octoloom import Group
from octoloom.core import group_messages as say
from octoloom.core.errors import ProtocolError
from octoloom.runtime import group_udp
from octoloom.runtime.group_udp import Datagrams
from octoloom.wire.group import Piece, encode_part, encode_piece, packet_head, packet_of
from tests.runtime.group_rooms import BadWeather, Listener, group, run
from tests.waiting import async_until as until

ADA, BOB = "ada#1", "bob#1"


class Owner:
    def __init__(self) -> None:
        self.packets: list[tuple[str, list[say.Part]]] = []

    def on_peer_up(self, member: str) -> None:
        raise AssertionError(f"{member} has no connection that could be up")

    def on_packet(self, peer: str, parts: list[say.Part]) -> bool:
        self.packets.append((peer, parts))
        return True


async def pair() -> tuple[Datagrams, Datagrams, Owner]:
    """Ada, who speaks, and bob, who listens."""
    owner = Owner()
    ada, bob = Datagrams("room", ADA, Owner()), Datagrams("room", BOB, owner)
    for each in (ada, bob):
        await each.open("127.0.0.1", 0)
    members = [say.MemberAddress(ADA, ada.address, "udp"), say.MemberAddress(BOB, bob.address, "udp")]
    for each in (ada, bob):
        each.on_view(say.GroupView("room", 1, "fifo", members))
    return ada, bob, owner


def where(room: Group, name: str) -> tuple[str, int]:
    (peer,) = [each.peer for each in room.view.members if each.member.startswith(name)]
    host, _, port = peer.rpartition(":")
    return host, int(port)


@pytest.mark.parametrize("plain", [False, True])
def test_strangers_and_garbage_change_nothing(plain: bool) -> None:
    async def story() -> None:
        async with group(order="causal", transport="udp") as rooms:
            ada, bob = await rooms.join_all("ada", "bob")
            forged = packet_of(packet_head("room", bob._life.me, ada._life.me), [encode_part(say.Acked(7))])
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as stranger:
                for data in (b"x", b"garbage", bytes(60_000), forged, encode_piece(Piece(1, 0, 2, b"x"))):
                    stranger.sendto(data, where(ada, "ada"))
            await until(lambda: ada.counters["not-a-member"] == 5)
            carrier = bob._driver._carrier
            assert isinstance(carrier, Datagrams)
            for data in (b"x", b"garbage", encode_piece(Piece(1, 5, 2, b"x")), forged[:-1]):
                carrier._send_now(data, where(ada, "ada"))
            await until(lambda: (ada.counters["malformed"], ada.counters["bad-piece"]) == (3, 1))
            other = packet_of(packet_head("room", bob._life.me, "ada#1"), [])
            carrier._send_now(other, where(ada, "ada"))
            await until(lambda: ada.counters["other-incarnation"] == 1)
            await bob.to_others("fine")
            assert (await anext(ada)).body == "fine"

    run(story, plain=plain)


def test_what_does_not_fit_a_datagram_is_cut_by_parts_and_then_in_pieces() -> None:
    async def story() -> None:
        ada, bob, owner = await pair()
        parts: list[say.Part] = [say.Numbered(n, say.Direct(bytes([n]) * 25_000)) for n in range(6)]
        ada.send(BOB, [encode_part(part) for part in parts])
        await until(lambda: sum(len(parts) for _, parts in owner.packets) == 6)
        assert [len(parts) for _, parts in owner.packets] == [2, 2, 2]
        long: list[say.Part] = [say.Numbered(9, say.State(1, bytes(range(250)) * 2000))]
        ada.send(BOB, [encode_part(part) for part in long])
        await until(lambda: len(owner.packets) == 4)
        assert owner.packets[-1] == (ADA, long)
        assert bob._pieces == {ADA: {}}
        ada.send(BOB, [bytes(group_udp.PIECE_BYTES * group_udp.PIECES_MAX)])
        ada.send("eve#1", [b"nobody"])
        assert ada.counters == {"too-long": 1}
        ada.close()
        bob.close()

    run(story)


def test_pieces_come_in_any_order_and_only_a_few_packets_are_gathered() -> None:
    async def story() -> None:
        ada, bob, _ = await pair()
        whole = {number: [b"%d" % number, b"b", b"c"] for number in range(8)}
        for number, data in whole.items():
            assert bob._gather(ADA, Piece(number, 2, 3, data[2])) is None
            assert bob._gather(ADA, Piece(number, 2, 3, data[2])) is None
        assert list(bob._pieces[ADA]) == [4, 5, 6, 7]
        assert bob._gather(ADA, Piece(5, 0, 3, b"5")) is None
        assert bob._gather(ADA, Piece(5, 1, 3, b"b")) == b"5bc"
        for piece in (
            Piece(1, 3, 3, b""),
            Piece(1, -1, 3, b""),
            Piece(1, 0, 1 << 40, b""),
            Piece(1, 0, 2, bytes(40_000)),
        ):
            with pytest.raises(ProtocolError, match="bad-piece"):
                bob._gather(ADA, piece)
        with pytest.raises(ProtocolError, match="in two ways"):
            bob._gather(ADA, Piece(7, 0, 2, b"x"))
        ada.close()
        bob.close()

    run(story)


def test_a_state_in_pieces_comes_through_loss() -> None:
    async def story() -> None:
        state = bytes(range(256)) * 1000
        async with group(order="total", transport="udp", settings={"retry_ms": 20}) as rooms:
            weather = BadWeather(5, lost=0.15)
            await rooms.join("ada", state=lambda: state, loss=weather)
            bob = await rooms.join("bob", state=lambda: None, loss=BadWeather(6))
            assert bob.state == state
            assert weather.losses

    run(story)


@pytest.mark.parametrize("plain", [False, True])
def test_a_member_that_is_gone_does_not_disturb_the_others(plain: bool) -> None:
    async def story() -> None:
        async with group(order="total", transport="udp") as rooms:
            ada, bob, _ = await rooms.join_all("ada", "bob", "cathy")
            listener = Listener(bob)
            await rooms.kill("cathy")
            for number in range(50):
                await ada.to_others(number)
                await asyncio.sleep(0.002)
            await rooms.agree("ada", "bob")
            await until(lambda: len(listener.messages) == 50)
            assert listener.bodies == list(range(50))

    run(story, plain=plain)
