"""Plots are drawn for every report that there can be, say in words what they show, and come out the same each time."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from pathlib import Path

import pyarrow as pa
import pytest

from octoloom.spark.plots import PLOTS, Report, write_plots
from tests.spark.activity_twin import Rows, report
from tests.spark.journals import make_plays


def as_tables(found: dict[str, Rows]) -> Report:
    return {name: pa.Table.from_pylist(rows) for name, rows in found.items() if rows}


@pytest.fixture(scope="module")
def drawn() -> dict[str, Rows]:
    return report(make_plays(spaces=6, events=1_200, devices=5), 2)


def texts(path: Path) -> str:
    return "\n".join(ET.parse(path).getroot().itertext())


def test_plots_say_what_they_show(drawn: dict[str, Rows], tmp_path: Path) -> None:
    written = write_plots(as_tables(drawn), tmp_path)
    names = [*PLOTS, "activity"]
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(f"{n}.{k}" for n in names for k in ("png", "svg"))
    assert sorted(written) == sorted(tmp_path.iterdir())
    for name in names:
        assert (tmp_path / f"{name}.png").read_bytes().startswith(b"\x89PNG")
    page = texts(tmp_path / "activity.svg")
    for name in PLOTS:
        title = next(text for text in texts(tmp_path / f"{name}.svg").split("\n") if text.strip() and text in page)
        assert title
    assert f"{drawn['totals'][0]['events']:,} events" in page
    busiest = texts(tmp_path / "busiest.svg")
    assert drawn["busiest"][0]["device"] in busiest
    assert f"{drawn['busiest'][0]['events']:,}" in busiest
    assert f"{drawn['outcomes'][0]['events']:,}" in texts(tmp_path / "outcomes.svg")


def test_plots_come_out_the_same(drawn: dict[str, Rows], tmp_path: Path) -> None:
    one, other = ([path.read_bytes() for path in write_plots(as_tables(drawn), tmp_path, ["rates"])] for _ in range(2))
    assert one == other


def test_a_single_move(tmp_path: Path) -> None:
    found = report(make_plays(spaces=1, events=2, devices=1), 60)
    found["busiest"][0]["device"] = "a-name-that-is-longer-than-any-axis-has-room-for"
    found["latency"][0] |= {"p50_ms": None, "p90_ms": None, "p99_ms": None}
    assert len(write_plots(as_tables(found), tmp_path, PLOTS)) == 12
    assert "a-name-that-is-longer-t…" in texts(tmp_path / "busiest.svg")
