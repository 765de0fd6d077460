"""Settings that cannot be are refused where they are written."""

from __future__ import annotations

import pytest

from octoloom.core.errors import UsageError
from octoloom.core.group_settings import FAILOVERS, GroupSettings


@pytest.mark.parametrize("failover", FAILOVERS)
def test_what_becomes_of_messages_at_a_failover(failover: str) -> None:
    assert GroupSettings(failover=failover).failover == failover


@pytest.mark.parametrize("failover", ["", "Resend", "keep"])
def test_another_failover_there_is_not(failover: str) -> None:
    with pytest.raises(UsageError, match=f"failover is resend or drop, not {failover!r}"):
        GroupSettings(failover=failover)


def test_the_times_fit_each_other() -> None:
    """Several signs of life, and several tries to get one through, before anybody loses patience."""
    settings = GroupSettings()
    assert settings.nak_ms < settings.retry_ms < settings.idle_ms
    assert settings.gossip_ms < settings.idle_ms
    assert 3 * settings.idle_ms < settings.patience_ms
    assert 3 * settings.retry_ms < settings.patience_ms
    assert settings.cast_bytes_max < settings.forward_bytes_max < settings.kept_bytes_max
