"""Produce: batches are checked, admitted and queued for the tick's write; the answer waits for what `acks` asks.

- `acks=all`: until the watermark has passed the batch;
- `acks=1`: until it is written here;
- `acks=0`: for nothing. If such a batch is refused the connection ends, which is the only way to tell.

What cannot be taken is answered by Kafka's codes: a wrong CRC or structure CORRUPT_MESSAGE, an old format
UNSUPPORTED_FOR_MESSAGE_FORMAT, a codec nobody knows UNSUPPORTED_COMPRESSION_TYPE. There are no transactions:
their batches, and control batches, are refused. A client sends one batch per partition in a request.
"""

from __future__ import annotations

from octoloom.core.errors import ProtocolError
from octoloom.core.log_messages import TopicPartition
from octoloom.core.topic_admin import OFFSETS_TOPIC
from octoloom.runtime.broker_apis import OnAppended, Request
from octoloom.runtime.broker_logs import Replica
from octoloom.runtime.broker_state import BrokerState
from octoloom.wire.kafka.batches import MAGIC, BatchHeader, CorruptBatch, check_batches, stamp
from octoloom.wire.kafka.errors import ErrorCode
from octoloom.wire.kafka.produce import Endpoint, ProduceResult, encode_produce, parse_produce

ALL = -1
_MAGIC_AT = 16
_CODEC, _CODEC_MAX = 0x07, 4
_TRANSACTIONAL, _CONTROL = 0x10, 0x20


class Produced:
    """A request with parts that are not decided yet."""

    __slots__ = ("deadline", "left", "request", "results")

    def __init__(self, request: Request | None, results: list[ProduceResult], left: int, deadline: int) -> None:
        self.request = request
        self.results = results
        self.left = left
        self.deadline = deadline


class Appending:
    """A batch of the broker's own."""

    __slots__ = ("base_offset", "deadline", "on_done")

    def __init__(self, on_done: OnAppended, base_offset: int) -> None:
        self.on_done = on_done
        self.base_offset = base_offset
        self.deadline = 1 << 62


