"""Settings that cannot be meant are refused with a text that says what to do."""

from __future__ import annotations

import pytest

from octoloom.core.consumer_settings import GroupSettings
from octoloom.core.errors import UsageError


def test_a_negative_limit_is_refused() -> None:
    with pytest.raises(UsageError, match="groups_max is -1: set it to 0 or more"):
        GroupSettings(groups_max=-1)


def test_the_session_timeouts_have_an_order() -> None:
    with pytest.raises(UsageError, match="lower it"):
        GroupSettings(session_timeout_min_ms=10, session_timeout_max_ms=9)
    assert GroupSettings(session_timeout_min_ms=10, session_timeout_max_ms=10).session_timeout_min_ms == 10
