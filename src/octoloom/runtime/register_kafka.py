"""The register as the place where Kafka clients begin: its address works as `bootstrap.servers`.

A client asks whom it finds first for the versions that are spoken, for the brokers and the leaders, perhaps for a
group's coordinator or a producer id, and goes on with the brokers that it was told of. That much is answered here, from
what is durable. The versions are the brokers', since clients judge the whole cluster by them. Who asks here for
anything else is hung up on, and tries a broker.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable
from typing import cast

from kio.static.protocol import RequestPayload, ResponsePayload

from octoloom.core.errors import ProtocolError
from octoloom.core.log_messages import Allotted, MakeTopic
from octoloom.runtime.broker_apis import Handlers, Request
from octoloom.runtime.broker_directory import Directory
from octoloom.runtime.broker_metadata import Metadata
from octoloom.runtime.broker_producers import ProducerIds
from octoloom.runtime.broker_settings import BrokerSettings
from octoloom.runtime.broker_state import BrokerState
from octoloom.runtime.directory_answers import (
    MAKE_OFFSETS_TOPIC,
    cluster_values,
    coordinator_values,
    needs_offsets_topic,
)
from octoloom.runtime.frames import FramedConnection
from octoloom.runtime.later import Later
from octoloom.runtime.register_desk import send
from octoloom.runtime.register_logs import LogDesk
from octoloom.wire.kafka.api_versions import encode_api_versions
from octoloom.wire.kafka.apis import Api, RequestHeader, parse_header
from octoloom.wire.kafka.compose import compose
from octoloom.wire.kafka.errors import ErrorCode

WAITING_MAX = 256
"""Requests of one connection that wait for their answers."""
UNREAD_BYTES_MAX = 8 * 1024 * 1024
"""Who lets this much of what it was told lie unread, and asks for more, is hung up on."""
ALL_UNREAD_BYTES_MAX = 64 * 1024 * 1024
"""The same for all Kafka clients together: then it is one of those who read slowly."""
SLOW_BYTES = 64 * 1024


class Guest:
    """A Kafka client's connection: answers leave in the order of the requests."""

    def __init__(self, connection: FramedConnection) -> None:
        self._connection = connection
        self._requests: deque[Request] = deque()
        self.client_host = connection.peer.rpartition(":")[0]

    @property
    def closed(self) -> bool:
        return self._connection.closed

    def close(self) -> None:
        self._connection.close()

    def take(self, frame: memoryview) -> Request:
        if len(self._requests) >= WAITING_MAX:
            raise ProtocolError("too-many", f"{WAITING_MAX} requests wait already")
        request = Request(self, parse_header(frame), frame)
        self._requests.append(request)
        return request

    def on_answered(self, request: Request) -> None:
        while self._requests and self._requests[0].response is not None:
            send(self._connection, b"".join(self._requests.popleft().response or ()))


class RegisterKafka:
    """`flush` makes durable what the desk has decided, and says whether that worked."""

    def __init__(self, desk: LogDesk, flush: Callable[[], bool], auto_create: bool) -> None:
        self._desk = desk
        self._flush = flush
        self.settings = BrokerSettings(auto_create=auto_create)
        self.directory: Directory = desk.directory
        self.loop = asyncio.get_running_loop()
        self._guests: dict[FramedConnection, Guest] = {}
        # They look at no more of a broker than the three fields above.
        self._metadata = Metadata(cast(BrokerState, self), self._make_topic)
        self._producers = ProducerIds(cast(BrokerState, self), self._allot)
        self._later = Later()
        self._handlers: Handlers = {
            Api.API_VERSIONS: self._on_api_versions,
            Api.METADATA: self._metadata.on_metadata,
            Api.FIND_COORDINATOR: self._on_find_coordinator,
            Api.DESCRIBE_CLUSTER: self._on_describe_cluster,
            Api.INIT_PRODUCER_ID: self._producers.on_init,
        }

    def on_frame(self, connection: FramedConnection, frame: memoryview) -> None:
        guest = self._guests.get(connection)
        if guest is None:
            guest = self._guests[connection] = Guest(connection)
        self._check_reads(connection)
        request = guest.take(frame)
        handler = self._handlers.get(request.header.api)
        if handler is None:
            raise ProtocolError("not-here", f"API {request.header.api} is served by brokers, not by the register")
        handler(request)

    def _check_reads(self, connection: FramedConnection) -> None:
        unread = connection.buffered
        if unread > SLOW_BYTES:
            everybody = sum(each.buffered for each in self._guests)
            if unread > UNREAD_BYTES_MAX or everybody > ALL_UNREAD_BYTES_MAX:
                raise ProtocolError("slow", f"{unread} bytes of answers were not read, of {everybody} in all")

    def on_closed(self, connection: FramedConnection) -> None:
        self._guests.pop(connection, None)

    def close(self) -> None:
        self._metadata.close()
        self._producers.close()
        self._later.close()

    def _on_api_versions(self, request: Request) -> None:
        request.respond(encode_api_versions(request.header.version, request.header.correlation))

    def _on_find_coordinator(self, request: Request) -> None:
        asked = request.decode()
        if needs_offsets_topic(self.directory, asked):
            self._later.answer(request, self._coordinator_of_first(request.header, asked))
        else:
            request.answer(compose(request.header, **coordinator_values(request.header, asked, self.directory)))

    async def _coordinator_of_first(self, header: RequestHeader, asked: RequestPayload) -> ResponsePayload:
        await self._make(MAKE_OFFSETS_TOPIC)
        return compose(header, **coordinator_values(header, asked, self.directory))

    def _on_describe_cluster(self, request: Request) -> None:
        request.answer(compose(request.header, **cluster_values(self.directory, self.settings.cluster_id)))

    async def _make_topic(self, topic: str) -> int:
        return await self._make(MakeTopic(0, topic))

    async def _make(self, topic: MakeTopic) -> int:
        """Answers when all brokers know the topic, too."""
        if not self.directory.brokers:
            return ErrorCode.BROKER_NOT_AVAILABLE
        answer = self._desk.make(_now_ms(), topic)
        self._flush()
        return (await answer).error

    async def _allot(self, count: int) -> Allotted:
        allotted = self._desk.allot(_now_ms(), count) if self.directory.brokers else None
        if allotted is None or not self._flush():
            raise TimeoutError("no broker is there")
        return allotted


def _now_ms() -> int:
    return time.monotonic_ns() // 1_000_000
