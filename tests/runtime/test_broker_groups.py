"""Consumer groups with real consumers, and every version of every group request by hand."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any, TypeVar

import aiokafka  # type: ignore[import-untyped]
import pytest
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]
from kafka import KafkaConsumer  # type: ignore[import-untyped]

from octoloom.core.topic_admin import OFFSETS_TOPIC
from octoloom.runtime.directory_answers import OFFSETS_PARTITIONS, place_of
from octoloom.runtime.group_host import GroupHost
from octoloom.wire.kafka.apis import SERVED, Api
from octoloom.wire.kafka.errors import ErrorCode
from tests.runtime.inner_log import InnerLog, Line, inner_log, line
from tests.waiting import PATIENCE_S, until

T = TypeVar("T")
RECORDS = 300


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Iterator[InnerLog]:
    with inner_log(tmp_path_factory.mktemp("log"), brokers=3) as made:
        yield made


def make_topic(log: InnerLog, topic: str, partitions: int = 4) -> None:
    """With `RECORDS` records in it."""
    admin = AdminClient({"bootstrap.servers": log.address})
    admin.create_topics([NewTopic(topic, partitions, len(log.brokers))])[topic].result(PATIENCE_S)
    fill(log, topic)


def fill(log: InnerLog, topic: str) -> None:
    producer = Producer({"bootstrap.servers": log.address, "enable.idempotence": True})
    for number in range(RECORDS):
        producer.produce(topic, key=str(number), value=str(number))
    assert producer.flush(PATIENCE_S) == 0


def consumer(log: InnerLog, group: str, **more: Any) -> Consumer:
    settings = {
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
        "session.timeout.ms": 6000,
        "heartbeat.interval.ms": 200,
        "log_level": 0,
    }
    return Consumer({"bootstrap.servers": log.address, "group.id": group, **settings, **more})


def again(call: Callable[[], T]) -> T:
    """What comes out once there is a coordinator: librdkafka passes some of the errors in between on to the caller."""
    results: list[T] = []

    def works() -> bool:
        with contextlib.suppress(KafkaException):
            results.append(call())
        return bool(results)

    until(works)
    return results[0]


def read(count: int, *consumers: Consumer) -> Counter[str]:
    """What these consumers read, until it is so many records."""
    seen: Counter[str] = Counter()
    end = time.monotonic() + PATIENCE_S
    while seen.total() < count and time.monotonic() < end:
        for each in consumers:
            for message in each.consume(100, 0.02):
                if message.error() is None:
                    seen[(message.value() or b"").decode()] += 1
    return seen


def coordinator_of(log: InnerLog, group: str) -> int:
    place = place_of(group, OFFSETS_PARTITIONS)
    until(lambda: log.call(lambda: any(broker.state.directory.leader(place) for broker in log.brokers.values())))
    leader = log.call(lambda: next(iter(log.brokers.values())).state.directory.leader(place))
    assert leader is not None
    return leader.id


def host_of(log: InnerLog, group: str) -> GroupHost:
    """Called on the cluster's thread."""
    number = place_of(group, OFFSETS_PARTITIONS)[1]
    return next(broker._groups._hosts[number] for broker in log.brokers.values() if number in broker._groups._hosts)


def everything() -> Counter[str]:
    return Counter(str(number) for number in range(RECORDS))


# Real consumers.


def test_two_confluent_consumers_share_and_the_second_goes_on_where_the_first_stopped(log: InnerLog) -> None:
    make_topic(log, "shared")
    first, second = consumer(log, "team"), consumer(log, "team")
    for each in (first, second):
        each.subscribe(["shared"])

    def both_have_some() -> bool:
        for each in (first, second):
            each.poll(0.05)
        return sorted(len(each.assignment()) for each in (first, second)) == [2, 2]

    # Polling moves on, so begin again once everybody has his partitions.
    until(both_have_some)
    for each in (first, second):
        for partition in each.assignment():
            # librdkafka refuses for as long as it has not begun to fetch there.
            place = TopicPartition(partition.topic, partition.partition, 0)
            again(lambda each=each, place=place: each.seek(place))  # type: ignore[misc]
    assert read(RECORDS, first, second) == everything()
    for each in (first, second):
        each.commit(asynchronous=False)
    second.close()
    until(lambda: first.poll(0.05) is None and len(first.assignment()) == 4)
    fill(log, "shared")
    assert read(RECORDS, first) == everything(), "what was committed is not read again, nothing is left out"
    first.close()


