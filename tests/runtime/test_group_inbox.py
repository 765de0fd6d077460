"""What was handed over comes out in order, and what happens at a place happens there."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from octoloom.core.errors import ProtocolError, UsageError
from octoloom.core.filters import ReceivedMessage
from octoloom.runtime import group_inbox
from octoloom.runtime.group_inbox import Handed, Inbox, Told
from octoloom.wire.group import encode_bodies, encode_body
from tests.runtime.group_rooms import run


def bundle(*bodies: Any, sender: str = "ada", number: int = 1) -> Handed:
    return Handed(sender, encode_bodies(bodies), len(bodies), False, number, 0)


def inbox() -> Inbox:
    def fault(sender: str, error: ProtocolError) -> None:
        raise AssertionError(f"{sender}: {error}")

    return Inbox(fault)


async def bodies(box: Inbox) -> list[Any]:
    return [message.body for message in await box.take()]


def test_all_that_is_there_is_taken_at_once_with_what_is_known_of_it() -> None:
    async def story() -> None:
        box = inbox()
        box.hand(Handed("ada", encode_bodies([1, 2]), 2, True, 7, 3))
        box.tell(Told("bob", encode_body("psst")))
        box.put(ReceivedMessage("cathy", "filtered"))
        assert await box.take() == [
            ReceivedMessage("ada", 1, True, False, 7, 3),
            ReceivedMessage("ada", 2, True, False, 7, 3),
            ReceivedMessage("bob", "psst", to_me=True),
            ReceivedMessage("cathy", "filtered"),
        ]
        assert box.size == 0

    run(story)


def test_who_waits_is_woken_at_the_end_of_the_turn() -> None:
    async def story() -> None:
        box = inbox()
        waiting = asyncio.create_task(box.take())
        await asyncio.sleep(0)
        box.wake()  # nothing has come
        await asyncio.sleep(0)
        assert not waiting.done()
        box.hand(bundle(1))
        box.hand(bundle(2))
        box.wake()
        assert [message.body for message in await waiting] == [1, 2]

    run(story)


def test_what_happens_waits_until_the_app_is_done_with_what_is_before_it() -> None:
    async def story() -> None:
        box, seen = inbox(), list[str]()
        box.happen(lambda: seen.append("at once: nothing is before it"))
        box.hand(bundle(1))
        box.happen(lambda: seen.append("after 1"))
        box.hand(bundle(2))
        assert await bodies(box) == [1]
        assert seen == ["at once: nothing is before it"]
        assert await bodies(box) == [2]
        assert seen[1:] == ["after 1"]
        box.happen(lambda: seen.append("after 2"))  # the app is at work on 2
        assert seen[1:] == ["after 1"]
        waiting = asyncio.create_task(box.take())
        await asyncio.sleep(0)
        assert seen[2:] == ["after 2"]
        box.happen(lambda: seen.append("at once: the app waits"))
        assert seen[3:] == ["at once: the app waits"]
        waiting.cancel()

    run(story)


def test_the_end_and_an_error_come_last() -> None:
    async def story() -> None:
        for error in (None, UsageError("over")):
            box = inbox()
            box.hand(bundle(1))
            box.end(error)
            box.end(UsageError("only the first counts"))
            assert await bodies(box) == [1]
            for _ in range(2):
                if error is None:
                    assert await box.take() == []
                else:
                    with pytest.raises(UsageError, match="over"):
                        await box.take()

    run(story)


def test_the_end_wakes_who_waits() -> None:
    async def story() -> None:
        box = inbox()
        waiting = asyncio.create_task(box.take())
        await asyncio.sleep(0)
        box.end()
        assert await waiting == []

    run(story)


def test_what_cannot_be_decoded_is_told_and_left_out() -> None:
    async def story() -> None:
        faults: list[tuple[str, str]] = []
        box = Inbox(lambda sender, error: faults.append((sender, error.code)))
        box.hand(Handed("eve", b"\xc1", 1, False, 1, 0))
        box.hand(Handed("eve", encode_bodies([1, 2]), 3, False, 1, 0))
        box.tell(Told("mallory", b"\xc1"))
        box.hand(bundle("fine"))
        assert await bodies(box) == ["fine"]
        assert faults == [("eve", "bad-payload"), ("eve", "bad-payload"), ("mallory", "bad-payload")]
        assert box.size == 0

    run(story)


def test_there_is_one_reader() -> None:
    async def story() -> None:
        box = inbox()
        waiting = asyncio.create_task(box.take())
        await asyncio.sleep(0)
        with pytest.raises(UsageError, match="somebody reads this room already"):
            await box.take()
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        box.hand(bundle(1))
        assert await bodies(box) == [1]

    run(story)


def test_it_says_when_there_is_too_much(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group_inbox, "INBOX_BYTES_MAX", 100)
    monkeypatch.setattr(group_inbox, "INBOX_ENTRIES_MAX", 10)

    async def story() -> None:
        box = inbox()
        box.hand(bundle(bytes(90)))
        assert not box.full
        box.hand(bundle(bytes(90)))
        assert (box.full, box.overrun) == (True, False)
        for _ in range(3):
            box.hand(bundle(bytes(90)))
        assert box.overrun
        await box.take()
        assert not box.full
        for number in range(11):
            box.put(ReceivedMessage("ada", number))
        assert box.full

    run(story)


def test_a_batch_ends_where_it_is_long_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group_inbox, "TAKEN_MAX", 3)

    async def story() -> None:
        box = inbox()
        for first in (0, 2, 4):
            box.hand(bundle(first, first + 1))
        assert [await bodies(box), await bodies(box)] == [[0, 1, 2, 3], [4, 5]]

    run(story)
