"""When a broker has its turns: at once while it is quiet, and for all of a tick together while it is busy."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from octoloom.core.broker import Broker, BrokerConfig
from octoloom.runtime import broker_state
from octoloom.runtime.broker_logs import Logs
from octoloom.runtime.broker_settings import BrokerSettings
from octoloom.runtime.broker_state import QUIET_S, BrokerState
from octoloom.runtime.clock import Clock


def test_turns_come_at_once_after_a_silence_and_together_otherwise(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now, turns = 100.0, 0
    monkeypatch.setattr(broker_state, "monotonic", lambda: now)

    def turn() -> None:
        nonlocal turns
        turns += 1

    async def main() -> None:
        nonlocal now
        state = BrokerState(BrokerSettings(), Clock(), Logs(str(tmp_path), 1 << 20), Broker(BrokerConfig("a#1")))
        state.take_turn = turn
        # Nobody was heard before.
        state.promptly()
        assert turns == 1
        # These come right behind it: one turn for all of them.
        for _ in range(3):
            state.promptly()
        assert turns == 1
        await asyncio.sleep(0)
        assert turns == 2
        await asyncio.sleep(0)
        assert turns == 2
        # A turn is on its way already, and it is enough.
        now += 2 * QUIET_S
        state.soon()
        state.promptly()
        assert turns == 2
        await asyncio.sleep(0)
        assert turns == 3
        now += 2 * QUIET_S
        state.promptly()
        assert turns == 4

    asyncio.run(main())
