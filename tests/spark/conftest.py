"""What tests on Spark share. The session and the brokers are those of all tests: see tests/conftest.py."""

from __future__ import annotations

from collections.abc import Callable

MakeTopic = Callable[..., str]
"""(partitions=1, **settings) → the name of a new topic, ready for use. `retention_ms="1"` sets retention.ms."""
