"""The register's desk for ordered groups on real sockets: members come, die, leave, are expelled and told views."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import TypeVar

import msgspec
import pytest
import uvloop

from octoloom.core.errors import StoreError, UsageError
from octoloom.core.group_messages import (
    EnlistMember,
    GroupList,
    GroupView,
    LeaveGroup,
    MemberAddress,
    SetOrder,
    SuspectMember,
)
from octoloom.core.log_messages import BrokerAddress, EnlistBroker
from octoloom.core.register import RegisterConfig
from octoloom.core.register_messages import Declined, Enlist, Leave, LinkAddress, Ready
from octoloom.runtime.group_register_client import MemberClient
from octoloom.runtime.register import RegisterServer
from octoloom.runtime.register_client import ask, ask_groups
from octoloom.storage.register_store import Step
from octoloom.wire.framing import frame
from octoloom.wire.register import Request, encode_frame
from tests.waiting import PATIENCE_S
from tests.waiting import async_until as until

T = TypeVar("T")
CONFIG = RegisterConfig(["c0"], replicas=2, lease_ms=20_000)


class Member:
    """A client that knows the newest view it was told."""

    def __init__(self, member: str, address: str, order: str = "", group: str = "room") -> None:
        self.member, self.order, self.group = member, order, group
        self.views: list[GroupView] = []
        self.declined: list[Declined] = []
        self.client = MemberClient(address, self._enlist, self.views.append, self.declined.append)
        self.client.start()

    def _enlist(self) -> EnlistMember:
        epoch = self.views[-1].epoch if self.views else 0
        return EnlistMember(self.group, MemberAddress(self.member, "127.0.0.1:1"), self.order, epoch)

    def sees(self, *members: str) -> bool:
        return bool(self.views) and self.views[-1].names == list(members)

    @property
    def is_done(self) -> bool:
        return self.client.line.task is None or self.client.line.task.done()

    def kill(self) -> None:
        """What the death of a process does to its connection."""
        assert self.client.line.task is not None
        self.client.line.task.cancel()
        self.drop()

    def drop(self) -> None:
        """The connection breaks, and nothing else."""
        assert self.client.line.connection is not None
        self.client.line.connection.abort()


def run(story: Callable[[], Awaitable[T]]) -> T:
    async def told() -> T:
        return await story()

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(told())


async def started(store: Path | None = None, port: int = 0, config: RegisterConfig = CONFIG) -> RegisterServer:
    server = RegisterServer(config, store, "127.0.0.1", port)
    await server.start()
    return server


async def joined(server: RegisterServer, *names: str, order: str = "") -> list[Member]:
    """They come one after the other, so that their places are known."""
    members: list[Member] = []
    for number, name in enumerate(names, 1):
        members.append(Member(name, server.address, order))
        await until(lambda count=number: all(each.sees(*names[:count]) for each in members))  # type: ignore[misc]
    return members


async def stopped(server: RegisterServer, members: Sequence[Member]) -> None:
    for member in members:
        await member.client.stop()
    await server.stop()


def test_members_are_told_every_view_and_anyone_may_ask() -> None:
    async def story() -> None:
        server = await started()
        assert await ask_groups(server.address) == GroupList([])
        members = await joined(server, "ada#1", "bob#1", "cy#1", order="causal")
        view = members[0].views[-1]
        assert (view.group, view.order, view.epoch) == ("room", "causal", 3)
        assert [each.epoch for each in members[0].views] == [1, 2, 3]
        assert [each.views[-1] for each in members] == [view] * 3
        hall = Member("ada#1", server.address, group="hall")
        await until(lambda: hall.sees("ada#1"))
        assert (await ask_groups(server.address)).views == [hall.views[-1], view] == server.groups()
        assert server._groups.unsaved == [], "what was saved is not saved again"
        assert [len(each.views) for each in members] == [3, 2, 1], "other groups are not their concern"
        await stopped(server, [*members, hall])

    run(story)


def test_a_killed_member_is_out_and_comes_back_as_somebody_new() -> None:
    async def story() -> None:
        server = await started()
        ada, bob, cy = await joined(server, "ada#1", "bob#1", "cy#1")
        ada.kill()
        await until(lambda: bob.sees("bob#1", "cy#1") and cy.sees("bob#1", "cy#1"))
        again = Member("ada#1", server.address)
        await until(lambda: again.is_done)
        assert [each.code for each in again.declined] == ["expelled"]
        anew = Member("ada#2", server.address)
        await until(lambda: all(each.sees("bob#1", "cy#1", "ada#2") for each in (bob, cy, anew)))
        await stopped(server, [bob, cy, anew])

    run(story)


def test_a_connection_that_breaks_costs_nobody_his_place() -> None:
    async def story() -> None:
        server = await started()
        ada, bob = await joined(server, "ada#1", "bob#1")
        before = server.groups()
        ada.drop()
        await until(lambda: not ada.client.connected)
        await until(lambda: ada.client.connected)
        await asyncio.sleep(0.4)
        assert server.groups() == before
        assert (len(ada.views), len(bob.views)) == (2, 1), "a view that it knows is not handed on"
        await stopped(server, [ada, bob])

    run(story)


def test_a_newer_connection_of_the_same_member_replaces_the_older() -> None:
    async def story() -> None:
        server = await started()
        ada, bob = await joined(server, "ada#1", "bob#1")
        assert ada.client.line.task is not None
        ada.client.line.task.cancel()
        twin = Member("ada#1", server.address)
        await until(lambda: twin.sees("ada#1", "bob#1") and not ada.client.connected)
        await asyncio.sleep(0.4)
        assert (len(bob.views), twin.client.connected) == (1, True)
        await stopped(server, [twin, bob])

    run(story)


def test_who_leaves_is_told_the_view_without_it_and_the_last_takes_the_group_with_it() -> None:
    async def story() -> None:
        server = await started()
        ada, bob = await joined(server, "ada#1", "bob#1")
        ada.client.say(LeaveGroup())
        await until(lambda: ada.sees("bob#1") and bob.sees("bob#1"))
        await until(lambda: ada.is_done and not ada.client.connected)
        bob.client.say(LeaveGroup())
        await until(lambda: bob.is_done)
        assert bob.views[-1] == GroupView("room", 4, "fifo", [])
        assert (ada.declined, bob.declined, server.groups()) == ([], [], [])
        await stopped(server, [ada, bob])

    run(story)


def test_any_member_switches_the_order_for_all() -> None:
    async def story() -> None:
        server = await started()
        ada, bob = await joined(server, "ada#1", "bob#1")
        bob.client.say(SetOrder(""))
        await until(lambda: bool(bob.declined))
        assert bob.declined[0].code == "bad-switch"
        bob.client.say(SetOrder("total"))
        await until(lambda: all(each.views[-1].order == "total" for each in (ada, bob)))
        assert ada.views[-1] == bob.views[-1]
        wrong = Member("cy#1", server.address, "causal")
        await until(lambda: wrong.is_done)
        assert [each.code for each in wrong.declined] == ["other-order"]
        await stopped(server, [ada, bob])

    run(story)


def test_who_cannot_be_reached_is_expelled_and_told_so() -> None:
    async def story() -> None:
        server = await started()
        ada, bob, cy = await joined(server, "ada#1", "bob#1", "cy#1")

        def complain() -> bool:
            for accuser in (bob, cy):
                accuser.client.say(SuspectMember(3, "ada#1"))
            return ada.is_done

        await until(complain)
        await until(lambda: bob.sees("bob#1", "cy#1") and cy.sees("bob#1", "cy#1"))
        assert [each.code for each in ada.declined] == ["expelled"]
        assert "new incarnation" in ada.declined[0].detail
        await stopped(server, [bob, cy])

    run(story)


def test_the_register_comes_back_with_what_it_knew_and_nobody_loses_his_place(tmp_path: Path) -> None:
    async def story() -> None:
        server = await started(tmp_path / "register.db")
        members = await joined(server, "ada#1", "bob#1", "cy#1", order="total")
        before, port = server.groups(), server.port
        await server.stop()
        await until(lambda: not any(member.client.connected for member in members))
        await members[2].client.stop()
        server = await started(tmp_path / "register.db", port)
        assert server.groups() == before
        await until(lambda: all(member.client.connected for member in members[:2]))
        assert server.groups() == before, "who was there has a lease to come back in"
        await until(lambda: all(member.sees("ada#1", "bob#1") for member in members[:2]))
        assert members[0].views[-1].epoch == 4
        gone = Member("cy#1", server.address)
        await until(lambda: gone.is_done)
        assert [each.code for each in gone.declined] == ["expelled"]
        await stopped(server, members[:2])

    run(story)


def test_epochs_go_on_when_all_groups_were_forgotten(tmp_path: Path) -> None:
    async def story() -> None:
        epochs: list[int] = []
        for number in range(1, 4):
            server = await started(tmp_path / "register.db")
            (ada,) = await joined(server, f"ada#{number}")
            ada.client.say(LeaveGroup())
            await until(lambda: ada.is_done)  # noqa: B023
            epochs += [view.epoch for view in ada.views]
            await stopped(server, [ada])
        assert epochs == [1, 2, 3, 4, 5, 6]

    run(story)


def test_a_register_that_lost_its_memory_is_found_out() -> None:
    async def story() -> None:
        server = await started()
        members = await joined(server, "ada#1", "bob#1")
        port = server.port
        await server.stop()
        server = await started(None, port)
        await until(lambda: all(bool(member.declined) for member in members))
        assert {each.code for member in members for each in member.declined} == {"lost-register"}
        assert not any(member.is_done for member in members), "it may come back with what it knew"
        assert server.groups() == []
        await stopped(server, members)

    run(story)


def test_nothing_that_is_not_saved_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def story() -> None:
        server = await started(tmp_path / "register.db")
        (ada,) = await joined(server, "ada#1")

        def broken(_directory: object, _steps: Sequence[Step]) -> None:
            raise StoreError("the disk is full")

        monkeypatch.setattr(server._store, "save", broken)
        bob = Member("bob#1", server.address)
        assert server.failed is not None
        with pytest.raises(StoreError, match="full"):
            await asyncio.wait_for(server.failed, PATIENCE_S)
        await until(lambda: not ada.client.connected)
        assert (len(ada.views), bob.views) == (1, [])
        await stopped(server, [ada, bob])

    run(story)


async def spoken(server: RegisterServer, said: Sequence[bytes]) -> bytes:
    """Says this, at once, and hears until the register hangs up."""
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    writer.write(b"".join(said))
    try:
        return await asyncio.wait_for(reader.read(), PATIENCE_S)
    except ConnectionError:
        return b""
    finally:
        writer.close()


def enlist(member: str, group: str = "room") -> EnlistMember:
    return EnlistMember(group, MemberAddress(member, "127.0.0.1:1"))


def test_a_silent_member_is_expelled_when_its_lease_is_over() -> None:
    """Nobody else speaks: it is the register's own clock that ends it."""

    async def story() -> None:
        server = await started(config=RegisterConfig(["c0"], replicas=2, lease_ms=300))
        heard = await spoken(server, [encode_frame(enlist("ada#1"))])
        assert b"expelled" in heard
        assert b"300 ms" in heard
        assert server.groups() == []
        await server.stop()

    run(story)


