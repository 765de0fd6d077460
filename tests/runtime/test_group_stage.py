"""The groups of the demo, with real processes beside a register on this loop; and that nothing of them is left."""

from __future__ import annotations

import signal
from pathlib import Path

import psutil
import pytest

from octoloom.core.errors import UsageError
from octoloom.runtime.group_proof import GroupEvidence, one_order_doubts
from octoloom.runtime.group_stage import NAMES, GroupStage, Succession
from tests.runtime.group_rooms import group, run


def children() -> list[psutil.Process]:
    return [child for child in psutil.Process().children() if "group_speaker" in " ".join(child.cmdline())]


def test_a_group_goes_on_without_its_coordinator(tmp_path: Path) -> None:
    told: list[str] = []

    async def story() -> tuple[Succession, GroupEvidence]:
        async with group() as rooms:
            stage = GroupStage(rooms.server.address, tmp_path, told.append)
            try:
                await stage.load()
                assert len(children()) == len(NAMES)
                return await stage.kill_coordinator(0.3), stage.evidence()
            finally:
                await stage.stop()

    found, evidence = run(story)
    assert (found.killed, found.heir) == ("anna", "ben")
    assert found.pause_ms == evidence.pause_ms > 0
    assert [life.lived for life in evidence.lives] == [False, True, True, True]
    assert all(life.heard for life in evidence.lives)
    assert list(one_order_doubts(evidence.lives)) == []
    assert told == ["kill -9 of anna, which orders what anna, ben, cleo, dan send"]
    assert children() == []


def test_members_of_an_earlier_story_are_forgotten(tmp_path: Path) -> None:
    (tmp_path / "member-ben.lines").write_text("of an earlier story\n")

    async def story() -> None:
        async with group() as rooms:
            stage = GroupStage(rooms.server.address, tmp_path, print)
            try:
                await stage.load()
            finally:
                await stage.stop()

    run(story)
    assert not (tmp_path / "member-ben.lines").exists()


def test_one_that_dies_before_its_time_is_named(tmp_path: Path) -> None:
    async def story() -> None:
        async with group() as rooms:
            stage = GroupStage(rooms.server.address, tmp_path, print)
            try:
                await stage.load()
                ben = next(child for child in children() if '"ben"' in " ".join(child.cmdline()))
                ben.send_signal(signal.SIGKILL)
                await stage.kill_coordinator(0.1)
            finally:
                await stage.stop()

    with pytest.raises(UsageError, match="ben ended before its time"):
        run(story)
    assert children() == []


def test_members_that_cannot_start_leave_nobody_behind(tmp_path: Path) -> None:
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "member-dan.log").mkdir()

    async def story() -> None:
        stage = GroupStage("127.0.0.1:9", tmp_path, print)
        try:
            await stage.load()
        finally:
            await stage.stop()

    with pytest.raises(OSError, match="member-dan"):
        run(story)
    assert children() == []
