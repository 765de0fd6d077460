from __future__ import annotations

import pytest

from octoloom.core.errors import UsageError
from octoloom.runtime import group_chat_scene
from octoloom.runtime.causal_proof import Chat, chat_doubts
from octoloom.runtime.group_chat_scene import SAID, chat
from tests.runtime.group_rooms import group, run

LATE_MS = 300


def test_the_slow_one_reads_answers_first_only_without_an_order() -> None:
    told: list[str] = []

    async def story() -> tuple[Chat, Chat]:
        async with group() as rooms:
            address = rooms.server.address
            return await chat(address, "causal", LATE_MS, told.append), await chat(
                address, "none", LATE_MS, told.append
            )

    ordered, unordered = run(story)
    assert list(chat_doubts(ordered, unordered)) == []
    assert ordered.read == ordered.said == [text for _, text in SAID]
    assert unordered.too_early == ["Where?", "I am coming."]
    assert told[0] == "with causal, cathy reads ada: Lunch?"
    assert told[4] == "with none, cathy reads bob: Where?"


def test_a_chat_that_does_not_begin_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group_chat_scene, "CHAT_S", 0.3)

    async def story() -> None:
        await chat("127.0.0.1:9", "causal", LATE_MS, print)

    with pytest.raises(UsageError):
        run(story)
