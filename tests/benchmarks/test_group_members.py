"""Runs are driven through real processes of a simple group, and whatever one of them gets wrong is noticed."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import psutil
import pytest

from group_case import FailoverCase, GroupCase, GroupError
from group_members import Members
from tests.waiting import until

MEMBER = Path(__file__).parent / "file_room.py"
MEMBERS = 3
THROUGHPUT = GroupCase(members=MEMBERS, senders=2, size=100, count=200)
LATENCY = GroupCase(members=MEMBERS, senders=1, size=100, count=50)
FAILOVER = FailoverCase(
    members=MEMBERS, senders=2, per_second=200, before_s=0.2, after_s=0.3, drain_s_max=60, stuck_s_max=60
)

Start = Callable[..., Members]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    members = Members(tmp_path / "members")
    (tmp_path / "room").mkdir()

    def starting(fault: str = "", faulty: int = MEMBERS - 1) -> Members:
        # Where nothing is wrong nobody waits that long.
        members._drain_s_max = 1.0 if fault else 60.0
        for number in range(MEMBERS):
            wrong = [fault] if number == faulty else []
            members.join([sys.executable, str(MEMBER), str(tmp_path / "room"), str(number), *wrong])
        members.until_whole()
        return members

    yield starting
    members.close()


def test_runs_follow_each_other(start: Start) -> None:
    members = start()
    found = members.throughput(THROUGHPUT)
    assert (found.messages, len(found.rates)) == (400, MEMBERS)
    assert found.slowest > 0
    slow = members.latency(LATENCY)
    assert slow.messages == 50
    assert 0 < slow.p50_ms <= slow.p99_ms
    timed = members.throughput(GroupCase(members=MEMBERS, senders=1, size=1_000, seconds=0.05))
    assert timed.messages > 0


def test_a_failover_of_a_good_group_is_clean(start: Start) -> None:
    members = start()
    members.throughput(THROUGHPUT)
    found = members.failover(FAILOVER)
    assert found.clean
    assert found.sent == 2 * FAILOVER.count
    assert len(found.blackouts_ms) == MEMBERS - 1


@pytest.mark.parametrize("fault", ["lose", "twice", "swap"])
def test_a_run_of_a_group_with_a_fault_has_no_figure(start: Start, fault: str) -> None:
    with pytest.raises(GroupError, match=r"was not delivered|disagree"):
        start(fault).throughput(THROUGHPUT)


@pytest.mark.parametrize("fault", ["lose", "twice", "swap", "stuck"])
def test_a_failover_tells_of_a_fault(start: Start, fault: str) -> None:
    # Only what never comes is waited for in vain.
    impatient = {"lose": {"drain_s_max": 1.0}, "stuck": {"stuck_s_max": 2.0}}.get(fault, {})
    found = start(fault).failover(msgspec.structs.replace(FAILOVER, **impatient))
    assert not found.clean
    assert found.agree == (fault == "stuck")
    assert (found.missing > 0) == (fault == "lose")
    assert (found.duplicates > 0) == (fault == "twice")
    assert (found.stuck > 0) == (fault == "stuck")


def test_a_member_that_cannot_start_is_named_with_its_last_words(tmp_path: Path) -> None:
    members = Members(tmp_path)
    with pytest.raises(GroupError, match=r"m0 has ended: .*no such room"):
        members.join([sys.executable, "-c", "raise SystemExit('no such room')"])
    members.close()


def test_nothing_is_left_behind(start: Start, tmp_path: Path) -> None:
    members = start()
    assert len(processes(tmp_path)) == MEMBERS
    members.close()
    until(lambda: not processes(tmp_path), "all members to be gone")


def processes(folder: Path) -> list[str]:
    lines = [" ".join(process.info["cmdline"] or []) for process in psutil.process_iter(["cmdline"])]
    return [line for line in lines if str(folder) in line and str(MEMBER) in line]
