"""The register and its clients on real sockets: views change when a connection dies, and outlive the server."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import TypeVar

import pytest
import uvloop

from octoloom.core.errors import StoreError, UsageError
from octoloom.core.log_saved import Persist
from octoloom.core.register import RegisterConfig
from octoloom.core.register_messages import (
    Adopted,
    Declined,
    Directory,
    Enlist,
    Leave,
    LinkAddress,
    Ready,
    View,
    Whole,
)
from octoloom.runtime.register import RegisterServer
from octoloom.runtime.register_client import RegisterClient, ask
from tests.waiting import PATIENCE_S
from tests.waiting import async_until as until

T = TypeVar("T")
CONFIG = RegisterConfig(["c0"], replicas=2, lease_ms=20_000)


class Link:
    """A client that adopts views, and becomes ready and whole, as soon as it is asked to."""

    def __init__(self, link: str, address: str) -> None:
        self.link = link
        self.declined: list[Declined] = []
        self.revisions: list[int] = []
        self.client = RegisterClient(address, self._on_directory, self._enlist, self.declined.append)
        self.client.start()

    def _enlist(self) -> Enlist:
        return Enlist(LinkAddress(self.link, "127.0.0.1:1", "ws://127.0.0.1:2"))

    def _on_directory(self, directory: Directory) -> None:
        self.revisions.append(directory.revision)
        for view in directory.views.values():
            if view.learner == self.link:
                self.client.say(Ready(view.chain, view.epoch))
            elif self.link in view.whole and not view.in_force:
                self.client.say(Adopted(view.chain, view.epoch))
            elif self.link in view.links and self.link not in view.whole:
                self.client.say(Whole(view.chain, view.epoch))

    def view(self) -> View | None:
        return self.client.directory.views.get("c0") if self.client.directory else None

    def sees(self, *whole: str) -> bool:
        view = self.view()
        return view is not None and view.links == view.whole == list(whole)

    def is_grown(self) -> bool:
        view = self.view()
        return view is not None and len(view.whole) == CONFIG.replicas

    def kill(self) -> None:
        """What the death of a process does to its connection."""
        assert self.client.line.task is not None
        assert self.client.line.connection is not None
        self.client.line.task.cancel()
        self.client.line.connection.abort()


def run(story: Callable[[], Awaitable[T]]) -> T:
    async def told() -> T:
        return await story()

    with asyncio.Runner(loop_factory=_loops[0]) as runner:
        return runner.run(told())


_loops: dict[int, Callable[[], asyncio.AbstractEventLoop]] = {0: asyncio.new_event_loop}


@pytest.fixture(autouse=True, params=[asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"])
def _loop(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every story runs on both kinds of loop."""
    monkeypatch.setitem(_loops, 0, request.param)


async def started(store: Path | None = None, port: int = 0, config: RegisterConfig = CONFIG) -> RegisterServer:
    server = RegisterServer(config, store, "127.0.0.1", port)
    await server.start()
    return server


def test_a_killed_link_is_taken_out_and_a_new_incarnation_grows_in_again() -> None:
    async def story() -> None:
        server = await started()
        a, b = Link("a#1", server.address), Link("b#1", server.address)
        await until(lambda: a.is_grown() and b.is_grown())
        first, second = (a, b) if server.directory().views["c0"].head == "a#1" else (b, a)
        epoch = server.directory().views["c0"].epoch
        first.kill()
        await until(lambda: second.sees(second.link))
        assert server.directory().views["c0"].epoch == epoch + 1
        again = Link(first.link.replace("#1", "#2"), server.address)
        await until(lambda: second.sees(second.link, again.link) and again.sees(second.link, again.link))
        assert again.revisions == sorted(set(again.revisions))
        for link in (second, again):
            await link.client.stop()
        await server.stop()

    run(story)


def test_the_register_comes_back_with_what_it_knew_and_nobody_loses_his_place(tmp_path: Path) -> None:
    async def story() -> None:
        server = await started(tmp_path / "register.db")
        links = [Link("a#1", server.address), Link("b#1", server.address)]
        await until(lambda: all(link.is_grown() for link in links))
        before, port = server.directory(), server.port
        await server.stop()
        await until(lambda: not any(link.client.connected for link in links))
        assert all(link.client.directory == before for link in links)
        server = await started(tmp_path / "register.db", port)
        assert server.directory() == before
        await until(lambda: all(link.client.connected for link in links))
        await asyncio.sleep(0.3)
        assert server.directory() == before == await ask(server.address)
        for link in links:
            await link.client.stop()
        await server.stop()

    run(story)


