"""Logs that processes have open while they are cut short."""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import sys
from pathlib import Path

from octoloom.runtime.process_logs import ProcessLogs, keep_short
from tests.waiting import async_until, until

WRITER = """
import os, sys
for number in range(200_000):
    os.write(2, b"line %d\\n" % number)
    if not number % 1_000:
        sys.stdin.readline()
"""


def test_a_log_within_its_bounds_is_left_alone(tmp_path: Path) -> None:
    log = tmp_path / "link1.log"
    log.write_text("a few words")
    keep_short(log, 11)
    assert [path.name for path in tmp_path.iterdir()] == ["link1.log"]
    assert log.read_text() == "a few words"


def test_who_writes_goes_on_at_the_beginning_and_the_last_words_stay_at_hand(tmp_path: Path) -> None:
    log, older = tmp_path / "link1.log", tmp_path / "link1.log.1"
    with log.open("ab") as errors:
        writer = subprocess.Popen([sys.executable, "-c", WRITER], stdin=subprocess.PIPE, stderr=errors, text=True)
    assert writer.stdin is not None
    try:
        sizes = []
        for _ in range(50):
            writer.stdin.write("go on\n")
            writer.stdin.flush()
            until(lambda: log.stat().st_size > 5_000)
            keep_short(log, 5_000)
            sizes.append(older.stat().st_size)
        assert log.stat().st_size < 50_000
        assert max(sizes) < 50_000
    finally:
        writer.kill()
        writer.communicate()
    # No hole of zeros is left up to the place where the writer was, and every line is whole but the first.
    said = older.read_text().splitlines()[1:] + log.read_text().splitlines()
    assert len(said) > 100
    assert all(re.fullmatch("line [0-9]+", line) for line in said)


def test_all_logs_of_a_directory_are_looked_after_until_the_end(tmp_path: Path) -> None:
    async def main() -> None:
        logs = ProcessLogs(tmp_path, bytes_max=100, look_s=0.01)
        logs.start()
        (tmp_path / "up.log").write_text("x" * 1000 + "y")
        (tmp_path / "notes.txt").write_text("x" * 101)
        (tmp_path / "odd.log").mkdir()
        await async_until(lambda: (tmp_path / "up.log").stat().st_size == 0)
        assert (tmp_path / "up.log.1").read_text() == "x" * 99 + "y"
        assert (tmp_path / "notes.txt").read_text() == "x" * 101
        logs.stop()
        (tmp_path / "up.log").write_text("y" * 101)
        await asyncio.sleep(0.1)
        assert (tmp_path / "up.log").read_text() == "y" * 101

    asyncio.run(main())


def test_a_log_that_cannot_be_copied_stays_as_it_is(tmp_path: Path) -> None:
    async def main() -> None:
        (tmp_path / "up.log").write_text("x" * 101)
        os.mkdir(tmp_path / "up.log.1")
        logs = ProcessLogs(tmp_path, bytes_max=100)
        logs.start()
        logs.stop()
        assert (tmp_path / "up.log").read_text() == "x" * 101

    asyncio.run(main())