def test_offsets_survive_the_coordinator(tmp_path: Path) -> None:
    with inner_log(tmp_path, brokers=3) as log:
        make_topic(log, "kept")
        member = consumer(log, "stayers")
        member.subscribe(["kept"])
        assert read(RECORDS, member) == everything()
        member.commit(asynchronous=False)
        before = coordinator_of(log, "stayers")
        log.stop(before)
        fill(log, "kept")
        assert read(RECORDS, member) == everything()

        again(lambda: member.commit(asynchronous=False))
        log.start(before)
        for number in [number for number in log.brokers if number != before]:
            log.stop(number)  # now the one that missed a part of the story, or nobody, coordinates
            log.start(number)
        places = [TopicPartition("kept", number) for number in range(4)]
        offsets = again(lambda: member.committed(places, PATIENCE_S))
        assert sum(offset.offset for offset in offsets) == 2 * RECORDS
        member.close()


def test_aiokafka_joins_commits_and_comes_back(log: InnerLog) -> None:
    make_topic(log, "async")

    async def story() -> None:
        def member() -> aiokafka.AIOKafkaConsumer:
            return aiokafka.AIOKafkaConsumer(
                "async",
                bootstrap_servers=log.address,
                group_id="asyncs",
                auto_offset_reset="earliest",
                enable_auto_commit=False,
            )

        async def read_some(each: aiokafka.AIOKafkaConsumer, count: int) -> Counter[str]:
            seen: Counter[str] = Counter()
            async with asyncio.timeout(PATIENCE_S):
                while seen.total() < count:
                    for messages in (await each.getmany(timeout_ms=200)).values():
                        seen.update((message.value or b"").decode() for message in messages)
            return seen

        first = member()
        await first.start()
        assert await read_some(first, RECORDS) == everything()
        await first.commit()
        await first.stop()
        await asyncio.to_thread(fill, log, "async")
        second = member()
        await second.start()
        assert await read_some(second, RECORDS) == everything()
        await second.stop()

    asyncio.run(story())


def test_kafka_python_joins_commits_and_comes_back(log: InnerLog) -> None:
    make_topic(log, "python")

    def member() -> Any:
        return KafkaConsumer(
            "python",
            bootstrap_servers=log.address,
            group_id="pythons",
            auto_offset_reset="earliest",
            enable_auto_commit=False,
        )

    for _ in range(2):
        each, seen = member(), Counter[str]()
        end = time.monotonic() + PATIENCE_S
        while seen.total() < RECORDS and time.monotonic() < end:
            for messages in each.poll(200).values():
                seen.update(message.value.decode() for message in messages)
        assert seen == everything()
        each.commit()
        each.close()
        fill(log, "python")


def test_kcat_consumes_in_a_group(log: InnerLog) -> None:
    kcat = shutil.which("kcat") or shutil.which("kafkacat")
    if kcat is None:
        pytest.skip("kcat is not installed")
    make_topic(log, "cats")
    command = [kcat, "-b", log.address, "-X", "auto.offset.reset=earliest", "-c", str(RECORDS), "-G", "cats", "cats"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=True)
    assert Counter(done.stdout.split()) == everything()


def test_groups_are_listed_described_and_deleted(log: InnerLog) -> None:
    make_topic(log, "admin")
    admin = AdminClient({"bootstrap.servers": log.address})
    member = consumer(log, "watched", **{"client.id": "me"})
    member.subscribe(["admin"])
    read(RECORDS, member)
    member.commit(asynchronous=False)
    listed = {group.group_id: group.state.name for group in admin.list_consumer_groups().result(PATIENCE_S).valid}
    assert listed["watched"] == "STABLE"
    described = admin.describe_consumer_groups(["watched"])["watched"].result(PATIENCE_S)
    [seen] = described.members
    assert (described.coordinator.id, seen.client_id) == (coordinator_of(log, "watched"), "me")
    assert len(seen.assignment.topic_partitions) == 4
    with pytest.raises(KafkaException) as refused:
        admin.delete_consumer_groups(["watched"])["watched"].result(PATIENCE_S)
    assert refused.value.args[0].code() == ErrorCode.NON_EMPTY_GROUP
    member.close()
    asked = [ConsumerGroupTopicPartitions("watched")]
    offsets = admin.list_consumer_group_offsets(asked)["watched"].result(PATIENCE_S).topic_partitions
    assert sum(offset.offset for offset in offsets) == RECORDS
    admin.delete_consumer_groups(["watched"])["watched"].result(PATIENCE_S)
    listed = {group.group_id: group.state.name for group in admin.list_consumer_groups().result(PATIENCE_S).valid}
    assert "watched" not in listed