def test_who_comes_in_one_tick_comes_in_one_view() -> None:
    async def story() -> None:
        server = await started()
        sockets = []
        for number in range(20):
            _, writer = await asyncio.open_connection("127.0.0.1", server.port)
            sockets.append((writer, encode_frame(enlist(f"m{number}#1"))))
        await until(lambda: len(server._connections) == 20)
        for connection, (_, greeting) in zip(list(server._connections), sockets, strict=True):
            connection.get_buffer(-1)[: len(greeting)] = greeting
            connection.buffer_updated(len(greeting))
        await until(lambda: bool(server.groups()))
        (view,) = server.groups()
        assert (view.epoch, len(view.members)) == (1, 20)
        for writer, _ in sockets:
            writer.close()
        await server.stop()

    run(story)


LINK = Enlist(LinkAddress("a#1", "127.0.0.1:1", "ws://127.0.0.1:2"))
BROKER = EnlistBroker(BrokerAddress("b#1", "127.0.0.1", 1, "disk"))


@pytest.mark.parametrize(
    "said",
    [
        [LeaveGroup()],
        [SetOrder("total")],
        [SuspectMember(1, "ada#1")],
        [enlist("eve#1"), enlist("eve#2")],
        [enlist("eve#1"), enlist("eve#1", "hall")],
        [enlist("eve#1"), Leave()],
        [enlist("eve#1"), Ready("c0", 1)],
        [enlist("eve#1"), LINK],
        [LINK, enlist("eve#1")],
        [BROKER, LeaveGroup()],
    ],
)
def test_who_says_what_is_not_his_to_say_is_hung_up_on(said: list[Request]) -> None:
    async def story() -> None:
        server = await started()
        (ada,) = await joined(server, "ada#1")
        await spoken(server, [encode_frame(message) for message in said])
        await until(lambda: ada.sees("ada#1"))
        assert ada.client.connected
        assert [view.names for view in server.groups()] in ([["ada#1"]], [["ada#1", "eve#1"]])
        await stopped(server, [ada])

    run(story)


