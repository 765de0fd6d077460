"""The benchmarks run, with whichever peers are installed, and leave nothing behind. Figures are not judged here."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.waiting import PATIENCE_S


def bench(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "octoloom", "bench", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=False)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("bench")


SYSTEMS = {"librdkafka": "octoloom", "our own": "octoloom's client"}
"""Our log, by the client through which it is measured."""


@pytest.fixture(scope="module")
def said(folder: Path) -> dict[str, Any]:
    short = ["--replicas", "1", "--size", "100", "--seconds", "0.05", "--rounds", "1"]
    done = bench("log", *short, "--folder", str(folder), "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert isinstance(found, dict)
    return found


@pytest.mark.slow
def test_every_case_of_the_log_is_measured(said: dict[str, Any]) -> None:
    assert said["failures"] == []
    blobs = ", in blobs of 64 KB"
    expected = {f"{what} 100 B{how}" for what in ("produce", "consume") for how in ("", blobs)}
    expected |= {"produce 100 B, one per request", "latency p50", "latency p99"}
    for system in (*SYSTEMS.values(), "raw"):
        for sync in ("os", "always"):
            setup = {"system": system, "replicas": 1, "sync": sync}
            assert {figure["case"] for figure in said["figures"] if figure["setup"] == setup} == expected
    assert all(value > 0 for figure in said["figures"] for value in figure["rounds"])


@pytest.mark.slow
def test_a_ratio_above_one_is_ahead_in_rates_and_in_times(said: dict[str, Any]) -> None:
    found = {(each["case"], each["setup"]["system"], each["setup"]["sync"]): each["median"] for each in said["figures"]}
    checked = 0
    for ratio in said["ratios"]:
        if ratio["weaker"]:
            continue
        mine = found[ratio["case"], SYSTEMS[ratio["client"]], ratio["sync"]]
        theirs = found[ratio["their_case"], ratio["peer"], ratio["sync"]]
        expected = theirs / mine if ratio["case"].startswith("latency") else mine / theirs
        assert ratio["ratio"] == pytest.approx(expected)
        checked += 1
    assert checked >= 28


@pytest.mark.slow
def test_nothing_is_left_behind(said: dict[str, Any], folder: Path) -> None:
    assert list(folder.iterdir()) == []
    lines = [" ".join(process.info["cmdline"] or []) for process in psutil.process_iter(["cmdline"])]
    assert [line for line in lines if str(folder) in line and "pytest" not in line] == []


def test_a_benchmark_tells_its_own_options() -> None:
    assert "--peer" in bench("log", "--help").stdout
    assert "--devices" in bench("chain", "--help").stdout


def test_unknown_names_and_options_are_refused() -> None:
    assert bench("speed").returncode == 2
    assert bench("log", "--peer", "someone").returncode == 2
