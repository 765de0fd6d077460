"""The pipelines over the journal, as commands: what they print, what they write, and how they refuse."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner, Result

from octoloom.cli import octoloom
from tests.spark.journals import Play, Row, produce, to_rows, troubled

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Journal = tuple[str, list[Play]]


@pytest.fixture(scope="module")
def journal(spark: SparkSession, bootstrap: str) -> Journal:
    """A topic with a troubled journal, and a record that is none."""
    records, plays = troubled()
    rows = to_rows(records, topic="troubled", partitions=4)
    stranger = Row(b"space1", b"hello", (), "troubled", 0, 0, 0)
    produce(bootstrap, "troubled", [*rows, stranger], partitions=4)
    return bootstrap, plays


def run(*words: str) -> Result:
    return CliRunner().invoke(octoloom, ["spark", "run", *words])


@pytest.mark.spark
def test_tables(journal: Journal, tmp_path: Path) -> None:
    bootstrap, _ = journal
    where = ("--topic", "troubled", "-b", bootstrap, "-q")
    made = run("journal", *where, "--out", str(tmp_path / "tables"), "--json")
    assert made.exit_code == 0, made.output
    told = json.loads(made.stdout)
    assert (told["counts"]["dead"], told["counts"]["voided"]) == (1, 3)
    assert told["tables"]["dead_letters"] == 1
    again = run("journal", *where, "--out", str(tmp_path / "tables"))
    assert (again.exit_code, "--overwrite" in again.stderr) == (2, True)


@pytest.mark.spark
def test_states(journal: Journal, tmp_path: Path) -> None:
    bootstrap, plays = journal
    where = ("--topic", "troubled", "-b", bootstrap, "-q")
    one = run("state", "--space", "space1", *where)
    assert one.exit_code == 0, one.output
    assert json.loads(one.stdout) == plays[0].state()
    everything = run("state", *where, "--at", "2", "--out", str(tmp_path / "states.jsonl"))
    assert everything.exit_code == 0, everything.output
    lines = [json.loads(line) for line in (tmp_path / "states.jsonl").read_text().splitlines()]
    assert sorted((line["space"], line["version"]) for line in lines) == [(f"space{n}", 2) for n in (1, 2, 3)]
    nobody = run("state", "--space", "spaec1", *where)
    assert (nobody.exit_code, "there is no space 'spaec1'" in nobody.stderr) == (2, True)


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("state", "--at", "soon"), "is no moment of a space: write a version"),
        (("journal", "--option", "archive"), "write NAME=VALUE"),
        (("activity", "--tables", "t", "--follow"), "leave them out to --follow"),
    ],
)
def test_refusals_before_anything_starts(words: tuple[str, ...], text: str) -> None:
    refused = run(*words)
    assert (refused.exit_code, text in refused.stderr) == (2, True)