class Produce:
    def __init__(self, state: BrokerState) -> None:
        self._state = state
        self._ticket = 0
        self._waiting: dict[int, tuple[Produced | Appending, int]] = {}
        """Who waits for which ticket, with the index of the part."""

    def __len__(self) -> int:
        return len(self._waiting)

    # Requests.

    def on_produce(self, request: Request) -> None:
        transactional_id, acks, timeout_ms, parts = parse_produce(request.header, request.frame)
        results: list[ProduceResult] = []
        produced = Produced(request, results, 0, 0)
        refusal = 0
        if transactional_id is not None:
            refusal = ErrorCode.INVALID_TRANSACTION_STATE
        elif not ALL <= acks <= 1:
            refusal = ErrorCode.INVALID_REQUIRED_ACKS
        for topic, number, records in parts:
            if topic == OFFSETS_TOPIC:
                # Its records are the coordinators' memory.
                error = int(ErrorCode.INVALID_TOPIC)
            else:
                error = refusal or self._take(produced, (topic, number), records, acks)
            if error:
                results.append(self._refusal(topic, number, error))
        if acks == 0:
            if any(result.error for result in results):
                raise ProtocolError("refused", f"error {results[0].error} for a batch that wants no answer")
            request.respond_nothing()
        elif produced.left == 0:
            self._answer(produced)
        else:
            produced.deadline = self._state.clock.now() + timeout_ms

    def _take(self, produced: Produced, name: TopicPartition, records: memoryview, acks: int) -> int:
        """Admits a part and queues its batch. Answers the error, or 0 with a result in its place."""
        replica = self._state.logs.replicas.get(name)
        if replica is None:
            return self._state.error_of(name)
        partition = replica.partition
        if partition.leading is None:
            return ErrorCode.NOT_LEADER
        header = check_records(records, replica.message_bytes_max)
        if not isinstance(header, BatchHeader):
            return header
        _, length, _, *rest = header
        producer, producer_epoch, sequence, count = rest[-4:]
        error, base_offset, next_offset, is_duplicate = partition.admit(count, producer, producer_epoch, sequence, acks)
        if error:
            return error
        if not is_duplicate:
            epoch = partition.state.epoch
            stamp(records, 0, base_offset, epoch)
            replica.batches.append(records)
            # Tuples are made directly here: that takes half the time of their own constructors.
            replica.headers.append(tuple.__new__(BatchHeader, (base_offset, length, epoch, *rest)))
            self._state.dirty[replica] = None
        results, (topic, number) = produced.results, name
        index = len(results)
        results.append(tuple.__new__(ProduceResult, (topic, number, 0, base_offset, partition.start, None, None)))
        if acks == ALL:
            self._ticket += 1
            self._waiting[self._ticket] = produced, index
            self._state.core.wait(name, next_offset, self._ticket)
            produced.left += 1
        elif acks == 1 and not is_duplicate:
            replica.local.append((produced, index))
            produced.left += 1
        return 0

    def _refusal(self, topic: str, number: int, error: int) -> ProduceResult:
        leader = None
        if error == ErrorCode.NOT_LEADER:
            address = self._state.directory.leader((topic, number))
            state = self._state.directory.state((topic, number))
            leader = (address.id, state.epoch) if address is not None and state is not None else None
        return ProduceResult(topic, number, error, leader=leader)

    # A batch of the broker's own.

    def append(self, name: TopicPartition, batch: bytearray, on_done: OnAppended) -> None:
        self._append(name, memoryview(batch), on_done)
        self._state.soon()

    def _append(self, name: TopicPartition, records: memoryview, on_done: OnAppended) -> None:
        replica = self._state.logs.replicas.get(name)
        if replica is None:
            self._refuse_soon(on_done, self._state.error_of(name))
            return
        produced = Produced(None, [], 0, 1 << 62)
        error = self._take(produced, name, records, ALL)
        if error:
            self._refuse_soon(on_done, error)
            return
        self._waiting[self._ticket] = Appending(on_done, produced.results[0].base_offset), 0

    def _refuse_soon(self, on_done: OnAppended, error: int) -> None:
        self._state.loop.call_soon(on_done, error, -1)

    def when_committed(self, name: TopicPartition, offset: int, on_done: OnAppended) -> None:
        replica = self._state.logs.replicas.get(name)
        error = self._state.error_of(name) if replica is None else replica.partition.leads()
        if error:
            self._refuse_soon(on_done, error)
            return
        self._ticket += 1
        self._waiting[self._ticket] = Appending(on_done, offset), 0
        self._state.core.wait(name, offset, self._ticket)
        self._state.soon()

    # Answers.

    def on_acknowledged(self, answers: list[tuple[int, int]]) -> None:
        """What the core says of tickets."""
        waiting = self._waiting
        for ticket, error in answers:
            found = waiting.pop(ticket, None)
            if found is not None:
                produced, index = found
                if isinstance(produced, Appending):
                    produced.on_done(error, produced.base_offset)
                else:
                    self._decide(produced, index, error)

    def on_written(self, replica: Replica, error: int) -> None:
        """The write was made, or (`error`) was not."""
        waiting, replica.local = replica.local, []
        for produced, index in waiting:
            self._decide(produced, index, error)

    def _decide(self, produced: Produced, index: int, error: int) -> None:
        if error:
            result = produced.results[index]
            produced.results[index] = self._refusal(result.topic, result.partition, error)
        produced.left -= 1
        if produced.left == 0:
            self._answer(produced)

    def _answer(self, produced: Produced) -> None:
        request = produced.request
        assert request is not None
        if request.answered:
            return
        results = produced.results
        endpoints = self._endpoints(results) if len(results) != 1 or results[0].leader is not None else ()
        request.respond(encode_produce(request.header, results, endpoints))

    def _endpoints(self, results: list[ProduceResult]) -> list[Endpoint]:
        """Where the leaders are that the results name."""
        leaders = [result.leader[0] for result in results if result.leader is not None]
        known = self._state.directory.brokers.values() if leaders else ()
        return [(broker.id, broker.host, broker.port) for broker in known if broker.id in leaders]

    # Time.

    def on_time(self, now: int) -> None:
        """Tells those who have waited for too long. Whether their batches are committed later is not known here."""
        late = [ticket for ticket, (produced, _) in self._waiting.items() if produced.deadline <= now]
        self.on_acknowledged([(ticket, ErrorCode.REQUEST_TIMED_OUT) for ticket in late])

    def forget(self) -> None:
        """The core begins anew, and nobody who waited is connected any more."""
        waiting, self._waiting = self._waiting, {}
        for produced, _ in waiting.values():
            if isinstance(produced, Appending):
                produced.on_done(ErrorCode.NOT_LEADER, -1)


def check_records(records: memoryview, bytes_max: int) -> BatchHeader | int:
    """The header of the one batch that these records are, or the error to answer."""
    if len(records) > _MAGIC_AT and records[_MAGIC_AT] < MAGIC:
        return ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT
    if len(records) > bytes_max:
        return ErrorCode.MESSAGE_TOO_LARGE
    try:
        batches = check_batches(records)
    except CorruptBatch:
        return ErrorCode.CORRUPT_MESSAGE
    if len(batches) != 1:
        return ErrorCode.INVALID_RECORD
    header = batches[0][1]
    attributes = header.attributes
    if attributes > _CODEC_MAX or attributes < 0:
        if attributes & _CODEC > _CODEC_MAX:
            return ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
        if attributes & _CONTROL:
            return ErrorCode.INVALID_RECORD
        if attributes & _TRANSACTIONAL:
            return ErrorCode.INVALID_TRANSACTION_STATE
    return header