@pytest.mark.parametrize(
    "noise",
    [
        b"\xff\xff\xff\xff",
        frame(b"\xc1"),
        frame(msgspec.msgpack.encode({"type": 61})),
        frame(msgspec.msgpack.encode({"type": 61, "group": 7, "address": {"member": "a#1", "peer": "x:1"}})),
        frame(msgspec.msgpack.encode({"type": 61, "group": "room", "address": "ada"})),
        frame(msgspec.msgpack.encode({"type": 99})),
    ],
)
def test_noise_ends_its_own_connection_only(noise: bytes) -> None:
    async def story() -> None:
        server = await started()
        (ada,) = await joined(server, "ada#1")
        assert await spoken(server, [noise]) == b""
        await asyncio.sleep(0.05)
        assert ada.client.connected
        assert [view.names for view in server.groups()] == [["ada#1"]]
        await stopped(server, [ada])

    run(story)


@pytest.mark.parametrize(("member", "group"), [("ada", "room"), ("ada#1", ""), ("ada#1", "r" * 101)])
def test_a_bad_name_is_declined_for_good(member: str, group: str) -> None:
    async def story() -> None:
        server = await started()
        bad = Member(member, server.address, group=group)
        await until(lambda: bad.is_done)
        assert [each.code for each in bad.declined] in (["bad-member"], ["bad-group"])
        assert server.groups() == []
        await server.stop()

    run(story)


def test_links_and_members_share_a_register() -> None:
    async def story() -> None:
        server = await started()
        (ada,) = await joined(server, "ada#1")
        _, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(encode_frame(LINK))
        await until(lambda: "a#1" in server.directory().links)
        assert ada.sees("ada#1")
        assert "ada#1" not in (await ask(server.address)).links
        writer.close()
        await stopped(server, [ada])

    run(story)


def test_who_asks_where_no_register_is_learns_the_next_step() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(UsageError, match=r"no register answers at .*start one with `octoloom register`"):
            run(lambda: ask_groups(address))