def test_offsets_go_with_their_topic(log: InnerLog) -> None:
    make_topic(log, "short-lived")
    admin = AdminClient({"bootstrap.servers": log.address})
    member = consumer(log, "mourners")
    member.commit(offsets=[TopicPartition("short-lived", 0, 5)], asynchronous=False)
    [offset] = member.committed([TopicPartition("short-lived", 0)], PATIENCE_S)
    assert offset.offset == 5
    admin.delete_topics(["short-lived"])["short-lived"].result(PATIENCE_S)
    admin.create_topics([NewTopic("short-lived", 4, 3)])["short-lived"].result(PATIENCE_S)

    def forgotten() -> bool:
        [offset] = member.committed([TopicPartition("short-lived", 0)], PATIENCE_S)
        return offset.offset < 0

    until(forgotten)
    member.close()


def test_nobody_but_coordinators_writes_to_their_topic(log: InnerLog) -> None:
    with line(log.address_of(1)) as broker:
        broker.say(Api.FIND_COORDINATOR, 2, key="any", key_type=0)
    producer = Producer({"bootstrap.servers": log.address, "log_level": 0})
    errors: list[int] = []
    producer.produce(
        OFFSETS_TOPIC, b"not a record", on_delivery=lambda error, _: errors.append(error.code() if error else 0)
    )
    producer.flush(PATIENCE_S)
    assert errors == [ErrorCode.INVALID_TOPIC]


# By hand, in every version.


def versions(api: int) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("version", range(SERVED[api].first, SERVED[api].last + 1))


def capped(api: int, version: int) -> int:
    """This version of an API, or the nearest that is served."""
    return min(max(version, SERVED[api].first), SERVED[api].last)


class ByHand:
    """One member of one group, all of whose requests are in the version nearest to the one it was made with."""

    def __init__(self, coordinator: Line, group: str, version: int) -> None:
        self.line, self.group, self.version = coordinator, group, version
        self.member, self.generation = "", -1

    def say(self, api: int, **values: Any) -> Any:
        return self.line.say(api, capped(api, self.version), group_id=self.group, **values)

    def join(self) -> Any:
        timeouts = {"session_timeout": timedelta(seconds=10), "rebalance_timeout": timedelta(seconds=10)}
        protocols = [{"name": "range", "metadata": b"what I want"}]
        answer = self.say(
            Api.JOIN_GROUP, member_id=self.member, protocol_type="consumer", protocols=protocols, **timeouts
        )
        if answer.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            assert capped(Api.JOIN_GROUP, self.version) >= 4
            self.member = answer.member_id
            return self.join()
        self.member, self.generation = answer.member_id, answer.generation_id
        return answer

    def sync(self, assignment: bytes) -> Any:
        assignments = [{"member_id": self.member, "assignment": assignment}]
        more = {"protocol_type": "consumer", "protocol_name": "range"}
        return self.say(
            Api.SYNC_GROUP,
            generation_id=self.generation,
            member_id=self.member,
            assignments=assignments,
            **more,
        )

    def beat(self) -> int:
        answer = self.say(Api.HEARTBEAT, generation_id=self.generation, member_id=self.member)
        return int(answer.error_code)

    def commit(self, *offsets: tuple[str, int, int]) -> list[int]:
        topics = [
            {
                "name": topic,
                "partitions": [
                    {
                        "partition_index": partition,
                        "committed_offset": offset,
                        "committed_leader_epoch": 1,
                        "committed_metadata": "note",
                    }
                ],
            }
            for topic, partition, offset in offsets
        ]
        identity = {"member_id": self.member, "generation_id_or_member_epoch": self.generation}
        answer = self.say(Api.OFFSET_COMMIT, topics=topics, **identity)
        return [int(part.error_code) for topic in answer.topics for part in topic.partitions]

    def committed(self, *places: tuple[str, int] | None) -> tuple[int, dict[tuple[str, int], int]]:
        version = capped(Api.OFFSET_FETCH, self.version)
        topics = [{"name": topic, "partition_indexes": [number]} for topic, number in places]  # type: ignore[misc]
        asked = {"topics": topics or None, "groups": [{"group_id": self.group, "topics": topics or None}]}
        answer = self.say(Api.OFFSET_FETCH, require_stable=True, **asked)
        group = answer.groups[0] if version >= 8 else answer
        parts = [(topic.name, part) for topic in group.topics for part in topic.partitions]
        error = group.error_code if version >= 2 else max((part.error_code for _, part in parts), default=0)
        return int(error), {(topic, part.partition_index): part.committed_offset for topic, part in parts}

    def leave(self) -> int:
        answer = self.say(Api.LEAVE_GROUP, member_id=self.member, members=[{"member_id": self.member}])
        if capped(Api.LEAVE_GROUP, self.version) >= 3:
            return int(answer.error_code or answer.members[0].error_code)
        return int(answer.error_code)


