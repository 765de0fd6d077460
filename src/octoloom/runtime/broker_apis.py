"""What a broker's handlers of Kafka's APIs see: a request to answer, and the broker around them.

A handler is called with a request as soon as it has arrived, in the order of its connection. It may answer at once or
later; answers leave in the order of the requests, whenever they are made. It decodes what it needs before it returns:
the frame's bytes belong to the connection, which uses them again after the tick.

A handler that raises `ProtocolError` ends the connection. Every other refusal is an answer with an error code.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

from kio.static.protocol import RequestPayload, ResponsePayload

from octoloom.core.log_messages import TopicPartition
from octoloom.wire.kafka.apis import RequestHeader
from octoloom.wire.kafka.cold import decode_request, encode_response

if TYPE_CHECKING:
    from octoloom.core.broker import Broker
    from octoloom.runtime.broker_directory import Directory
    from octoloom.runtime.broker_register import BrokerRegisterClient
    from octoloom.runtime.broker_settings import BrokerSettings
    from octoloom.runtime.clock import Clock


class Answers(Protocol):
    """The connection of a request, as far as an answer needs it."""

    @property
    def client_host(self) -> str: ...

    @property
    def closed(self) -> bool: ...

    def on_answered(self, request: Request) -> None: ...

    def close(self) -> None: ...


class Request:
    """One request. `respond` exactly once, with the whole response, its length in front; or `respond_nothing`."""

    __slots__ = ("connection", "frame", "header", "response")

    def __init__(self, connection: Answers, header: RequestHeader, frame: memoryview) -> None:
        self.connection = connection
        self.header = header
        self.frame = frame
        """Everything behind the length; `header.body_at` is where the body begins. Only good while the handler runs."""
        self.response: list[Any] | None = None
        """The pieces of the answer, bytes and slices of files, once they are known."""

    @property
    def client_host(self) -> str:
        return self.connection.client_host

    @property
    def answered(self) -> bool:
        return self.response is not None

    @property
    def is_abandoned(self) -> bool:
        """Nobody is there any more to hear the answer."""
        return self.connection.closed

    def decode(self) -> RequestPayload:
        """The request as kio's entity, for APIs that are not hot."""
        return decode_request(self.header, self.frame)

    def answer(self, response: ResponsePayload) -> None:
        """Responds with kio's entity of the same API and version."""
        self.respond(encode_response(self.header, response))

    def respond(self, response: bytes) -> None:
        self.respond_pieces([response])

    def respond_pieces(self, pieces: list[Any]) -> None:
        assert self.response is None, f"API {self.header.api} was answered twice"
        self.response = pieces
        self.connection.on_answered(self)

    def hang_up(self) -> None:
        """There will be no answer."""
        self.connection.close()

    def respond_nothing(self) -> None:
        """The client waits for no answer (`acks=0`)."""
        self.respond_pieces([])


Handler = Callable[[Request], None]
Handlers = dict[int, Handler]
"""By API key."""

OnAppended = Callable[[int, int], None]
"""(error code, first offset), once a batch is committed or will never be taken."""


class LeadershipListener(Protocol):
    """Who wants to know which partitions this broker leads."""

    def on_leadership_taken(self, name: TopicPartition, epoch: int) -> None: ...

    def on_leadership_lost(self, name: TopicPartition) -> None:
        """Also when the broker begins a new life, or ends."""


class Host(Protocol):
    """The broker, as handlers see it. `core` is another one after damage to a log: never keep it."""

    clock: Clock
    settings: BrokerSettings
    directory: Directory
    listeners: list[LeadershipListener]

    @property
    def core(self) -> Broker: ...

    @property
    def id(self) -> str:
        """``name#incarnation`` of this life."""

    @property
    def register(self) -> BrokerRegisterClient:
        """Another one in each life."""

    def append(self, name: TopicPartition, batch: bytearray, on_done: OnAppended) -> None:
        """Appends one batch (magic 2, CRC right, no producer id), as a producer with acks=all would.

        An error before the batch is in the log (NOT_LEADER, NOT_ENOUGH_REPLICAS, KAFKA_STORAGE_ERROR) means that it
        never will be. If leadership is lost meanwhile it is NOT_LEADER as well, after `on_leadership_lost`.
        """

    def read(self, name: TopicPartition, offset: int, bytes_max: int, before: int | None = None) -> tuple[bytes, int]:
        """(whole batches from the one that holds `offset`, the offset behind them); below the watermark or `before`.

        b"" when there is nothing more. Only for partitions that have a replica here.
        """

    def when_committed(self, name: TopicPartition, offset: int, on_done: Callable[[int], None]) -> None:
        """Calls back with 0 once everything below `offset` is committed, or with an error code."""

    def delete_records(self, name: TopicPartition, offset: int) -> tuple[int, int]:
        """(error code, new log start). Offset -1 is the watermark."""

    def report_damage(self, name: TopicPartition, offset: int) -> None:
        """What was read from this log is not what was written, from `offset` on: this life of the broker ends."""

    def soon(self) -> None:
        """Have a turn at the end of this tick: call it after telling the core something."""
