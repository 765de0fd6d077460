"""Bookmarks: reading from one comes to the same as reading everything, and one that is not true is not believed."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest
import uvloop

from octoloom.core.event import JournalEntry
from octoloom.core.journal import JournalReader
from octoloom.core.placement import place
from octoloom.runtime import journal_bookmarks
from octoloom.runtime.journal_bookmarks import Bookmarks
from octoloom.runtime.journal_reader import JournalPass
from octoloom.runtime.log_client import LogClient
from octoloom.wire.journal_bookmarks import Bookmark, encode_list, is_list, run_of
from octoloom.wire.kafka.records import Record, build_batch
from tests.runtime.journal_entries import entries, entry
from tests.runtime.test_journal_reader import PARTITIONS, put, record_of, starting, versions
from tests.runtime.tiny_log import TinyLog, TinyPartition, tiny_log

TOPIC = "journal-bookmarks"
PLACES = [("journal", number) for number in range(PARTITIONS)]


@contextlib.asynccontextmanager
async def journal() -> AsyncIterator[tuple[TinyLog, LogClient, Bookmarks]]:
    async with tiny_log(2, "journal", PARTITIONS) as log, LogClient(log.bootstrap) as client:
        log.make(TOPIC, PARTITIONS)
        yield log, client, Bookmarks(client, "journal", {})


def fill(log: TinyLog, first: int, last: int, spaces: int = 12) -> None:
    put(log, (record_of(f"space{n}", one) for n in range(spaces) for one in entries(first, last)))


async def passed(
    client: LogClient, bookmarks: Bookmarks | None, beginning: dict[str, int] | None = None, **settings: Any
) -> JournalPass:
    chains = settings.pop("chains", ("c",))
    done = JournalPass(client, "journal", beginning or {"c": 9}, chains, bookmarks, **settings)
    await done.run()
    return done


async def mark(client: LogClient, bookmarks: Bookmarks, chain: str = "c", **settings: Any) -> JournalPass:
    """Reads everything, and makes a bookmark in each partition."""
    done: JournalPass | None = None
    for number in range(PARTITIONS):
        done = await passed(client, bookmarks, {chain: 9}, partitions=[number], **settings)
        assert done.failures == {}
        await bookmarks.write(number, chain, done.name, done.marks["journal", number], done.readers(chain), PARTITIONS)
    assert done is not None
    return done


async def states(done: JournalPass, chain: str = "c") -> dict[str, Any]:
    return {
        one.space: (one.version, msgspec.json.decode(one.state), one.devices) for one in await done.snapshots(chain)
    }


def test_only_what_lies_behind_the_bookmarks_is_read() -> None:
    async def main() -> None:
        async with journal() as (log, client, bookmarks):
            fill(log, 1, 40)
            await mark(client, bookmarks)
            fill(log, 41, 43)
            everything, rest = await passed(client, None), await passed(client, bookmarks)
            assert await states(rest) == await states(everything)
            assert await versions(rest) == {f"space{n}": 43 for n in range(12)}
            assert rest.records < 12 * 3 + 4 * PARTITIONS < everything.records
            assert set(rest.opened) == {("c", number) for number in range(PARTITIONS)}
            # And again from there.
            await mark(client, bookmarks)
            assert (await passed(client, bookmarks)).records == PARTITIONS

    uvloop.run(main())


def test_without_any_everything_is_read() -> None:
    async def main() -> None:
        async with tiny_log(2, "journal", PARTITIONS) as log, LogClient(log.bootstrap) as client:
            fill(log, 1, 3)
            done = await passed(client, Bookmarks(client, "journal", {}))
            assert await versions(done) == {f"space{n}": 3 for n in range(12)}
            log.make(TOPIC, PARTITIONS)
            done = await passed(client, Bookmarks(client, "journal", {}))
            assert await versions(done) == {f"space{n}": 3 for n in range(12)}
            assert done.opened == {}

    uvloop.run(main())


def test_a_bookmark_of_another_journal_is_not_believed(caplog: pytest.LogCaptureFixture) -> None:
    """The topic was deleted and made anew: it may be shorter than the bookmark, or longer."""

    async def main(last: int) -> None:
        async with journal() as (log, client, bookmarks):
            fill(log, 1, 9)
            await mark(client, bookmarks)
            log.make("journal", PARTITIONS)
            fill(log, 1, last)
            caplog.clear()
            with caplog.at_level(logging.WARNING):
                done = await passed(client, bookmarks)
            assert await versions(done) == {f"space{n}": last for n in range(12)}
            assert (done.opened, done.failures) == ({}, {})
            assert [record.getMessage() for record in caplog.records] == [
                "the bookmarks of the topic journal are of another journal: all of it is read"
            ]

    for last in (1, 30):
        uvloop.run(main(last))


def spoilt(partition: TinyPartition, drop: Any) -> None:
    """Takes records out of a log, and puts something else in their places."""
    kept = [
        record._replace(key=None, value=b"{}", headers=()) if drop(record) else record for record in partition.records
    ]
    partition.batches, partition.end = [], 0
    for record in kept:
        partition.append(build_batch([record]))


@pytest.mark.parametrize("what", ["a space", "a value", "the list", "all"])
def test_one_that_is_not_whole_is_passed_over(what: str, caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        async with journal() as (log, client, bookmarks):
            fill(log, 1, 9)
            await mark(client, bookmarks)
            for number in range(PARTITIONS):
                partition = log.partitions[TOPIC, number]
                first = next(record.key for record in partition.records if record.key)
                if what == "a value":
                    partition.batches = [
                        build_batch([r._replace(value=b"{}") if r.key == first else r for r in partition.records])
                    ]
                elif what == "all":
                    partition.start = partition.end
                    partition.batches = []
                else:
                    spoilt(
                        partition,
                        lambda r, first=first: r.key == first if what == "a space" else is_list(r.key, r.headers),
                    )
            fill(log, 10, 12)
            with caplog.at_level(logging.WARNING):
                done = await passed(client, bookmarks)
            assert await versions(done) == {f"space{n}": 12 for n in range(12)}
            told = [record for record in caplog.records if "is not whole: it is passed over" in record.getMessage()]
            assert len(told) == (PARTITIONS if what in ("a space", "a value") else 0)

    uvloop.run(main())


def early(space: str) -> JournalEntry:
    """A start of the first version."""
    reader = JournalReader(space)
    reader.read(1, entry(1))
    return starting(reader)


def test_runs_that_never_ended_and_runs_in_between_do_no_harm() -> None:
    async def main() -> None:
        async with journal() as (log, client, bookmarks):
            fill(log, 1, 9)
            await mark(client, bookmarks)
            for number in range(PARTITIONS):
                partition = log.partitions[TOPIC, number]
                run = [record for record in partition.records if run_of(record.headers)]
                # Another writer's run of the same spaces, which says something else and was never listed, in between;
                # and everything twice, as an answer that was lost makes it.
                other = [record_of(record.key.decode(), early(record.key.decode())) for record in run if record.key]
                partition.batches, partition.end = [], 0
                for mine, theirs in zip(run, other, strict=True):
                    theirs = theirs._replace(headers=(*theirs.headers, ("run", b"other")))
                    partition.append(build_batch([theirs, mine, mine, theirs]))
                name = run_of(run[0].headers)
                at = next(
                    r.offset for r in log.partitions["journal", number].records if name.encode() in (r.value or b"")
                )
                bookmark = Bookmark(name, at, 0, len(run), 1)
                value, headers = encode_list({"c": bookmark}, 0)
                partition.append(build_batch([Record(0, 0, None, value, headers)]))
                for theirs in other * journal_bookmarks.WINDOW:
                    partition.append(build_batch([theirs]))
            fill(log, 10, 12)
            rest = await passed(client, bookmarks)
            assert await versions(rest) == {f"space{n}": 12 for n in range(12)}
            assert len(rest.opened) == PARTITIONS

    uvloop.run(main())


def test_a_journal_may_be_trimmed_up_to_its_bookmarks_and_not_beyond() -> None:
    async def main() -> None:
        async with journal() as (log, client, bookmarks):
            fill(log, 1, 9)
            await mark(client, bookmarks)
            for number in range(PARTITIONS):
                partition = log.partitions["journal", number]
                partition.start = (await bookmarks.find(number))["c"].offset
            fill(log, 10, 12)
            done = await passed(client, bookmarks)
            assert await versions(done) == {f"space{n}": 12 for n in range(12)}
            for number in range(PARTITIONS):
                log.partitions["journal", number].start += 1
            done = await passed(client, bookmarks)
            assert "a record is missing" in str(done.failures["c"])

    uvloop.run(main())


def test_each_chain_has_its_own() -> None:
    chains = ("c", "d")

    async def main() -> None:
        async with journal() as (log, client, bookmarks):
            homes = {f"space{n}": place(f"space{n}", chains) for n in range(12)}
            put(log, (record_of(s, one, chain=home) for s, home in homes.items() for one in entries(1, 20)))
            await mark(client, bookmarks, "c", chains=chains)
            alone = await passed(client, bookmarks, {"c": 9}, chains=chains)
            both = await passed(client, bookmarks, {"c": 9, "d": 9}, chains=chains)
            assert alone.records < 20 < 12 * 20 < both.records
            # The list that names the bookmarks of d names those of c still.
            await mark(client, bookmarks, "d", chains=chains)
            put(log, (record_of(s, one, chain=home) for s, home in homes.items() for one in entries(21, 22)))
            both = await passed(client, bookmarks, {"c": 9, "d": 9}, chains=chains)
            assert both.records < 12 * 20
            found = {**await versions(both, "c"), **await versions(both, "d")}
            assert found == dict.fromkeys(homes, 22)

    uvloop.run(main())


def test_what_must_not_be_is_told_as_without_a_bookmark() -> None:
    """A register that has forgotten its generations, and spaces that belong to another chain now."""

    async def main() -> None:
        async with journal() as (log, client, bookmarks):
            put(log, (record_of("s", one, generation=3) for one in entries(1, 9)))
            await mark(client, bookmarks)
            done = await passed(client, bookmarks, {"c": 3})
            assert "the register has lost what it knew" in str(done.failures["c"])
            mine = next(f"x{n}" for n in range(100) if place(f"x{n}", ("c", "d")) == "d")
            put(log, (record_of(mine, one) for one in entries(1, 9)))
            await mark(client, bookmarks)
            done = await passed(client, bookmarks, {"c": 9, "d": 9}, chains=("c", "d"))
            assert "belongs to" in str(done.failures)
            done = await passed(client, bookmarks, {"c": 9}, chains=("c", "d"))
            assert mine not in await versions(done)

    uvloop.run(main())


def test_a_run_is_written_in_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal_bookmarks, "BATCH_BYTES_MAX", 300)

    async def main() -> None:
        async with journal() as (log, client, bookmarks):
            fill(log, 1, 5, spaces=40)
            await mark(client, bookmarks)
            assert all(len(log.partitions[TOPIC, number].batches) > 4 for number in range(PARTITIONS))
            done = await passed(client, bookmarks)
            assert await versions(done) == {f"space{n}": 5 for n in range(40)}
            assert len(done.opened) == PARTITIONS

    uvloop.run(main())
