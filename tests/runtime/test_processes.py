"""Children: ready, failing, stubborn; and processes that are not what their number says."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path

import pytest

from octoloom.core.errors import UsageError
from octoloom.runtime.processes import Child, created_at, is_same, parse_ready, ready_line

SCRIPTS = {
    "good": "import sys, time\nprint('chatter')\nprint('ready pid=1 url=ws://a:1', flush=True)\ntime.sleep(600)",
    "mute": "import time\ntime.sleep(600)",
    "bad": "import sys\nsys.exit('Error: the dog ate it')",
    "stubborn": (
        "import signal, time\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\nprint('ready', 'a=1', flush=True)\n"
        "time.sleep(600)"
    ),
    "echo": "import sys\nprint('ready a=1', flush=True)\nprint(sys.stdin.readline().upper(), flush=True)",
}


@pytest.fixture(autouse=True)
def scripts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, text in SCRIPTS.items():
        (tmp_path / f"script_{name}.py").write_text(text)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), *sys.path]))


async def start(name: str, tmp_path: Path) -> Child:
    return await Child.start(name, [], tmp_path / "logs" / f"{name}.log", module=f"script_{name}")


def test_a_ready_line_says_what_it_was_given() -> None:
    assert parse_ready(ready_line(url="ws://127.0.0.1:1", pid=7)) == {"url": "ws://127.0.0.1:1", "pid": "7"}
    assert parse_ready("readily a=1") == {}


def test_a_child_is_awaited_until_it_is_ready_and_ends_when_it_is_told(tmp_path: Path) -> None:
    async def main() -> None:
        child = await start("good", tmp_path)
        assert child.facts == {"pid": "1", "url": "ws://a:1"}
        assert is_same(child.pid, child.created)
        assert os.getpgid(child.pid) == child.pid
        await child.stop()
        assert not child.running
        assert not is_same(child.pid, child.created)
        child.signal(signal.SIGKILL)  # nobody is there any more, and nobody else is hit

    asyncio.run(main())


def test_a_child_that_ends_too_early_is_quoted(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"bad ended before it was ready: the dog ate it \(its log is .*bad.log\)"):
        asyncio.run(start("bad", tmp_path))


def test_a_child_that_is_never_ready_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("octoloom.runtime.processes.READY_S", 0.2)
    with pytest.raises(UsageError, match=r"mute was not ready within 0 s: its log is .*mute.log"):
        asyncio.run(start("mute", tmp_path))


def test_a_child_that_will_not_end_is_made_to(tmp_path: Path) -> None:
    async def main() -> int:
        child = await start("stubborn", tmp_path)
        await child.stop(patience_s=0.2)
        return await child.wait()

    assert asyncio.run(main()) == -signal.SIGKILL


def test_a_frozen_child_is_ended_too(tmp_path: Path) -> None:
    async def main() -> int:
        child = await start("good", tmp_path)
        child.signal(signal.SIGSTOP)
        await child.stop()
        return await child.wait()

    assert asyncio.run(main()) != 0


def test_a_child_hears_and_speaks(tmp_path: Path) -> None:
    async def main() -> str:
        child = await start("echo", tmp_path)
        child.write_line("hello")
        line = await child.read_line()
        await child.wait()
        return line

    assert asyncio.run(main()) == "HELLO\n"


def test_a_number_alone_does_not_name_a_process() -> None:
    mine = created_at(os.getpid())
    assert is_same(os.getpid(), mine)
    assert not is_same(os.getpid(), mine - 100)
    assert created_at(2**22 + 5) == 0
