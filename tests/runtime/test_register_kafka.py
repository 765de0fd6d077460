"""Kafka clients that know only the register find everything through it."""

from __future__ import annotations

import asyncio
import json
import shutil
import struct
from collections.abc import Callable, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient
from kio.static.protocol import RequestPayload

from octoloom.core.log_messages import MakeTopic
from octoloom.core.log_saved import Persist
from octoloom.core.register_messages import Directory
from octoloom.core.topic_admin import OFFSETS_TOPIC
from octoloom.runtime import register_kafka, register_logs
from octoloom.runtime.directory_answers import OFFSETS_PARTITIONS, place_of
from octoloom.runtime.frames import FramedConnection
from octoloom.runtime.register import RegisterServer
from octoloom.storage.register_store import RegisterStore, Step
from octoloom.wire.kafka.apis import SERVED, Api, correlation_of
from octoloom.wire.kafka.cold import decode_response, encode_request
from octoloom.wire.kafka.compose import compose_request
from octoloom.wire.kafka.errors import ErrorCode
from tests.runtime.test_register_logs import CONFIG, joined, run, started, stopped
from tests.waiting import PATIENCE_S


async def asked(server: RegisterServer, *requests: RequestPayload) -> list[Any]:
    """The answers to these requests, said all at once on one connection."""
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    writer.write(b"".join(encode_request(request, number, "me") for number, request in enumerate(requests)))
    answers = []
    async with asyncio.timeout(PATIENCE_S):
        for number, request in enumerate(requests):
            [size] = struct.unpack(">i", await reader.readexactly(4))
            frame = memoryview(await reader.readexactly(size))
            assert correlation_of(frame) == number
            answers.append(decode_response(request.__api_key__, request.__version__, frame))
    writer.close()
    return answers


def metadata(*topics: str, makes: bool = True) -> RequestPayload:
    names = [{"name": topic, "topic_id": None} for topic in topics]
    may = {"allow_auto_topic_creation": makes, "include_topic_authorized_operations": False}
    return compose_request(Api.METADATA, 12, topics=names, **may)


def coordinator(key: str, key_type: int = 0) -> RequestPayload:
    return compose_request(Api.FIND_COORDINATOR, 3, key=key, key_type=key_type)


CLUSTER = compose_request(Api.DESCRIBE_CLUSTER, 1, include_cluster_authorized_operations=False)
VERSIONS = compose_request(Api.API_VERSIONS, 3, client_software_name="x", client_software_version="1")
PRODUCER = compose_request(Api.INIT_PRODUCER_ID, 4, transactional_id=None, transaction_timeout=timedelta(seconds=1))


async def in_thread(call: Callable[[], Any]) -> Any:
    return await asyncio.wait_for(asyncio.to_thread(call), PATIENCE_S)


def test_confluent_kafka_and_kcat_see_the_cluster_through_the_register() -> None:
    async def story() -> None:
        server = await started()
        brokers = await joined(server, "a#1", "b#1", "c#1")
        await brokers[0].client.request(MakeTopic(0, "moves", 6, 3))
        await brokers[0].client.request(MakeTopic(0, "other", 1, 1))
        client = AdminClient({"bootstrap.servers": server.address})
        seen = await in_thread(lambda: client.list_topics(timeout=PATIENCE_S))
        assert sorted(seen.brokers) == [1, 2, 3]
        assert {name: len(topic.partitions) for name, topic in seen.topics.items()} == {"moves": 6, "other": 1}
        for number, partition in seen.topics["moves"].partitions.items():
            state = brokers[0].state("moves", number)
            assert state is not None
            assert partition.leader == brokers[0].directory.brokers[state.leader].id
            assert sorted(partition.replicas) == sorted(partition.isrs) == [1, 2, 3]
        kcat = shutil.which("kcat") or shutil.which("kafkacat")
        if kcat is not None:
            command = [kcat, "-b", server.address, "-L", "-J"]
            process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
            output, _ = await asyncio.wait_for(process.communicate(), PATIENCE_S)
            told = json.loads(output)
            assert {topic["topic"]: len(topic["partitions"]) for topic in told["topics"]} == {"moves": 6, "other": 1}
            assert sorted(broker["id"] for broker in told["brokers"]) == [1, 2, 3]
        await stopped(server, brokers)

    run(story)


def test_a_topic_and_the_groups_topic_are_made_for_who_asks(tmp_path: Path) -> None:
    async def story() -> None:
        server = await started(tmp_path / "register.db")
        brokers = await joined(server, "a#1", "b#1", "c#1")
        many = compose_request(Api.FIND_COORDINATOR, 4, coordinator_keys=["team", "mates"])
        made, found, all_found, versions = await asked(server, metadata("new"), coordinator("team"), many, VERSIONS)
        assert [topic.error_code for topic in made.topics] == [0]
        assert found.error_code == 0
        assert all_found.coordinators[0].node_id == found.node_id
        directory = server.log_directory()
        assert sorted(directory.topics) == [OFFSETS_TOPIC, "new"]
        config = directory.topics[OFFSETS_TOPIC].config
        assert config["retention.ms"] == "-1"
        states = {(topic, number): state for topic, number, state in directory.partitions}
        for each in all_found.coordinators:
            leader = states[place_of(each.key, OFFSETS_PARTITIONS)].leader
            assert (each.node_id, each.error_code) == (directory.brokers[leader].id, 0)
        told = {each.api_key: (each.min_version, each.max_version) for each in versions.api_keys}
        assert told[Api.FETCH] == (SERVED[Api.FETCH].first, SERVED[Api.FETCH].last)
        await stopped(server, brokers)
        server = await started(tmp_path / "register.db")
        assert sorted(server.log_directory().topics) == [OFFSETS_TOPIC, "new"], "what was told was durable"
        await server.stop()

    run(story)


