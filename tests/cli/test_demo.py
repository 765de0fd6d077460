"""The demo, with everything real and everything short; and that it says so when a promise is broken."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

COMMAND = [sys.executable, "-m", "octoloom", "demo", "--quick"]
PATIENCE_S = 240.0


def test_the_quick_demo_keeps_every_promise(tmp_path: Path) -> None:
    command = [*COMMAND, "--report", str(tmp_path)]
    result = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert result.returncode == 0, result.stdout + result.stderr
    assert "Every promise held." in result.stdout
    acts = ("in peace", "head killed", "middle killed", "tail killed", "partition leader killed")
    group_acts = ("a chat in causal order", "group coordinator killed")
    for words in (
        *acts,
        *group_acts,
        "whole again after",
        "0 with another end",
        "every committed change is in the journal",
    ):
        assert words in result.stdout
    killed = re.search(r"kill -9 of (broker\d), which leads (journal-\d) in epoch (\d+)", result.stdout)
    assert killed is not None
    decided = re.search(rf"transition \d+ committed: (broker\d) leads {killed[2]} in epoch (\d+)", result.stdout)
    assert decided is not None
    assert decided[1] != killed[1]
    assert int(decided[2]) > int(killed[3])
    assert _read_by_cathy(result.stdout, "none") == ["Where?", "I am coming.", "Lunch?", "At the corner."]
    assert _read_by_cathy(result.stdout, "causal") == ["Lunch?", "Where?", "At the corner.", "I am coming."]
    assert "kill -9 of anna, which orders" in result.stdout
    assert re.search(r"ben orders on; the longest pause of the group was \d+ ms", result.stdout)
    plain = " ".join(result.stdout.replace("│", " ").split())
    assert re.search(
        r"one order at all survivors yes \d+ messages of 4 members at 3 survivors, 0 lost, 0 doubled", plain
    )
    assert "no answer before its question yes" in plain
    assert re.search(r"computed again on Spark, it is the same yes \d+ events, \d+ changes", plain)
    for what in ("the journal", "the logs", "the groups"):
        assert f"Spark's audit of {what} yes" in plain
    assert (tmp_path / "activity.png").stat().st_size > 10_000
    assert "\x1b" not in result.stdout
    assert max(map(len, result.stdout.splitlines())) <= 100


def _read_by_cathy(text: str, order: str) -> list[str]:
    return re.findall(rf"with {order}, cathy reads \w+: (.*)", text)


def test_an_interrupt_stops_all_that_was_started(tmp_path: Path) -> None:
    data = ["--no-spark", "--data", str(tmp_path)]
    process = subprocess.Popen([*COMMAND, *data], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert process.stdout is not None
    for line in process.stdout:
        if "kill -9" in line:
            break
    else:
        pytest.fail("it ended before anything was killed")
    children = psutil.Process(process.pid).children(recursive=True)
    assert len(children) >= 4 + 4
    process.send_signal(signal.SIGINT)
    rest = process.stdout.read()
    assert process.wait(PATIENCE_S) == 130
    assert "Traceback" not in rest
    assert "interrupted" in rest
    _, alive = psutil.wait_procs(children, timeout=PATIENCE_S)
    assert not alive