@pytest.mark.parametrize("version", range(10))
def test_a_members_life_in_every_version(log: InnerLog, version: int) -> None:
    group = f"by-hand-{version}"
    with line(log.address_of(1)) as any_broker:
        find = capped(Api.FIND_COORDINATOR, version)
        values = {"key": group, "coordinator_keys": [group], "key_type": 0}
        found = any_broker.say(Api.FIND_COORDINATOR, find, **values)
        found = found.coordinators[0] if find >= 4 else found
        assert (found.error_code, found.node_id) == (0, coordinator_of(log, group))
    hand = f"hand-{version}"
    make_topic(log, hand)
    until(lambda: log.call(lambda: host_of(log, group).refusal) == 0)
    with line(f"{found.host}:{found.port}") as coordinator:
        me = ByHand(coordinator, group, version)
        joined = me.join()
        assert (joined.error_code, joined.leader, joined.generation_id) == (0, me.member, 1)
        assert [member.metadata for member in joined.members] == [b"what I want"]
        assert joined.protocol_name == "range"
        assert me.sync(b"all of it").assignment == b"all of it"
        assert me.beat() == 0
        assert me.commit((hand, 0, 11), (hand, 1, 12), ("no such", 0, 1)) == [
            0,
            0,
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ]
        assert me.committed((hand, 0), (hand, 2)) == (0, {(hand, 0): 11, (hand, 2): -1})
        if version >= 2:
            assert me.committed() == (0, {(hand, 0): 11, (hand, 1): 12})
        stranger = ByHand(coordinator, group, version)
        stranger.member, stranger.generation = "nobody", 1
        unknown = ErrorCode.UNKNOWN_MEMBER_ID
        assert (stranger.beat(), stranger.leave(), stranger.commit((hand, 0, 1))) == (unknown, unknown, [unknown])
        me.generation = 7
        assert me.beat() == ErrorCode.ILLEGAL_GENERATION
        me.generation = 1
        assert me.leave() == 0
        assert me.beat() == unknown


@pytest.mark.parametrize("version", range(10))
def test_a_broker_that_does_not_coordinate_says_so(log: InnerLog, version: int) -> None:
    group = f"elsewhere-{version}"
    with line(log.address_of(1)) as any_broker:
        any_broker.say(Api.FIND_COORDINATOR, 2, key=group, key_type=0)
    other = next(number for number in log.brokers if number != coordinator_of(log, group))
    with line(log.address_of(other)) as wrong:
        me = ByHand(wrong, group, version)
        not_here = ErrorCode.NOT_COORDINATOR
        assert me.join().error_code == me.sync(b"").error_code == me.beat() == me.leave() == not_here
        assert me.commit(("hand", 0, 1)) == [not_here]
        assert me.committed(("hand", 0))[0] == not_here
        groups = wrong.say(Api.DESCRIBE_GROUPS, capped(Api.DESCRIBE_GROUPS, version), **described(group)).groups
        assert [each.error_code for each in groups] == [not_here]
        deleted = wrong.say(Api.DELETE_GROUPS, capped(Api.DELETE_GROUPS, version), groups_names=[group]).results
        assert [each.error_code for each in deleted] == [not_here]


