"""Where Java writes: a directory for each process, the newest few of which are kept."""

from __future__ import annotations

import os
from pathlib import Path

from octoloom.spark.java_log import KEPT_MAX, LINE_MAX, JavaLog

NEVER = 2**22 + 1
"""A process number that Linux does not give to anybody."""


def test_a_fresh_one_is_of_this_process_and_empty(tmp_path: Path) -> None:
    log = JavaLog.fresh(tmp_path / "new")
    assert log.path.name.endswith(f"-{os.getpid()}")
    assert log.last_line() == "it said nothing"


def test_the_last_line_is_what_was_said_last(tmp_path: Path) -> None:
    log = JavaLog.fresh(tmp_path)
    (log.path / "spark.log").write_text("WARN something\n")
    assert log.last_line() == "WARN something"
    with log.raw() as raw:
        raw.write(b"first\n\xff" + b"x" * 1000 + b"\n\n")
    assert log.last_line() == "\ufffd" + "x" * (LINE_MAX - 1)


def test_the_options_survive_spaces(tmp_path: Path) -> None:
    log = JavaLog.fresh(tmp_path / "with a space")
    options = log.options(tmp_path / "with a space" / "log4j2.properties")
    assert options.count('"') == 4
    assert "with%20a%20space/log4j2.properties" in options
    assert f"{log.path}/spark.log" in options


def test_old_ones_go_and_those_of_the_living_stay(tmp_path: Path) -> None:
    for day in range(10, 30):
        (tmp_path / f"202601{day}-120000-{NEVER}").mkdir()
    living = tmp_path / f"20250101-120000-{os.getppid()}"
    living.mkdir()
    log = JavaLog.fresh(tmp_path)
    left = sorted(path.name for path in tmp_path.iterdir())
    assert left == sorted(
        [living.name, log.path.name, *(f"202601{day}-120000-{NEVER}" for day in range(30 - KEPT_MAX, 30))]
    )
