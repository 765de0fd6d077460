"""JGroups is measured as it should be, where it is installed; where it is not, the next step is named."""

from __future__ import annotations

from pathlib import Path

import pytest

import jgroups_peer
from group_case import FailoverCase, GroupCase, GroupError
from jgroups_peer import JGroups


def test_what_is_missing_is_named_with_its_command(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(jgroups_peer, "JAR", tmp_path / "none.jar")
    monkeypatch.setenv("PATH", str(tmp_path))
    said = jgroups_peer.missing()
    assert said is not None
    assert "java and javac and jgroups not installed" in said
    assert said.count("apt-get install default-jdk-headless") == 1
    assert "apt-get install libjgroups-java" in said
    with pytest.raises(GroupError, match="apt-get install"):
        JGroups(tmp_path / "peer").start(4, bundled=True)


@pytest.mark.slow
@pytest.mark.skipif(jgroups_peer.missing() is not None, reason="JGroups is not installed")
def test_all_three_cases_can_be_measured(tmp_path: Path) -> None:
    peer = JGroups(tmp_path)
    try:
        peer.start(3, bundled=False)
        assert peer.throughput(GroupCase(members=3, senders=2, size=100, seconds=0.3)).slowest > 0
        found = peer.latency(GroupCase(members=3, senders=1, size=100, count=100))
        assert 0 < found.p50_ms <= found.p99_ms
        after = peer.failover(FailoverCase(members=3, senders=2, per_second=200, before_s=0.5, after_s=4.0))
        assert len(after.blackouts_ms) == 2
        assert after.blackout_ms > 0
    finally:
        peer.close()