def test_what_may_not_be_made_is_not_made() -> None:
    async def story() -> None:
        server = RegisterServer(CONFIG, auto_create=False)
        await server.start()
        brokers = await joined(server, "a#1")
        by_server, by_client = await asked(server, metadata("x"), metadata("y", makes=False))
        unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert [by_server.topics[0].error_code, by_client.topics[0].error_code] == [unknown, unknown]
        assert server.log_directory().topics == {}
        await stopped(server, brokers)

    run(story)


def test_a_register_without_brokers_says_so() -> None:
    async def story() -> None:
        server = await started()
        found, no, never, cluster = await asked(
            server, coordinator("team"), coordinator("t", 1), coordinator("t", 9), CLUSTER
        )
        assert found.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert no.error_code == ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        assert never.error_code == ErrorCode.INVALID_REQUEST
        assert (cluster.brokers, cluster.controller_id) == ((), -1)
        await server.stop()

    run(story)


def test_who_asks_and_never_reads_is_hung_up_on() -> None:
    async def story() -> None:
        server = await started()
        [broker] = await joined(server, "a#1")
        assert (await broker.client.request(MakeTopic(0, "wide", 1000, 1))).error == 0
        question = encode_request(metadata("wide"), 1, "me")
        _, lazy = await asyncio.open_connection("127.0.0.1", server.port, limit=1)

        async def ask_on() -> None:
            while True:
                lazy.write(question * 10)
                await lazy.drain()
                await asyncio.sleep(0)

        with pytest.raises(ConnectionError):
            await asyncio.wait_for(ask_on(), PATIENCE_S)
        [answer] = await asked(server, metadata("wide"))
        assert len(answer.topics[0].partitions) == 1000
        await stopped(server, [broker])

    run(story)


def test_who_asks_before_the_brokers_came_waits_for_them() -> None:
    async def story() -> None:
        server = await started()
        early = asyncio.create_task(asked(server, metadata("new"), metadata("y", makes=False)))
        client = AdminClient({"bootstrap.servers": server.address})
        listing = asyncio.create_task(in_thread(lambda: client.list_topics(timeout=PATIENCE_S)))
        done, _ = await asyncio.wait([early, listing], timeout=0.3)
        assert not done
        brokers = await joined(server, "a#1")
        made, other = await early
        assert [broker.node_id for broker in made.brokers] == [1]
        assert [made.topics[0].error_code, other.topics[0].error_code] == [0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
        assert sorted((await listing).brokers) == [1]
        await stopped(server, brokers)

    run(story)


def test_producer_ids_from_the_register_and_from_brokers_never_meet() -> None:
    async def story() -> None:
        server = await started()
        [broker] = await joined(server, "a#1")
        answers = await asked(server, *[PRODUCER] * 5)
        given = [answer.producer_id for answer in answers]
        allotted = await broker.client.allot(100)
        assert len({*given, *range(allotted.first, allotted.first + allotted.count)}) == 105
        assert {answer.error_code for answer in answers} == {0}
        await stopped(server, [broker])

    run(story)


def test_producer_ids_are_on_the_disk_before_anybody_is_told_of_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A register that is killed after its answer comes back with what it has saved, and must not give them again."""
    saved: list[int] = []
    told: list[int] = []
    """How far the numbers on the disk reached when something was told."""
    save = RegisterStore.save

    def save_and_note(self: RegisterStore, directory: Directory | None, steps: Sequence[Step]) -> None:
        save(self, directory, steps)
        saved.extend(step.counters.producers for step in steps if isinstance(step, Persist))

    def note_and_send(connection: FramedConnection, frame: bytes) -> None:
        told.append(max(saved))
        connection.send(frame)

    async def story() -> None:
        server = await started(tmp_path / "register.db")
        [broker] = await joined(server, "a#1")
        monkeypatch.setattr(RegisterStore, "save", save_and_note)
        monkeypatch.setattr(register_kafka, "send", note_and_send)
        monkeypatch.setattr(register_logs, "send", note_and_send)
        saved.append(0)
        told.clear()
        [answer] = await asked(server, PRODUCER)
        assert answer.producer_id < told[-1], "a client that asked the register"
        told.clear()
        allotted = await broker.client.allot(100)
        assert allotted.first + allotted.count <= told[-1], "a broker"
        await stopped(server, [broker])

    run(story)


def test_who_wants_more_is_hung_up_on_and_others_are_served() -> None:
    async def story() -> None:
        server = await started()
        brokers = await joined(server, "a#1")
        for noise in (
            encode_request(compose_request(Api.LIST_GROUPS, 4, states_filter=[]), 1, "me"),
            b"\0\0\0\x0a" + struct.pack(">hhih", Api.METADATA, 99, 1, -1),
            b"\0\0\0\x0a" + struct.pack(">hhih", 77, 0, 1, -1),
            b"\0\0\0\x04\0\x03\0\0",
        ):
            reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
            writer.write(noise)
            async with asyncio.timeout(PATIENCE_S):
                assert await reader.read() == b""
            writer.close()
        [answer] = await asked(server, CLUSTER)
        assert [broker.broker_id for broker in answer.brokers] == [1]
        await stopped(server, brokers)

    run(story)