def described(*groups: str) -> dict[str, Any]:
    return {"groups": list(groups), "include_authorized_operations": False}


@pytest.mark.parametrize("version", range(6))
def test_groups_are_looked_at_and_deleted_in_every_version(log: InnerLog, version: int) -> None:
    group = f"looked-at-{version}"
    with line(log.address_of(1)) as any_broker:
        any_broker.say(Api.FIND_COORDINATOR, 2, key=group, key_type=0)
    number = coordinator_of(log, group)
    until(lambda: log.call(lambda: host_of(log, group).refusal) == 0)
    with line(log.address_of(number)) as coordinator:
        me = ByHand(coordinator, group, version)
        me.join()
        me.sync(b"mine")
        both = coordinator.say(Api.DESCRIBE_GROUPS, capped(Api.DESCRIBE_GROUPS, version), **described(group)).groups
        [seen] = both
        assert (seen.error_code, seen.group_state, seen.protocol_type, seen.protocol_data) == (
            0,
            "Stable",
            "consumer",
            "range",
        )
        assert [(m.member_id, m.client_id, m.member_assignment) for m in seen.members] == [(me.member, "line", b"mine")]
        listing = capped(Api.LIST_GROUPS, version)
        listed = coordinator.say(Api.LIST_GROUPS, listing, states_filter=["stable"])
        assert group in [each.group_id for each in listed.groups]
        if listing >= 4:
            listed = coordinator.say(Api.LIST_GROUPS, listing, states_filter=["Empty"])
            assert group not in [each.group_id for each in listed.groups]

        def delete(*names: str) -> dict[str, int]:
            answer = coordinator.say(Api.DELETE_GROUPS, capped(Api.DELETE_GROUPS, version), groups_names=list(names))
            return {each.group_id: int(each.error_code) for each in answer.results}

        assert delete(group) == {group: ErrorCode.NON_EMPTY_GROUP}
        assert me.leave() == 0
        assert delete(group) == {group: 0}
        assert delete(group) == {group: ErrorCode.GROUP_ID_NOT_FOUND}
        assert delete() == {}
        [dead] = coordinator.say(Api.DESCRIBE_GROUPS, capped(Api.DESCRIBE_GROUPS, version), **described(group)).groups
        assert (dead.error_code, dead.group_state) == (0, "Dead")


# The log of the groups.


def test_the_groups_log_is_written_anew_before_it_grows_too_long(tmp_path: Path) -> None:
    with inner_log(tmp_path, brokers=1) as log:
        make_topic(log, "busy", partitions=2)
        groups = log.call(lambda: log.brokers[1]._groups)
        groups._log_bytes_max = 20_000
        place = place_of("busy", OFFSETS_PARTITIONS)
        with line(log.address_of(1)) as coordinator:
            coordinator.say(Api.FIND_COORDINATOR, 2, key="busy", key_type=0)
            until(lambda: log.call(lambda: host_of(log, "busy").refusal) == 0)
            me = ByHand(coordinator, "busy", 7)
            me.join()
            me.sync(b"mine")
            assert me.commit(("busy", 1, 77)) == [0]
            for number in range(600):
                assert me.commit(("busy", 0, number)) == [0]
            start, end = log.call(lambda: _extent(log, place))
            assert 100 < start < end < start + 600
            assert log.call(lambda: host_of(log, "busy")._log_bytes) < 30_000
        log.stop(1)
        log.start(1)
        until(lambda: log.call(lambda: bool(log.brokers[1]._groups._hosts)))
        until(lambda: log.call(lambda: host_of(log, "busy").refusal) == 0)
        with line(log.address_of(1)) as coordinator:
            again = ByHand(coordinator, "busy", 7)
            assert again.committed() == (0, {("busy", 0): 599, ("busy", 1): 77})
            again.member, again.generation = me.member, me.generation
            assert again.beat() == 0, "the member is still in"


def _extent(log: InnerLog, place: tuple[str, int]) -> tuple[int, int]:
    partition = log.brokers[1].core.partitions[place]
    return partition.start, partition.end


