"""A log in memory with brokers that misbehave on demand: they speak real Kafka bytes, made and read by kio.

A real broker cannot be told to write a batch and lose the answer, or to move a partition between two requests. This
can. It keeps the promises that a client relies on (duplicates and gaps of a producer are noticed) and nothing else.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter, defaultdict, deque
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from kio.index import load_payload_module
from kio.static.constants import EntityType

from octoloom.wire.kafka import cold
from octoloom.wire.kafka.apis import Api, parse_header
from octoloom.wire.kafka.batches import check_batches, read_header, stamp
from octoloom.wire.kafka.client_messages import ASKED, TopicPartition
from octoloom.wire.kafka.errors import ErrorCode
from octoloom.wire.kafka.records import Record, read_records

SERVED = {**ASKED, Api.CREATE_TOPICS: 4, Api.DELETE_TOPICS: 3}
NO_THROTTLE = timedelta(0)


def entities(api: int) -> Any:
    return load_payload_module(api, SERVED[api], EntityType.response)


@dataclass
class TinyPartition:
    leader: int
    epoch: int = 1
    start: int = 0
    end: int = 0
    batches: list[bytes] = field(default_factory=list)
    producers: dict[int, list[tuple[int, int, int]]] = field(default_factory=dict)
    """Producer → its last batches as (first sequence, the one after the last, offset)."""

    def append(self, batch: bytes) -> tuple[int, int]:
        """(error, base offset)"""
        [(_, header)] = check_batches(memoryview(batch))
        first, after = header.base_sequence, (header.base_sequence + header.count) % (1 << 31)
        if header.producer_id >= 0:
            known = self.producers.setdefault(header.producer_id, [])
            for earlier in known[-5:]:
                if earlier[:2] == (first, after):
                    return ErrorCode.NONE, earlier[2]
            if first != (known[-1][1] if known else 0):
                return ErrorCode.OUT_OF_ORDER_SEQUENCE, -1
            known.append((first, after, self.end))
        stamped = bytearray(batch)
        stamp(stamped, 0, self.end, self.epoch)
        self.batches.append(bytes(stamped))
        base, self.end = self.end, self.end + header.count
        return ErrorCode.NONE, base

    @property
    def records(self) -> list[Record]:
        return [record for batch in self.batches for record in read_records(batch)]

    def read(self, offset: int, bytes_max: int) -> bytes:
        found = b""
        for batch in self.batches:
            if read_header(batch).next_offset > offset and (not found or len(found) + len(batch) <= bytes_max):
                found += batch
        return found


Fault = int | str
"""An error code to answer, or what to do instead of answering:
`lose` does it and hangs up, `mute` does it and goes on, `cut` hangs up, `hang` does nothing any more,
`move` makes another broker the leader first."""


class TinyLog:
    def __init__(self) -> None:
        self.ports: dict[int, int] = {}
        self.partitions: dict[TopicPartition, TinyPartition] = {}
        self.faults: dict[int, deque[Fault]] = defaultdict(deque)
        """API → what happens to the next requests, one after the other."""
        self.asked: Counter[int] = Counter()
        self.versions = {**SERVED}
        self.producer_ids = 1000
        self.grown = asyncio.Event()
        self._servers: dict[int, asyncio.Server] = {}
        self._unnoticed: set[int] = set()
        self._connections: dict[int, set[asyncio.StreamWriter]] = defaultdict(set)

    @property
    def bootstrap(self) -> list[str]:
        return [f"127.0.0.1:{port}" for port in self.ports.values()]

    def make(self, topic: str, partitions: int = 1) -> None:
        brokers = sorted(self.ports)
        for number in range(partitions):
            self.partitions[topic, number] = TinyPartition(brokers[number % len(brokers)])

    def move(self, place: TopicPartition) -> None:
        """The next broker becomes the leader."""
        self._unnoticed.clear()
        partition = self.partitions[place]
        brokers = sorted(self._servers)
        partition.leader = next((broker for broker in brokers if broker > partition.leader), brokers[0])
        partition.epoch += 1

    async def start(self, broker: int) -> None:
        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            self._connections[broker].add(writer)
            try:
                with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
                    await self._serve(broker, reader, writer)
            finally:
                self._connections[broker].discard(writer)
                writer.transport.abort()

        self._servers[broker] = await asyncio.start_server(serve, "127.0.0.1", self.ports.get(broker, 0))
        self.ports[broker] = self._servers[broker].sockets[0].getsockname()[1]

    async def kill(self, broker: int, noticed: bool = True) -> None:
        """What is not noticed is told to clients as if it were alive, until a partition moves."""
        self._servers.pop(broker).close()
        if not noticed:
            self._unnoticed.add(broker)
        for writer in list(self._connections[broker]):
            writer.transport.abort()
        await asyncio.sleep(0)

    async def stop(self) -> None:
        for broker in list(self._servers):
            await self.kill(broker)

    async def _serve(self, broker: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            size = int.from_bytes(await reader.readexactly(4), "big")
            frame = memoryview(await reader.readexactly(size))
            header = parse_header(frame)
            request: Any = cold.decode_request(header, frame)
            self.asked[header.api] += 1
            fault = self.faults[header.api].popleft() if self.faults[header.api] else 0
            if fault == "hang":
                await asyncio.Event().wait()
            if fault == "cut":
                return
            response = await self._answer(broker, header.api, request, fault)
            if fault == "lose":
                return
            if fault == "mute":
                continue
            if header.api != Api.PRODUCE or request.acks:
                writer.write(cold.encode_response(header, response))

    async def _answer(self, broker: int, api: int, request: Any, fault: Fault) -> Any:
        kio = entities(api)
        code = fault if isinstance(fault, int) else 0
        match api:
            case Api.API_VERSIONS:
                keys = [
                    kio.ApiVersion(api_key=key, min_version=0, max_version=top) for key, top in self.versions.items()
                ]
                return kio.ApiVersionsResponse(error_code=cold.error_code(0), api_keys=tuple(keys))
            case Api.METADATA:
                return self._metadata(kio, request)
            case Api.PRODUCE:
                return self._produce(broker, kio, request, fault)
            case Api.FETCH:
                return await self._fetch(broker, kio, request, fault)
            case Api.LIST_OFFSETS:
                return self._list_offsets(broker, kio, request, code)
            case Api.INIT_PRODUCER_ID:
                self.producer_ids += 1
                error = cold.error_code(code)
                return kio.InitProducerIdResponse(
                    throttle_time=NO_THROTTLE, error_code=error, producer_id=self.producer_ids, producer_epoch=0
                )
        raise AssertionError(api)

    def _metadata(self, kio: Any, request: Any) -> Any:
        brokers = tuple(
            kio.MetadataResponseBroker(node_id=broker, host="127.0.0.1", port=self.ports[broker])
            for broker in sorted({*self._servers, *self._unnoticed})
        )
        names = {topic for topic, _ in self.partitions}
        wanted = names if request.topics is None else [topic.name for topic in request.topics]
        topics = tuple(
            kio.MetadataResponseTopic(
                error_code=cold.error_code(0 if name in names else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
                name=name,
                partitions=tuple(
                    kio.MetadataResponsePartition(
                        error_code=cold.error_code(0),
                        partition_index=number,
                        leader_id=partition.leader,
                        leader_epoch=partition.epoch,
                        replica_nodes=tuple(self._servers),
                        isr_nodes=tuple(self._servers),
                        offline_replicas=(),
                    )
                    for (topic, number), partition in self.partitions.items()
                    if topic == name
                ),
            )
            for name in sorted(wanted)
        )
        return kio.MetadataResponse(throttle_time=NO_THROTTLE, brokers=brokers, controller_id=-1, topics=topics)

    def _led_by(self, broker: int, place: TopicPartition, code: int) -> int:
        if code:
            return code
        if place not in self.partitions:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return 0 if self.partitions[place].leader == broker else ErrorCode.NOT_LEADER

    def _produce(self, broker: int, kio: Any, request: Any, fault: Fault) -> Any:
        [data] = request.topic_data
        [part] = data.partition_data
        place = data.name, part.index
        if fault == "move":
            self.move(place)
        error, base = self._led_by(broker, place, fault if isinstance(fault, int) else 0), -1
        if not error:
            error, base = self.partitions[place].append(bytes(part.records))
            self.grown.set()
        result = kio.PartitionProduceResponse(
            index=part.index, error_code=cold.error_code(error), base_offset=base, log_append_time=None
        )
        topic = kio.TopicProduceResponse(name=data.name, partition_responses=(result,))
        return kio.ProduceResponse(responses=(topic,), throttle_time=NO_THROTTLE)

    async def _fetch(self, broker: int, kio: Any, request: Any, fault: Fault) -> Any:
        wanted = {(topic.topic, part.partition): part for topic in request.topics for part in topic.partitions}
        if fault == "move":
            self.move(next(iter(wanted)))
        code = fault if isinstance(fault, int) else 0
        deadline = asyncio.get_running_loop().time() + request.max_wait.total_seconds()
        while True:
            self.grown.clear()
            results = {place: self._fetched(broker, kio, place, part, code) for place, part in wanted.items()}
            left = deadline - asyncio.get_running_loop().time()
            if left <= 0 or any(result.records or result.error_code for result in results.values()):
                break
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self.grown.wait(), left)
        responses = tuple(
            kio.FetchableTopicResponse(topic=place[0], partitions=(result,)) for place, result in results.items()
        )
        error = cold.error_code(0)
        return kio.FetchResponse(throttle_time=NO_THROTTLE, error_code=error, session_id=0, responses=responses)

    def _fetched(self, broker: int, kio: Any, place: TopicPartition, part: Any, code: int) -> Any:
        error = self._led_by(broker, place, code)
        partition = self.partitions.get(place, TinyPartition(-1))
        if not error and not partition.start <= part.fetch_offset <= partition.end:
            error = ErrorCode.OFFSET_OUT_OF_RANGE
        return kio.PartitionData(
            partition_index=place[1],
            error_code=cold.error_code(error),
            high_watermark=partition.end,
            last_stable_offset=partition.end,
            log_start_offset=partition.start,
            aborted_transactions=None,
            preferred_read_replica=-1,
            records=b"" if error else partition.read(part.fetch_offset, part.partition_max_bytes),
        )

    def _list_offsets(self, broker: int, kio: Any, request: Any, code: int) -> Any:
        def listed(name: str, part: Any) -> Any:
            place = name, part.partition_index
            error = self._led_by(broker, place, code)
            partition = self.partitions.get(place, TinyPartition(-1))
            later = [one.offset for one in partition.records if one.timestamp >= part.timestamp]
            offset = {-2: partition.start, -1: partition.end}.get(part.timestamp, later[0] if later else -1)
            return kio.ListOffsetsPartitionResponse(
                partition_index=place[1], error_code=cold.error_code(error), offset=offset, leader_epoch=partition.epoch
            )

        topics = tuple(
            kio.ListOffsetsTopicResponse(
                name=topic.name, partitions=tuple(listed(topic.name, part) for part in topic.partitions)
            )
            for topic in request.topics
        )
        return kio.ListOffsetsResponse(throttle_time=NO_THROTTLE, topics=topics)


@contextlib.asynccontextmanager
async def tiny_log(brokers: int = 2, topic: str = "t", partitions: int = 1) -> AsyncIterator[TinyLog]:
    log = TinyLog()
    for broker in range(1, brokers + 1):
        await log.start(broker)
    log.make(topic, partitions)
    try:
        yield log
    finally:
        await log.stop()
