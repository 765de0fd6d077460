"""Bookmarks are made while a journal grows, on real brokers, and whatever goes wrong with them harms nobody."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest
import uvloop

from octoloom.runtime.journal_bookmarking import Bookmarking
from octoloom.runtime.journal_bookmarks import Bookmarks
from octoloom.runtime.log_admin import describe_topics
from octoloom.runtime.log_client import LogClient
from octoloom.runtime.log_errors import TimedOut
from tests.runtime.broker_world import until, world
from tests.runtime.journal_entries import entries
from tests.runtime.test_journal import Heard, heard

SOON = 2_000


async def grow(mine: Heard, first: int, last: int) -> None:
    """Lets the journal grow, and bookmarks be made in between."""
    for space in ("a", "b"):
        mine.publish(space, entries(first, last))
    await until(lambda: mine.versions() == {"a": last, "b": last})


async def grow_until_marked(mine: Heard, first: int, made: int) -> int:
    """Answers the first version that is not there yet."""
    while mine.journal.bookmarking.made < made:
        await grow(mine, first, first + 4)
        first += 5
    return first


def read_counts(caplog: pytest.LogCaptureFixture) -> list[int]:
    """How many records each pass had to read."""
    texts = [record.getMessage().split() for record in caplog.records]
    return [int(words[1]) for words in texts if words[0] == "read" and words[2] == "records"]


def test_a_chain_that_begins_anew_reads_what_is_new_since_the_last_bookmark(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        async with world(tmp_path) as there:
            async with heard(there.register.address, partitions=2, bookmark_bytes=SOON) as first:
                last = await grow_until_marked(first, 1, made=8) - 1
            async with heard(there.register.address, bookmark_bytes=10**9) as second:
                with caplog.at_level(logging.INFO):
                    caplog.clear()
                    assert await second.restore(2) == {"a": last, "b": last}
                [rest] = read_counts(caplog)
                async with LogClient(there.register.address) as client:
                    bounds = await client.bounds([("journal", 0), ("journal", 1)])
                    assert 0 < rest < sum(high for _, high in bounds.values()) / 2
                    [status] = await describe_topics(client, ["journal-bookmarks"])
                assert len(status.partitions) == 2
                assert status.config["retention.ms"] == "-1"

    uvloop.run(main())


def test_what_was_read_for_want_of_a_bookmark_has_one_made(tmp_path: Path) -> None:
    async def main() -> None:
        async with world(tmp_path) as there:
            async with heard(there.register.address, partitions=1, bookmark_bytes=10**9) as first:
                await grow(first, 1, 60)
                assert first.journal.bookmarking.made == 0
            async with heard(there.register.address, bookmark_bytes=SOON) as second:
                assert await second.restore(2) == {"a": 60, "b": 60}
                await until(lambda: second.journal.bookmarking.made == 1)
                # Who begins anew behind it has nothing to catch up with.
                assert await second.restore(3) == {"a": 60, "b": 60}
            async with heard(there.register.address, bookmark_bytes=SOON) as third:
                assert await third.restore(3) == {"a": 60, "b": 60}
                assert third.journal.bookmarking.made == 0

    uvloop.run(main())


def test_a_head_does_not_make_again_what_the_one_before_has_made(tmp_path: Path) -> None:
    async def main() -> None:
        async with world(tmp_path) as there, LogClient(there.register.address) as client:
            async with heard(there.register.address, partitions=1, bookmark_bytes=SOON) as first:
                last = await grow_until_marked(first, 1, made=1) - 1
                before = await Bookmarks(client, "journal", {}).find(0)
            again = Bookmarking(client, "journal", {}, lambda: ("c",), 10**6)
            again.on_written(("c", 0), 1, 10**6)
            await until(lambda: again._task is None)
            assert again.made == 0
            assert await Bookmarks(client, "journal", {}).find(0) == before
            assert last > 0
            await again.close()

    uvloop.run(main())


@pytest.mark.parametrize("error", [TimedOut("not now"), RuntimeError("a bug")])
def test_what_goes_wrong_is_told_and_play_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, error: Exception
) -> None:
    async def fail(*_: Any) -> None:
        raise error

    monkeypatch.setattr(Bookmarks, "write", fail)

    async def main() -> None:
        async with world(tmp_path) as there, heard(there.register.address, partitions=1, bookmark_bytes=SOON) as mine:
            with caplog.at_level(logging.INFO):
                last = 0
                while not any(record.msg.startswith(("no bookmark", "no more")) for record in caplog.records):
                    await grow(mine, last + 1, last + 10)
                    last += 10
            await grow(mine, last + 1, last + 10)
            assert await mine.restore(2) == {"a": last + 10, "b": last + 10}

    uvloop.run(main())