def test_an_outdated_link_is_told_and_stops_trying() -> None:
    async def story() -> None:
        server = await started()
        old = Link("a#1", server.address)
        await until(lambda: old.sees("a#1"))
        new = Link("a#2", server.address)
        await until(lambda: new.sees("a#2"))
        await until(lambda: [declined.code for declined in old.declined] == ["outdated"])
        await until(lambda: not old.client.connected)
        assert old.client.line.task is not None
        await until(old.client.line.task.done)
        await old.client.stop()
        await new.client.stop()
        await server.stop()

    run(story)


def test_the_last_link_may_not_leave_and_stays_connected() -> None:
    async def story() -> None:
        server = await started()
        lone = Link("a#1", server.address)
        await until(lambda: lone.sees("a#1"))
        lone.client.say(Leave())
        await until(lambda: [declined.code for declined in lone.declined] == ["last"])
        assert lone.client.connected
        await lone.client.stop()
        await server.stop()

    run(story)


def test_a_newer_connection_of_the_same_link_replaces_the_older_without_a_view_change() -> None:
    async def story() -> None:
        server = await started()
        first, other = Link("a#1", server.address), Link("b#1", server.address)
        await until(lambda: first.is_grown() and other.is_grown())
        before = server.directory()
        first.client.line.task.cancel()  # type: ignore[union-attr]
        second = Link("a#1", server.address)
        await until(lambda: second.is_grown() and not first.client.connected)
        await asyncio.sleep(0.4)
        assert server.directory() == before
        await other.client.stop()
        await second.client.stop()
        await server.stop()

    run(story)


def test_followers_are_told_of_every_change_without_enlisting() -> None:
    async def story() -> None:
        server = await started()
        told: list[Directory] = []
        follower = RegisterClient(server.address, told.append)
        follower.start()
        await until(lambda: bool(told))
        link = Link("a#1", server.address)
        await until(lambda: "c0" in told[-1].views)
        assert list(told[-1].links) == ["a#1"]
        await follower.stop()
        await link.client.stop()
        await server.stop()

    run(story)


@pytest.mark.parametrize("noise", [b"GET / HTTP/1.1\r\n\r\n", b"\0\0\0\1\xc1", b"\0\0\0\x08\x81\xa4type\x03aa"])
def test_noise_ends_its_own_connection_only(noise: bytes) -> None:
    async def story() -> None:
        server = await started()
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(noise)
        async with asyncio.timeout(PATIENCE_S):
            with contextlib.suppress(ConnectionResetError):
                assert await reader.read() == b""
        writer.close()
        assert (await ask(server.address)).revision == 0
        await server.stop()

    run(story)


def test_nothing_that_is_not_saved_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def story() -> None:
        server = await started(tmp_path / "register.db")
        told: list[Directory] = []
        follower = RegisterClient(server.address, told.append)
        follower.start()
        await until(lambda: bool(told))

        def broken(_directory: Directory | None, _steps: Sequence[Persist]) -> None:
            raise StoreError("the disk is full")

        monkeypatch.setattr(server._store, "save", broken)
        link = Link("a#1", server.address)
        assert server.failed is not None
        with pytest.raises(StoreError, match="full"):
            await asyncio.wait_for(server.failed, PATIENCE_S)
        await until(lambda: not follower.connected)
        assert [directory.revision for directory in told] == [0]
        assert link.revisions == []
        await follower.stop()
        await link.client.stop()
        await server.stop()

    run(story)


def test_who_asks_where_no_register_is_learns_the_next_step() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(UsageError, match=r"no register answers at .*start one with `octoloom register`"):
            run(lambda: ask(address))


def test_a_taken_port_is_named() -> None:
    async def story() -> None:
        server = await started()
        with pytest.raises(UsageError, match="cannot listen on"):
            await started(port=server.port)
        await server.stop()

    run(story)


@pytest.mark.parametrize("address", ["7070", "host:", ":7070", "host:port", "host:70000"])
def test_a_bad_address_is_refused(address: str) -> None:
    with pytest.raises(UsageError, match="write host:port"):
        run(lambda: ask(address))
