"""`octoloom spark run audit`: what it prints, and how it ends."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner, Result

from octoloom.cli import octoloom
from octoloom.runtime.step_file import StepWriter
from tests.runtime.lunch import lunch
from tests.spark.journals import make_plays, merged, produce, to_rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def run(*words: str) -> Result:
    return CliRunner().invoke(octoloom, ["spark", "run", "audit", *words])


@pytest.mark.slow
@pytest.mark.spark
def test_a_clean_run_passes_and_a_lost_change_does_not(spark: SparkSession, bootstrap: str, tmp_path: Path) -> None:
    records = merged(make_plays(spaces=3, events=120))
    rows = to_rows(records, partitions=2)
    produce(bootstrap, "to-audit", rows, partitions=2)
    for order in ("causal", "none"):
        with StepWriter(tmp_path / f"{order}.steps") as writer:
            writer.write(lunch(order))
    told = tmp_path / "told.jsonl"
    first = next(row for row in rows if row.partition == 0)
    told.write_text(json.dumps({"topic": "to-audit", "partition": 0, "offset": 0, "key": (first.key or b"").decode()}))
    where = ("-b", bootstrap, "-q")
    steps = ("--steps", f"lunch={tmp_path / 'causal.steps'}")
    clean = run("--topic", "to-audit", "--log", "to-audit", *where, *steps, "--acknowledged", str(told))
    assert clean.exit_code == 0, clean.output
    assert "spaces in the journal" in clean.stdout
    assert "group lunch" in clean.stdout
    assert len(re.findall(r"\bok\b", clean.stdout)) == 3
    # Behind its back somebody takes one change out, and the key that was acknowledged was another.
    lost = [row for row in rows if row is not rows[40]]
    produce(bootstrap, "damaged", lost, partitions=2)
    told.write_text(json.dumps({"topic": "damaged", "partition": 0, "offset": 0, "key": "mallory"}))
    bad = run("--topic", "damaged", "--log", "damaged", *where, "--acknowledged", str(told))
    assert bad.exit_code == 1, bad.output
    assert "version-missing" in bad.stdout
    assert "a change was lost: the next version is not there" in bad.stdout
    assert "key-differs" in bad.stdout
    as_json = run("--no-journal", "--no-logs", "--steps", str(tmp_path / "none.steps"), "-q", "--json")
    assert as_json.exit_code == 0, as_json.output
    [group] = json.loads(as_json.stdout)["groups"]
    assert (group["group"], group["orders"], group["members"]) == ("group", ["none"], 3)


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("--follow",), "name one with --out"),
        (("--app", "nothing.py:app"), "there is no file nothing.py"),
        (("--acknowledged", __file__), "this is no acknowledgement"),
    ],
)
def test_refusals_before_anything_starts(words: tuple[str, ...], text: str) -> None:
    refused = run(*words)
    assert (refused.exit_code, text in refused.stderr) == (2, True)
