"""One register and links as processes of their own, and what signals do to them."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import uvloop

from octoloom.core.errors import OctoloomError
from octoloom.core.register_messages import Directory
from octoloom.core.tokens import sign
from octoloom.runtime.device import Device
from octoloom.runtime.processes import Child
from octoloom.runtime.register_client import ask
from tests.waiting import STORY_S, async_until, until_answered


class Processes:
    def __init__(self, data: Path) -> None:
        self.data = data
        self.children: list[Child] = []
        self.address = ""

    async def start(self, name: str, *arguments: str) -> Child:
        child = await Child.start(name, arguments, self.data / f"{name}.log")
        self.children.append(child)
        return child

    async def link(self, name: str) -> Child:
        return await self.start(name, "link", "--name", name, "--register", self.address)

    async def until(self, condition: Callable[[Directory], bool]) -> Directory:
        async def found() -> Directory | None:
            directory = await ask(self.address)
            return directory if condition(directory) else None

        return await until_answered(found, "a directory as wanted")


@asynccontextmanager
async def register(data: Path, replicas: int) -> AsyncIterator[Processes]:
    processes = Processes(data)
    try:
        arguments = ["register", "--port", "0", "--data", str(data), "--replicas", str(replicas)]
        processes.address = (await processes.start("register", *arguments)).facts["address"]
        async with asyncio.timeout(STORY_S):
            yield processes
    finally:
        await asyncio.gather(*(child.stop() for child in processes.children))


def whole(count: int) -> Callable[[Directory], bool]:
    return lambda directory: any(len(view.whole) == count for view in directory.views.values())


def test_a_link_that_is_asked_to_leave_hands_over_its_place(tmp_path: Path) -> None:
    async def main() -> None:
        async with register(tmp_path, replicas=1) as there:
            old = await there.link("old")
            await there.until(whole(1))
            new = await there.link("new")
            old.signal(signal.SIGTERM)
            assert await old.wait() == 0
            directory = await there.until(whole(1))
            (view,) = directory.views.values()
            assert view.links == [new.facts["id"]]
            assert view.generation == 1

    uvloop.run(main())


def test_the_last_link_stays_until_it_is_told_twice(tmp_path: Path) -> None:
    async def main() -> None:
        async with register(tmp_path, replicas=1) as there:
            link = await there.link("only")
            await there.until(whole(1))
            link.signal(signal.SIGTERM)
            await async_until(lambda: "start another link first" in link.log.read_text())
            assert link.running
            link.signal(signal.SIGTERM)
            assert await link.wait() == 0

    uvloop.run(main())


def test_a_register_comes_back_with_what_it_knew(tmp_path: Path) -> None:
    async def main() -> None:
        async with register(tmp_path, replicas=2) as there:
            await there.link("one")
            await there.link("two")
            before = await there.until(whole(2))
            there.children[0].signal(signal.SIGKILL)
            await there.children[0].wait()
            port = there.address.rpartition(":")[2]
            await there.start("again", "register", "--port", port, "--data", str(tmp_path), "--replicas", "2")
            after = await there.until(whole(2))
            assert after.views == before.views
            there.children[-1].signal(signal.SIGTERM)
            assert await there.children[-1].wait() == 0

    uvloop.run(main())


def test_with_a_secret_only_devices_with_their_token_come_in(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("a secret of some length\n")

    async def main() -> None:
        async with register(tmp_path, replicas=1) as there:
            arguments = ["link", "--name", "one", "--register", there.address, "--secret-file", str(secret)]
            url = (await there.start("one", *arguments)).facts["url"]
            await there.until(whole(1))
            token = sign(b"a secret of some length", "ada")
            async with Device.connect(url, "hall", "ada", token=token, wait_ms=10_000) as ada:
                assert await ada.send("claim", {"cell": "a1", "number": 1})
            with pytest.raises(OctoloomError, match="token"):
                async with Device.connect(url, "hall", "bob", token=token, wait_ms=10_000) as bob:
                    await bob.send("claim", {"cell": "a1", "number": 1})

    uvloop.run(main())
