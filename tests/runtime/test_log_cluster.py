"""What a client remembers of the brokers, and that it does not ask too often."""

from __future__ import annotations

import asyncio

import pytest
import uvloop

from octoloom.core.errors import UsageError
from octoloom.runtime import log_cluster, log_connection
from octoloom.runtime.log_cluster import LogCluster, addresses_of
from octoloom.runtime.log_errors import NotLeader, UnknownTopic, Unreachable
from octoloom.wire.kafka.apis import Api
from tests.runtime.tiny_log import tiny_log
from tests.waiting import PATIENCE_S


def test_leaders_are_learnt_and_remembered() -> None:
    async def main() -> None:
        async with tiny_log(brokers=2, partitions=3) as log:
            cluster = LogCluster(log.bootstrap, "test")
            assert cluster.leader(("t", 0)) is None
            await cluster.ask_metadata(["t", "other"])
            leaders = [cluster.leader(("t", number)) for number in range(3)]
            assert [leader.leader for leader in leaders if leader is not None] == [1, 2, 1]
            assert cluster.leader(("t", 3)) is None
            assert cluster.topic("other") is None
            assert isinstance(cluster.why_not(("other", 0)), UnknownTopic)
            assert isinstance(cluster.why_not(("t", 3)), UnknownTopic)
            log.partitions["t", 1].leader = -1
            await cluster.ask_metadata(None)
            assert cluster.leader(("t", 1)) is None
            assert isinstance(cluster.why_not(("t", 1)), NotLeader)
            await cluster.close()

    uvloop.run(main())


def test_all_who_want_to_know_share_one_question() -> None:
    async def main() -> None:
        async with tiny_log() as log:
            cluster = LogCluster(log.bootstrap, "test")
            cluster.want("t")
            await asyncio.gather(*(cluster.refresh(0) for _ in range(100)))
            assert (log.asked[Api.METADATA], cluster.revision) == (1, 1)
            # There is a newer answer than the one they knew.
            await asyncio.gather(*(cluster.refresh(0) for _ in range(100)))
            assert log.asked[Api.METADATA] == 1
            await asyncio.gather(*(cluster.refresh(1) for _ in range(100)))
            assert log.asked[Api.METADATA] == 2
            await cluster.close()

    uvloop.run(main())


def test_questions_keep_their_distance(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_cluster, "REFRESH_MIN_S", 0.05)

    async def main() -> None:
        async with tiny_log() as log:
            cluster = LogCluster(log.bootstrap, "test")
            begun = asyncio.get_running_loop().time()
            for _ in range(6):
                await cluster.refresh(cluster.revision)
            assert asyncio.get_running_loop().time() - begun >= 5 * 0.05
            await cluster.close()

    uvloop.run(main())


def test_one_who_waits_no_longer_takes_the_answer_from_nobody() -> None:
    async def main() -> None:
        async with tiny_log() as log:
            cluster = LogCluster(log.bootstrap, "test")
            first = asyncio.ensure_future(cluster.refresh(0))
            second = asyncio.ensure_future(cluster.refresh(0))
            await asyncio.sleep(0)
            first.cancel()
            await second
            assert cluster.revision == 1
            await cluster.close()

    uvloop.run(main())


def test_another_broker_is_asked_when_one_is_down_or_silent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_cluster, "METADATA_S", 0.2)

    async def main() -> None:
        async with tiny_log(brokers=3) as log:
            cluster = LogCluster(["127.0.0.1:1", log.bootstrap[0]], "test")
            assert len((await cluster.ask_metadata(None)).brokers) == 3
            # From now on it knows all three, whatever it was told at first.
            await log.kill(1)
            assert len((await cluster.ask_metadata(None)).brokers) == 2
            log.faults[Api.METADATA].append("hang")
            assert len((await cluster.ask_metadata(None)).brokers) == 2
            await cluster.close()

    uvloop.run(main())


def test_the_way_back_leads_over_the_addresses_that_were_given() -> None:
    async def main() -> None:
        async with tiny_log(brokers=2) as log:
            cluster = LogCluster(log.bootstrap[0], "test")
            await cluster.ask_metadata(None)
            await log.kill(1)
            await cluster.ask_metadata(None)
            await log.kill(2)
            with pytest.raises(Unreachable, match="start one with `octoloom up` or `octoloom broker`"):
                await cluster.ask_metadata(None)
            await log.start(1)
            assert list((await cluster.ask_metadata(None)).brokers) == [1]
            await cluster.close()

    uvloop.run(main())


def test_a_connection_is_opened_once_and_again_when_it_is_lost() -> None:
    async def main() -> None:
        async with tiny_log() as log:
            cluster = LogCluster(log.bootstrap, "test")
            await cluster.ask_metadata(None)
            assert cluster.connected(1, "produce") is None
            opened = await asyncio.gather(*(cluster.connect_to(1, "produce") for _ in range(20)))
            assert len(set(map(id, opened))) == 1
            assert cluster.connected(1, "produce") is opened[0]
            assert await cluster.connect_to(1, "fetch") is not opened[0]
            opened[0].abort()
            assert cluster.connected(1, "produce") is None
            assert await cluster.connect_to(1, "produce") is not opened[0]
            with pytest.raises(NotLeader, match="broker 9 is gone"):
                await cluster.connect_to(9, "produce")
            cluster.hang_up("produce")
            assert cluster.connected(1, "produce") is None
            assert cluster.connected(1, "fetch") is not None
            await cluster.close()

    uvloop.run(main())


def test_a_frozen_broker_is_left_when_another_leads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_connection, "SUSPECT_S", 0.05)
    monkeypatch.setattr(log_connection, "_LOOK_S", 0.02)

    async def main() -> None:
        async with tiny_log(brokers=2) as log:
            cluster = LogCluster(log.bootstrap, "test")
            cluster.want("t")
            await cluster.refresh(0)
            connection = await cluster.connect_to(1, "produce")
            log.faults[Api.INIT_PRODUCER_ID].append("hang")
            answer = connection.ask(Api.INIT_PRODUCER_ID, (b"\xff\xff" + bytes(4),), lambda _answer, _at: None)
            await asyncio.sleep(0.3)
            assert not answer.done()
            log.move(("t", 0))
            with pytest.raises(Unreachable, match="another leads in its place") as caught:
                await asyncio.wait_for(answer, PATIENCE_S)
            assert caught.value.ambiguous
            await cluster.close()

    uvloop.run(main())


def test_addresses_are_checked_at_once() -> None:
    assert addresses_of("a:1, b:2,") == ["a:1", "b:2"]
    assert addresses_of(["a:1"]) == ["a:1"]
    with pytest.raises(UsageError, match="write host:port"):
        addresses_of("somewhere")
    with pytest.raises(UsageError, match="no broker is named"):
        addresses_of(" , ")
