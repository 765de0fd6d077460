"""The register's desk for topics on real sockets: brokers come, ask, die and come back."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import TypeVar

import msgspec
import pytest
import uvloop

from octoloom.core.errors import StoreError
from octoloom.core.log_messages import (
    Accept,
    AdminDone,
    Announced,
    AskLog,
    BrokerAddress,
    ConfigureTopic,
    DropTopic,
    EnlistBroker,
    GrowTopic,
    LogDirectory,
    LogNews,
    MakeTopic,
    PartitionState,
    ProposeInSync,
    RegisterToBroker,
    Taken,
)
from octoloom.core.log_register import LogConfig
from octoloom.core.log_saved import Persist
from octoloom.core.register import RegisterConfig
from octoloom.core.register_messages import Declined, Directory, Enlist, Leave, LinkAddress, Ready
from octoloom.core.topic_admin import INVALID_CONFIG, INVALID_REPLICATION, TOPIC_EXISTS, UNKNOWN_TOPIC
from octoloom.runtime import broker_directory
from octoloom.runtime.broker_register import BrokerRegisterClient
from octoloom.runtime.register import RegisterServer
from octoloom.runtime.register_client import RegisterClient, ask_log
from octoloom.runtime.register_line import RegisterLine
from octoloom.wire.kafka.errors import ErrorCode
from octoloom.wire.register import Answer, Request, encode_frame
from tests.waiting import PATIENCE_S
from tests.waiting import async_until as until

T = TypeVar("T")
CONFIG = RegisterConfig(["c0"], replicas=2, lease_ms=20_000)
LOG_CONFIG = LogConfig(lease_ms=20_000, balance_ms=60_000)


class Broker:
    """A client that knows what it was told, checks that nothing is missing, and accepts every transition."""

    def __init__(self, broker: str, address: str, end: int = 0, accepts: bool = True, takes: bool = True) -> None:
        self.broker, self.end, self.accepts, self.takes = broker, end, accepts, takes
        self.directory = broker_directory.Directory()
        self.heard: list[str] = []
        self.transitions: list[int] = []
        self.declined: list[Declined] = []
        self.client = BrokerRegisterClient(address, self._enlist, self._on_message, self.declined.append)
        self.client.start()

    def _enlist(self) -> EnlistBroker:
        self.heard.append("-")
        name = self.broker.partition("#")[0]
        return EnlistBroker(BrokerAddress(self.broker, "127.0.0.1", 1, f"disk of {name}"), self.directory.revision)

    def _on_message(self, message: RegisterToBroker) -> None:
        self.heard.append(type(message).__name__)
        match message:
            case LogDirectory():
                self.directory.on_directory(message)
                self._take(message.revision)
            case LogNews():
                assert message.revision == self.directory.revision + 1, "something was left out"
                self.directory.on_news(message)
                self._take(message.revision)
                if message.transition:
                    self.transitions.append(message.transition)
            case Announced() if self.accepts:
                ends = [(topic, number, epoch, self.end, self.end) for topic, number, epoch in message.partitions]
                self.client.say(Accept(message.transition, ends))

    def _take(self, revision: int) -> None:
        if self.takes:
            self.client.say(Taken(revision))

    def state(self, topic: str, number: int = 0) -> PartitionState | None:
        return self.directory.state((topic, number))

    def leader(self, topic: str, number: int = 0) -> str:
        state = self.state(topic, number)
        return state.leader if state is not None else ""

    def kill(self) -> None:
        """What the death of a process does to its connection."""
        assert self.client.line.task is not None
        self.client.line.task.cancel()
        if self.client.line.connection is not None:
            self.client.line.connection.abort()


def same(told: broker_directory.Directory, directory: LogDirectory) -> bool:
    states = {(topic, number): state for topic, number, state in directory.partitions}
    mine = {(topic, number): state for topic in told.topics for number, state in told.partitions(topic).items()}
    return (told.revision, told.brokers, told.topics, mine) == (
        directory.revision,
        directory.brokers,
        directory.topics,
        states,
    )


def run(story: Callable[[], Awaitable[T]]) -> T:
    async def told() -> T:
        return await story()

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(told())


async def started(store: Path | None = None, port: int = 0, config: LogConfig = LOG_CONFIG) -> RegisterServer:
    server = RegisterServer(CONFIG, store, "127.0.0.1", port, config)
    await server.start()
    return server


async def joined(server: RegisterServer, *names: str) -> list[Broker]:
    brokers = [Broker(name, server.address) for name in names]
    await until(lambda: all(set(names) <= set(broker.directory.brokers) for broker in brokers))
    return brokers


async def stopped(server: RegisterServer, brokers: Sequence[Broker]) -> None:
    for broker in brokers:
        await broker.client.stop()
    await server.stop()


def test_what_one_broker_asks_for_all_are_told_in_one_order() -> None:
    async def story() -> None:
        server = await started()
        brokers = await joined(server, "a#1", "b#1", "c#1")
        a, b, c = brokers
        makes = [MakeTopic(0, f"t{n}", 4, 3) for n in range(20)]
        done = await asyncio.gather(*(brokers[n % 3].client.request(make) for n, make in enumerate(makes)))
        assert {answer.error for answer in done} == {0}
        await asyncio.gather(a.client.request(GrowTopic(0, "t1", 9)), b.client.request(DropTopic(0, "t2")))
        assert (await c.client.request(ConfigureTopic(0, "t3", {"retention.ms": "5"}))).error == 0
        assert c.directory.topics["t3"].config["retention.ms"] == "5", "news come before the answer"
        late = Broker("d#1", server.address)
        await until(lambda: all(same(each.directory, server.log_directory()) for each in [*brokers, late]))
        assert len(a.directory.partitions("t1")) == 9
        assert "t2" not in b.directory.topics
        assert late.heard[:2] == ["-", "LogDirectory"]
        assert sorted(address.id for address in a.directory.brokers.values()) == [1, 2, 3, 4]
        await stopped(server, [*brokers, late])

    run(story)


def test_refusals_are_kafkas_codes_with_the_next_step() -> None:
    async def story() -> None:
        server = await started()
        [a] = await joined(server, "a#1")

        async def error(make: MakeTopic | DropTopic | ConfigureTopic) -> tuple[int, str]:
            answer = await a.client.request(make)
            return answer.error, answer.detail

        assert await error(MakeTopic(0, "t", dry=True)) == (0, "")
        assert await error(MakeTopic(0, "t")) == (0, "")
        assert (await error(MakeTopic(0, "t")))[0] == TOPIC_EXISTS
        code, detail = await error(MakeTopic(0, "big", 1, 3))
        assert (code, "start more or ask for fewer" in detail) == (INVALID_REPLICATION, True)
        assert (await error(DropTopic(0, "nothing")))[0] == UNKNOWN_TOPIC
        assert (await error(ConfigureTopic(0, "t", {"no": "such"})))[0] == INVALID_CONFIG
        assert list(server.log_directory().topics) == ["t"]
        await stopped(server, [a])

    run(story)


def test_a_killed_leader_is_replaced_by_a_transition_that_can_be_watched(caplog: pytest.LogCaptureFixture) -> None:
    async def story() -> None:
        server = await started()
        brokers = {broker.broker: broker for broker in await joined(server, "a#1", "b#1", "c#1")}
        await brokers["a#1"].client.request(MakeTopic(0, "t", 1, 3))
        await until(lambda: all(broker.leader("t") for broker in brokers.values()))
        old = brokers.pop(brokers["a#1"].leader("t"))
        shorter, longer = brokers.values()
        shorter.end, longer.end = 40, 41
        old.kill()
        await until(lambda: shorter.leader("t") == longer.leader("t") == longer.broker)
        state = shorter.state("t")
        assert state is not None
        assert state.epoch == 2
        assert sorted(state.in_sync) == sorted(brokers)
        assert shorter.transitions == longer.transitions != []
        number = shorter.transitions[-1]
        told = caplog.text
        assert f"transition {number} announced, since the leader is gone: t-0 (epoch 1)" in told
        assert f"transition {number}: {longer.broker} accepts with t-0 (epoch 1, end 41, high 41)" in told
        assert f"transition {number} committed: t-0 (epoch 2, leader {longer.broker}, in sync {longer.broker}" in told
        await stopped(server, [*brokers.values(), old])

    caplog.set_level(logging.INFO, "octoloom.register")
    run(story)


def test_a_broker_that_is_back_hears_the_directory_first_and_then_that_it_may_lead() -> None:
    async def story() -> None:
        server = await started()
        brokers = {broker.broker: broker for broker in await joined(server, "a#1", "b#1")}
        await brokers["a#1"].client.request(MakeTopic(0, "t", 1, 1))
        await until(lambda: all(broker.leader("t") for broker in brokers.values()))
        old = brokers.pop(brokers["a#1"].leader("t"))
        [other] = brokers.values()
        await asyncio.sleep(LOG_CONFIG.form_ms / 1000)
        old.kill()
        await until(lambda: old.broker not in other.directory.brokers)
        new = Broker(old.broker.replace("#1", "#2"), server.address)
        await until(lambda: new.leader("t") == other.leader("t") == new.broker)
        assert new.heard == ["-", "LogDirectory", "Announced", "LogNews"]
        await stopped(server, [old, other, new])

    run(story)


def test_a_broker_that_wants_to_go_hands_over_first() -> None:
    async def story() -> None:
        server = await started()
        brokers = {broker.broker: broker for broker in await joined(server, "a#1", "b#1")}
        await brokers["a#1"].client.request(MakeTopic(0, "t", 1, 2))
        await until(lambda: all(broker.leader("t") for broker in brokers.values()))
        leaving = brokers[brokers["a#1"].leader("t")]
        leaving.client.say(Leave())
        await until(lambda: leaving.leader("t") not in ("", leaving.broker))
        assert leaving.client.connected
        await stopped(server, list(brokers.values()))

    run(story)


def test_the_register_comes_back_with_what_it_knew_and_leaders_stay(tmp_path: Path) -> None:
    async def story() -> None:
        server = await started(tmp_path / "register.db")
        brokers = await joined(server, "a#1", "b#1", "c#1")
        await brokers[0].client.request(MakeTopic(0, "t", 5, 3))
        first = await brokers[0].client.allot(10)
        before, port = server.log_directory(), server.port
        await server.stop()
        await until(lambda: not any(broker.client.connected for broker in brokers))
        lost = await brokers[0].client.request(MakeTopic(0, "u"))
        assert lost.error == ErrorCode.NOT_CONTROLLER
        waiting = asyncio.ensure_future(brokers[0].client.allot(10))
        server = await started(tmp_path / "register.db", port)
        assert server.log_directory() == before
        assert (await waiting).first >= first.first + first.count
        await until(lambda: all(broker.client.connected for broker in brokers))
        await asyncio.sleep(0.5)
        assert server.log_directory().partitions == before.partitions == (await ask_log(server.address)).partitions
        await stopped(server, brokers)

    run(story)


def test_producer_ids_are_never_given_twice(tmp_path: Path) -> None:
    async def story() -> None:
        server = await started(tmp_path / "register.db")
        brokers = await joined(server, "a#1", "b#1")
        allotted = await asyncio.gather(*(brokers[n % 2].client.allot(100) for n in range(20)))
        given = [first.first + step for first in allotted for step in range(first.count)]
        assert len(set(given)) == len(given) == 2000
        await stopped(server, brokers)

    run(story)


def test_a_question_that_was_under_way_when_the_register_went_is_answered_with_not_known() -> None:
    async def story() -> None:
        async def on_client(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            """A register that welcomes, reads the question, and dies."""
            writer.write(encode_frame(LogDirectory(1, {}, {}, [])))
            while (data := await reader.read(10_000)) and b"topic" not in data:
                pass
            writer.close()

        async def on_ignored(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            while await reader.read(10_000):
                pass
            writer.close()

        server = await asyncio.start_server(on_client, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        broker = Broker("a#1", f"127.0.0.1:{port}")
        await until(lambda: "LogDirectory" in broker.heard)
        answer = await broker.client.request(MakeTopic(0, "t"))
        assert answer.error == ErrorCode.REQUEST_TIMED_OUT
        assert "is not known" in answer.detail
        quiet = await asyncio.start_server(on_ignored, "127.0.0.1", 0)
        slow = Broker("a#1", f"127.0.0.1:{quiet.sockets[0].getsockname()[1]}")
        await until(lambda: slow.client.connected)
        assert (await slow.client.request(MakeTopic(0, "t"), timeout_s=0.05)).error == ErrorCode.REQUEST_TIMED_OUT
        for each in (broker, slow):
            await each.client.stop()
        server.close()
        quiet.close()

    run(story)


def test_an_outdated_broker_is_told_and_stops_trying() -> None:
    async def story() -> None:
        server = await started()
        [old] = await joined(server, "a#1")
        [new] = await joined(server, "a#2")
        await until(lambda: [declined.code for declined in old.declined] == ["outdated"])
        assert old.client.line.task is not None
        await until(old.client.line.task.done)
        assert new.directory.brokers["a#2"].id == 1, "a name keeps its number"
        await stopped(server, [old, new])

    run(story)


def test_a_newer_connection_of_the_same_broker_replaces_the_older_without_a_transition() -> None:
    async def story() -> None:
        server = await started()
        first, other = await joined(server, "a#1", "b#1")
        await first.client.request(MakeTopic(0, "t", 4, 2))
        before = server.log_directory()
        first.client.line.task.cancel()  # type: ignore[union-attr]
        [second] = await joined(server, "a#1")
        await until(lambda: not first.client.connected)
        await asyncio.sleep(0.4)
        assert server.log_directory().partitions == before.partitions
        assert "Announced" not in other.heard
        await stopped(server, [second, other, first])

    run(story)


def test_whoever_follows_is_told_everything_without_enlisting() -> None:
    async def story() -> None:
        server = await started()
        told: list[Answer] = []
        follower = RegisterLine(server.address, lambda: [AskLog(follow=True)], told.append)
        follower.start()
        once: list[Answer] = []
        asker = RegisterLine(server.address, lambda: [AskLog()], once.append)
        asker.start()
        await until(lambda: bool(told) and bool(once))
        brokers = await joined(server, "a#1", "b#1")
        await brokers[0].client.request(MakeTopic(0, "t"))
        mirror = broker_directory.Directory()
        assert isinstance(told[0], LogDirectory)
        mirror.on_directory(told[0])
        await until(lambda: isinstance(told[-1], LogNews) and "t" in told[-1].topics)
        for news in told[1:]:
            assert isinstance(news, LogNews)
            assert news.revision == mirror.revision + 1
            mirror.on_news(news)
        assert same(mirror, server.log_directory())
        assert len(once) == 1
        await follower.stop()
        await asker.stop()
        await stopped(server, brokers)

    run(story)


def test_a_change_waits_for_a_broker_that_does_not_take_it_up_until_its_time_is_over() -> None:
    async def story() -> None:
        server = await started()
        [quick] = await joined(server, "a#1")
        slow = Broker("b#1", server.address, takes=False)
        await until(lambda: "b#1" in quick.directory.brokers)
        done = await quick.client.request(MakeTopic(0, "t"), timeout_s=0.5)
        assert done.error == ErrorCode.REQUEST_TIMED_OUT
        assert "b#1 did not take it up in time" in done.detail
        assert "t" in server.log_directory().topics
        asking = asyncio.create_task(quick.client.request(MakeTopic(0, "t"), timeout_s=PATIENCE_S))
        slow.takes = True
        slow.client.say(Taken(server.log_directory().revision))
        assert (await asking).error == ErrorCode.TOPIC_ALREADY_EXISTS
        await stopped(server, [quick, slow])

    run(story)


def test_nothing_that_is_not_saved_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def story() -> None:
        server = await started(tmp_path / "register.db")
        [broker] = await joined(server, "a#1")

        def broken(_directory: Directory | None, _steps: Sequence[Persist]) -> None:
            raise StoreError("the disk is full")

        monkeypatch.setattr(server._store, "save", broken)
        answer = await broker.client.request(MakeTopic(0, "t"))
        assert answer.error == ErrorCode.REQUEST_TIMED_OUT
        assert server.failed is not None
        with pytest.raises(StoreError, match="full"):
            await asyncio.wait_for(server.failed, PATIENCE_S)
        assert broker.directory.topics == {}
        await stopped(server, [broker])
        monkeypatch.undo()
        server = await started(tmp_path / "register.db")
        assert server.log_directory().topics == {}
        await server.stop()

    run(story)


def test_all_that_came_in_one_tick_is_one_transaction(tmp_path: Path) -> None:
    async def story() -> None:
        server = await started(tmp_path / "register.db")
        [broker] = await joined(server, "a#1")
        said: list[str] = []
        assert server._store is not None
        server._store._database.set_trace_callback(said.append)
        await asyncio.gather(*(broker.client.request(MakeTopic(0, f"t{n}", 50, 1)) for n in range(20)))
        commits = sum(text.startswith("COMMIT") for text in said)
        assert 1 <= commits <= 3
        assert len(server.log_directory().partitions) == 1000
        await stopped(server, [broker])

    run(story)


BROKER = EnlistBroker(BrokerAddress("a#1", "127.0.0.1", 1, "disk"))
LINK = Enlist(LinkAddress("a#1", "127.0.0.1:1", "ws://127.0.0.1:2"))


@pytest.mark.parametrize(
    "said",
    [
        [BROKER, Ready("c0", 1)],
        [BROKER, LINK],
        [LINK, Accept(1, [])],
        [LINK, BROKER],
        [ProposeInSync([])],
        [BROKER, msgspec.structs.replace(BROKER, address=BrokerAddress("b#1", "127.0.0.1", 1, "disk"))],
    ],
)
def test_who_says_what_is_not_his_to_say_is_hung_up_on(said: list[Request]) -> None:
    async def story() -> None:
        server = await started()
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        for message in said:
            writer.write(encode_frame(message))
        async with asyncio.timeout(PATIENCE_S):
            while await reader.read(100_000):
                pass
        writer.close()
        [broker] = await joined(server, "c#1")
        await stopped(server, [broker])

    run(story)


def test_a_register_that_lost_its_memory_is_found_out() -> None:
    async def story() -> None:
        server = await started()
        [broker] = await joined(server, "a#1")
        port = server.port
        await server.stop()
        server = await started(port=port)
        await until(lambda: [declined.code for declined in broker.declined][:1] == ["lost-register"])
        assert server.log_directory().brokers == {}
        await stopped(server, [broker])

    run(story)


def test_links_and_brokers_share_a_register() -> None:
    async def story() -> None:
        server = await started()
        told: list[Directory] = []
        link = RegisterClient(server.address, told.append, lambda: LINK)
        link.start()
        brokers = await joined(server, "a#1", "b#1")
        await until(lambda: bool(told) and "c0" in told[-1].views)
        assert isinstance(await brokers[0].client.request(MakeTopic(0, "t")), AdminDone)
        assert list(server.directory().links) == ["a#1"]
        await link.stop()
        await stopped(server, brokers)

    run(story)