def test_an_empty_groups_log_is_written_anew_too(tmp_path: Path) -> None:
    with inner_log(tmp_path, brokers=1) as log:
        make_topic(log, "empty", partitions=1)
        groups = log.call(lambda: log.brokers[1]._groups)
        groups._log_bytes_max = 5_000
        place = place_of("gone", OFFSETS_PARTITIONS)
        with line(log.address_of(1)) as coordinator:
            coordinator.say(Api.FIND_COORDINATOR, 2, key="gone", key_type=0)
            until(lambda: log.call(lambda: host_of(log, "gone").refusal) == 0)
            for _ in range(60):
                me = ByHand(coordinator, "gone", 7)
                assert me.commit(("empty", 0, 5)) == [0]
                coordinator.say(Api.DELETE_GROUPS, 2, groups_names=["gone"])
            until(lambda: log.call(lambda: _extent(log, place)[0]) > 0)
            assert me.committed() == (0, {})


def test_while_the_log_is_read_members_are_asked_to_wait(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gate = asyncio.Event()
    read_log = GroupHost._read

    async def slow(host: GroupHost) -> Any:
        await gate.wait()
        return await read_log(host)

    monkeypatch.setattr(GroupHost, "_read", slow)
    with inner_log(tmp_path, brokers=1) as log, line(log.address_of(1)) as coordinator:
        coordinator.say(Api.FIND_COORDINATOR, 2, key="early", key_type=0)
        until(lambda: log.call(lambda: len(log.brokers[1]._groups._hosts)) == OFFSETS_PARTITIONS)
        me = ByHand(coordinator, "early", 7)
        assert me.join().error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        listed = coordinator.say(Api.LIST_GROUPS, 2)
        assert listed.error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        log.call(gate.set)
        until(lambda: log.call(lambda: host_of(log, "early").refusal) == 0)
        assert me.join().error_code == 0


def test_a_groups_log_that_cannot_be_read_is_not_served_and_the_rest_is(tmp_path: Path) -> None:
    with inner_log(tmp_path, brokers=1) as log:
        with line(log.address_of(1)) as coordinator:
            coordinator.say(Api.FIND_COORDINATOR, 2, key="x", key_type=0)
        until(lambda: log.call(lambda: len(log.brokers[1]._groups._hosts)) == OFFSETS_PARTITIONS)
        bad = next(name for name in map(str, range(100)) if place_of(name, OFFSETS_PARTITIONS)[1] == 3)
        good = next(name for name in map(str, range(100)) if place_of(name, OFFSETS_PARTITIONS)[1] == 4)
        done: list[int] = []
        log.call(lambda: host_of(log, bad)._append([(b"not a key", b"")], lambda error, _: done.append(error)))
        until(lambda: done == [0])
        log.stop(1)
        log.start(1)
        until(lambda: log.call(lambda: len(log.brokers[1]._groups._hosts)) == OFFSETS_PARTITIONS)
        until(lambda: log.call(lambda: host_of(log, bad).refusal) == ErrorCode.COORDINATOR_NOT_AVAILABLE)
        until(lambda: log.call(lambda: host_of(log, good).refusal) == 0)
        with line(log.address_of(1)) as coordinator:
            assert ByHand(coordinator, bad, 7).join().error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
            assert ByHand(coordinator, good, 7).join().error_code == 0


def test_a_coordinator_whose_disk_spoils_the_log_leaves_the_groups_to_another(tmp_path: Path) -> None:
    with inner_log(tmp_path, brokers=3) as log:
        make_topic(log, "spoilt")
        member = consumer(log, "stoics")
        for each in (1, 2, 3):
            member.commit(offsets=[TopicPartition("spoilt", 0, each)], asynchronous=False)
        number, place = coordinator_of(log, "stoics"), place_of("stoics", OFFSETS_PARTITIONS)
        before = log.call(lambda: log.brokers[number].id)
        folder = log.call(lambda: log.brokers[number].state.replicas[place].log.path)
        segment = max(Path(folder).glob("*.log"), key=lambda path: path.stat().st_size)
        content = bytearray(segment.read_bytes())
        content[70] ^= 1
        segment.write_bytes(content)
        log.call(lambda: log.brokers[number]._groups.on_leadership_taken(place, 1))
        until(lambda: log.call(lambda: log.brokers[number].id) != before)
        [offset] = again(lambda: member.committed([TopicPartition("spoilt", 0)], PATIENCE_S))
        assert offset.offset == 3
        until(lambda: log.call(lambda: log.brokers[number].core.partitions[place].end) >= 3)
        member.close()
