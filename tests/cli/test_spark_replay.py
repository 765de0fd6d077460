"""`octoloom spark run replay`: what it prints, and how it ends: a deploy may hang on that."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner, Result

import octoloom.arena
from octoloom.cli import octoloom as octoloom_command
from tests.spark.journals import make_plays, merged, produce, to_rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def run(*words: str) -> Result:
    return CliRunner().invoke(octoloom_command, ["spark", "run", "replay", *words])


@pytest.mark.spark
def test_the_same_code_passes_and_changed_code_does_not(spark: SparkSession, bootstrap: str, tmp_path: Path) -> None:
    produce(bootstrap, "to-replay", to_rows(merged(make_plays(spaces=4, events=300)), partitions=2), partitions=2)
    where = ("--topic", "to-replay", "-b", bootstrap, "-q")
    same = run("octoloom.arena:app", *where)
    assert same.exit_code == 0, same.output
    assert "the same: 4 spaces" in same.stdout
    text = Path(octoloom.arena.__file__).read_text()
    changed = tmp_path / "stricter_arena.py"
    changed.write_text(text.replace("random() < 0.5", "random() < 0.9"))
    other = run(f"{changed}:app", *where, "--report", "--out", str(tmp_path / "report.json"))
    assert other.exit_code == 1, other.output
    assert "outcome: applied → rejected" in other.stdout
    assert "spaces whose state would be another today" in other.stdout
    assert "outcome was recorded as: applied" in other.stdout
    assert "and comes out as: rejected: well defended" in other.stdout
    written = json.loads((tmp_path / "report.json").read_text())
    assert written["clean"] is False
    first = written["verdicts"][0]["first"][0]
    assert (first["name"], first["what"]) == ("claim", "outcome")
    brief = run(f"{changed}:app", *where, "--show", "1")
    assert brief.exit_code == 1
    assert brief.stdout.count("comes out as") == 1
    assert "more spaces (--show, --json)" in brief.stdout


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("nothing.py:app",), "there is no file nothing.py"),
        (("octoloom.arena:nothing",), "there is no 'nothing' in octoloom.arena"),
        (("octoloom.arena:app", "--option", "archive"), "write NAME=VALUE"),
    ],
)
def test_refusals_before_anything_starts(words: tuple[str, ...], text: str) -> None:
    refused = run(*words)
    assert (refused.exit_code, text in refused.stderr) == (2, True)
