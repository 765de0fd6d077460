"""`octoloom topic archive` on real brokers, as people and pipes use it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from octoloom.cli import octoloom
from octoloom.cli.topic_archive_screen import size_text
from octoloom.spark.archive_manifest import load_manifest
from tests.runtime.real_log import RealLog, real_log
from tests.waiting import PATIENCE_S


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealLog]:
    with real_log(tmp_path_factory.mktemp("log"), brokers=1) as log:
        yield log


def run(log: RealLog, *arguments: str, said: bytes = b"") -> Result:
    return CliRunner().invoke(octoloom, ["topic", *arguments], input=said, env={"OCTOLOOM_BOOTSTRAP": log.bootstrap})


def out(log: RealLog, *arguments: str, said: bytes = b"") -> str:
    result = run(log, *arguments, said=said)
    assert (result.exit_code, result.stderr) == (0, "")
    return result.stdout


def refused(log: RealLog, *arguments: str) -> tuple[int, str]:
    result = run(log, "archive", *arguments)
    return result.exit_code, result.stderr


def a_topic(log: RealLog, name: str, count: int = 25, partitions: int = 2) -> None:
    out(log, "create", name, "--partitions", str(partitions))
    produce(log, name, count, partitions)


def produce(log: RealLog, name: str, count: int, partitions: int = 2) -> None:
    lines = b"".join(b"%d\n" % number for number in range(count))
    for partition in range(partitions):
        out(log, "produce", name, "-p", str(partition), said=lines)


def test_a_topic_is_archived_and_looked_at(log: RealLog, tmp_path: Path) -> None:
    a_topic(log, "moves")
    told = out(log, "archive", "moves", str(tmp_path), "--file-rows", "10").splitlines()
    assert told[0].split() == ["partition", "offsets", "records", "files", "size"]
    assert told[1].split()[:6] == ["0", "0", "to", "24", "25", "3"]
    assert told[-1].startswith("archived 50 records of moves in 6 files of ")
    assert "nothing new: all of moves is in" in out(log, "archive", "moves", str(tmp_path))
    produce(log, "moves", 5)
    paths = ["--path", str(log.data / "b1")]
    report = json.loads(out(log, "archive", "moves", str(tmp_path), "--until", "28", "--json", *paths))
    assert [(part["first"], part["end"], part["rows"]) for part in report["partitions"]] == [(25, 28, 3), (25, 28, 3)]

    listed = out(log, "archive", "--list", str(tmp_path)).splitlines()
    assert listed[1].split()[:7] == ["moves", "0", "0", "to", "27", "28", "4"]
    as_json = json.loads(out(log, "archive", "--list", str(tmp_path), "--json"))
    assert [file["end"] for file in as_json["archives"][0]["files"]] == [10, 20, 25, 28] * 2
    assert out(log, "archive", "--check", str(tmp_path)).splitlines()[-1] == "all 8 files are as they were written"
    damaged = next((tmp_path / "moves").glob("00001-*.parquet"))
    os.truncate(damaged, 100)
    checked = run(log, "archive", "--check", str(tmp_path))
    assert checked.exit_code == 1
    assert f"{damaged} is not what was archived" in checked.stderr
    assert json.loads(run(log, "archive", "--check", str(tmp_path), "--json").stdout)["damage"]


def test_what_cannot_be_done_is_said_with_the_next_step(log: RealLog, tmp_path: Path) -> None:
    place = str(tmp_path / "archive")
    assert refused(log, "nowhere", place) == (
        1,
        "Error: the topic nowhere does not exist: see `octoloom topic list`, or make it with `octoloom topic create`\n",
    )
    assert not (tmp_path / "archive").exists()
    code, text = refused(log, "moves")
    assert (code, "octoloom topic archive moves /data/archive" in text) == (2, True)
    code, text = refused(log, "moves", place, "--until", "-5")
    assert (code, "is no place to stop: write end, sealed" in text) == (2, True)
    code, text = refused(log, "moves", place, "--follow", "--until", "5")
    assert (code, "--follow has no end" in text) == (2, True)
    code, text = refused(log, "moves", "--list", str(tmp_path))
    assert (code, "leave the rest out" in text) == (2, True)
    code, text = refused(log, "--list", str(tmp_path))
    assert (code, "nothing is archived in" in text) == (2, True)
    assert refused(log, "moves", place, "-b", "nonsense")[0] == 2


def test_help_has_examples(log: RealLog) -> None:
    told = out(log, "archive", "--help")
    assert "octoloom topic archive moves /data/archive --follow" in told
    assert "archive" in out(log, "--help")


def test_it_follows_until_it_is_told_to_stop(log: RealLog, tmp_path: Path) -> None:
    a_topic(log, "live", 7, partitions=1)
    command = [
        sys.executable,
        "-m",
        "octoloom",
        "topic",
        "archive",
        "live",
        str(tmp_path),
        "--follow",
        "--file-rows",
        "10",
    ]
    environment = {**os.environ, "OCTOLOOM_BOOTSTRAP": log.bootstrap, "PYTHONUNBUFFERED": "1"}
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline().startswith("archived 7 records of live in 1 file of ")
        busy = refused(log, "live", str(tmp_path))
        assert busy[0] == 2
        assert "another process archives live" in busy[1]
        # 13 more: 10 of them fill a file, and the rest waits.
        produce(log, "live", 13, 1)
        assert process.stdout.readline().startswith("archived 10 records of live in 1 file of ")
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE_S) == 130
        assert process.stderr.read().startswith("stopped: what was archived is kept")
    manifest = load_manifest(str(tmp_path), "live")
    assert manifest is not None
    assert manifest.runs(0) == [(0, 17)]


def test_sizes_are_short() -> None:
    assert [size_text(size) for size in (0, 999, 1000, 123_456, 5_500_000_000)] == [
        "0 B",
        "999 B",
        "1.0 KB",
        "123 KB",
        "5.5 GB",
    ]


def test_a_pipe_of_records_does_not_wait_for_arrow() -> None:
    """The other commands for topics start in a blink: they do not load what only archives need."""
    program = "import sys, octoloom.cli.topic; print([name for name in ('pyarrow', 'numpy') if name in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=PATIENCE_S
    )
    assert done.stdout == "[]\n"
