"""Starts what the benchmarks measure: a register and a chain of links, each a process of its own on this machine.

The links run as `octoloom link` runs them, with one difference: no limit on a device's rate, since the peer has none.
A child ends when its standard input does, so none outlives its driver.

A `profile` is a folder for what `cProfile` saw of each link. It slows the link: the figures of such a run mean little.
"""

from __future__ import annotations

import asyncio
import cProfile
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import click
import uvloop

from octoloom.core.admission import Limits
from octoloom.core.register import RegisterConfig
from octoloom.runtime import status
from octoloom.runtime.apps import load_app
from octoloom.runtime.hosting import serve_link, serve_register
from octoloom.runtime.link import LinkServer
from octoloom.runtime.processes import parse_ready
from octoloom.runtime.register import RegisterServer

HERE = Path(__file__).parent
PRELOAD = "OCTOLOOM_CELLS_PRELOAD"
RATE_MAX = 1_000_000
WHOLE_S_MAX = 30.0
STOP_S_MAX = 5.0


class StartError(RuntimeError):
    """The chain could not be started."""


@dataclass(frozen=True, slots=True)
class Replicas:
    """A running chain, head first."""

    urls: list[str]
    pids: dict[str, int]
    """By role: register, head, middle, tail (a chain of one has a head only)."""


@contextmanager
def replicas(links: int = 3, preload: int = 0, profile: str = "") -> Iterator[Replicas]:
    """A fresh register and a whole chain of `links`; all of it is gone afterwards."""
    children: list[subprocess.Popen[str]] = []
    with tempfile.TemporaryDirectory() as data:
        try:
            register = _start(children, data, preload, "register", data, str(links))
            for number in range(links):
                arguments = ("link", f"link{number}", register["address"], profile)
                _start(children, data, preload, *arguments)
            yield asyncio.run(_whole(register["address"], links, children[0].pid))
        finally:
            for child in children:
                _stop(child)


def _start(children: list[subprocess.Popen[str]], data: str, preload: int, *arguments: str) -> dict[str, str]:
    command = [sys.executable, str(Path(__file__)), *arguments]
    environment = {**os.environ, PRELOAD: str(preload)}
    log = Path(data) / f"{arguments[1].replace('/', '_')}.log"
    with log.open("w") as errors:
        child = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True, env=environment
        )
    children.append(child)
    assert child.stdout is not None
    line = child.stdout.readline()
    if not line.startswith("ready "):
        raise StartError(f"{arguments[0]} did not start: {log.read_text()[-500:]}")
    return parse_ready(line)


def _stop(child: subprocess.Popen[str]) -> None:
    try:
        child.communicate(timeout=STOP_S_MAX)
    except subprocess.TimeoutExpired:
        child.kill()
        child.communicate()


async def _whole(register: str, links: int, register_pid: int) -> Replicas:
    """Waits until all links are in the view, and whole."""
    deadline = time.monotonic() + WHOLE_S_MAX
    while time.monotonic() < deadline:
        seen = await status.of_register(register)
        if seen.chains and seen.chains[0].is_whole and len(seen.chains[0].links) == links:
            processes = {process.id: process for process in seen.processes}
            order = [processes[link] for link in seen.chains[0].links]
            pids = {role: process.pid for role, process in zip(_roles(links), order, strict=True)}
            return Replicas([process.address for process in order], {"register": register_pid, **pids})
        await asyncio.sleep(0.05)
    raise StartError(f"no whole chain of {links} links after {WHOLE_S_MAX:.0f} s")


def _roles(links: int) -> list[str]:
    middles = [f"middle {number}" if links > 3 else "middle" for number in range(1, links - 1)]
    return ["head", *middles, "tail"] if links > 1 else ["head"]


# The children.


async def _until_input_ends() -> None:
    reader = asyncio.StreamReader()
    protocol = asyncio.StreamReaderProtocol(reader)
    await asyncio.get_running_loop().connect_read_pipe(lambda: protocol, sys.stdin)
    await reader.read()


async def _first(*awaited: asyncio.Task[None]) -> None:
    await asyncio.wait(awaited, return_when=asyncio.FIRST_COMPLETED)
    for task in awaited:
        task.cancel()
    await asyncio.gather(*awaited, return_exceptions=True)


@click.group()
def main() -> None:
    """The processes of a measured chain."""


@main.command("register")
@click.argument("data")
@click.argument("links", type=int)
def run_register(data: str, links: int) -> None:
    async def serve() -> None:
        server = RegisterServer(RegisterConfig(["main"], links), Path(data) / "register.db", "127.0.0.1", 0)
        served = asyncio.create_task(serve_register(server, click.echo))
        await _first(served, asyncio.create_task(_until_input_ends()))

    uvloop.run(serve())


@main.command("link")
@click.argument("name")
@click.argument("register")
@click.argument("profile", default="")
def run_link(name: str, register: str, profile: str) -> None:
    app = load_app(str(HERE / "cells.py"))

    async def serve() -> None:
        server = LinkServer(name, register, app, limits=Limits(rate_max=RATE_MAX))
        served = asyncio.create_task(serve_link(server, click.echo))
        await _first(served, asyncio.create_task(_until_input_ends()))

    if not profile:
        uvloop.run(serve())
        return
    profiler = cProfile.Profile()
    profiler.runcall(uvloop.run, serve())
    profiler.dump_stats(Path(profile) / f"{name}.prof")


if __name__ == "__main__":
    main()
