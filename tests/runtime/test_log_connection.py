"""Questions and answers on one connection, and peers that are no brokers."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

import pytest
import uvloop

from octoloom.runtime import log_connection
from octoloom.runtime.log_connection import LogConnection
from octoloom.runtime.log_errors import TimedOut, Unreachable, Unwanted
from octoloom.wire.kafka import client_messages as messages
from octoloom.wire.kafka.apis import Api
from tests.runtime.tiny_log import TinyLog, tiny_log


@contextlib.asynccontextmanager
async def connected(log: TinyLog) -> AsyncIterator[LogConnection]:
    connection = LogConnection(log.bootstrap[0], "test")
    await connection.open(5)
    try:
        yield connection
    finally:
        connection.abort()


def ask_producer(connection: LogConnection) -> asyncio.Future[tuple[int, int, int]]:
    return connection.ask(Api.INIT_PRODUCER_ID, messages.encode_init_producer(), messages.parse_init_producer)


def test_many_questions_are_answered_in_order() -> None:
    async def main() -> None:
        async with tiny_log() as log, connected(log) as connection:
            answers = [ask_producer(connection) for _ in range(100)]
            assert connection.waiting == 100
            ids = [(await answer)[1] for answer in answers]
            assert ids == list(range(ids[0], ids[0] + 100))
            assert connection.waiting == 0

    uvloop.run(main())


def test_one_who_asks_no_more_does_not_disturb_the_others() -> None:
    async def main() -> None:
        async with tiny_log() as log, connected(log) as connection:
            first, second = ask_producer(connection), ask_producer(connection)
            first.cancel()
            assert (await second)[0] == 0

    uvloop.run(main())


def test_open_questions_fail_when_the_broker_hangs_up() -> None:
    async def main() -> None:
        async with tiny_log() as log, connected(log) as connection:
            log.faults[Api.INIT_PRODUCER_ID] += [0, "cut"]
            answers = [ask_producer(connection) for _ in range(3)]
            assert (await answers[0])[0] == 0
            for answer in answers[1:]:
                with pytest.raises(Unreachable, match="hung up") as caught:
                    await answer
                assert caught.value.ambiguous
            assert connection.closed
            with pytest.raises(Unreachable):
                await ask_producer(connection)

    uvloop.run(main())


def test_a_late_answer_is_reported_and_at_last_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_connection, "SUSPECT_S", 0.05)
    monkeypatch.setattr(log_connection, "GIVE_UP_S", 0.3)
    monkeypatch.setattr(log_connection, "_LOOK_S", 0.02)
    reports: list[LogConnection] = []

    async def main() -> None:
        async with tiny_log() as log:
            connection = LogConnection(log.bootstrap[0], "test", reports.append)
            await connection.open(5)
            log.faults[Api.INIT_PRODUCER_ID].append("hang")
            answers = [ask_producer(connection), ask_producer(connection)]
            for answer in answers:
                with pytest.raises(TimedOut, match="has not answered"):
                    await answer
            assert set(reports) == {connection}

    uvloop.run(main())


def test_who_said_that_he_would_wait_is_not_late(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_connection, "SUSPECT_S", 0.01)
    monkeypatch.setattr(log_connection, "_LOOK_S", 0.01)
    reports: list[LogConnection] = []

    async def main() -> None:
        async with tiny_log() as log:
            connection = LogConnection(log.bootstrap[0], "test", reports.append)
            await connection.open(5)
            body = messages.encode_fetch({("t", 0): messages.FetchFrom(0, -1, 1000)}, 200, 1, 1000)
            _, [found] = await connection.ask(Api.FETCH, body, messages.parse_fetch, patience_s=30)
            assert (found.error, found.high) == (0, 0)
            assert reports == []
            connection.abort()

    uvloop.run(main())


def test_nobody_there_is_said() -> None:
    async def main() -> None:
        with pytest.raises(Unreachable, match=r"no broker answers at 127.0.0.1:1 \("):
            await LogConnection("127.0.0.1:1", "test").open(5)

    uvloop.run(main())


@pytest.mark.parametrize(
    ("says", "error", "text"),
    [
        (b"", Unreachable, "it does not answer"),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", Unwanted, "does not speak as a Kafka broker does"),
        (b"\x00\x00\x00\x0a\x00\x00\x00\x09\x00\x00\x00\x00\x00\x00", Unwanted, "an answer to 9 instead of 1"),
        (b"\x00\x00\x00\x06\x00\x00\x00\x01\x00\x00", Unwanted, "cannot be read"),
        (b"\x00\x00\x00\x0a\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00", Unwanted, "does not serve version"),
    ],
)
def test_what_is_no_broker_is_found_out(says: bytes, error: type[Exception], text: str) -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(says)
        with contextlib.suppress(ConnectionError):
            await writer.drain()
            await reader.read()

    async def main() -> None:
        server = await asyncio.start_server(answer, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        with pytest.raises(error, match=text):
            await LogConnection(f"127.0.0.1:{port}", "test").open(0.3 if not says else 5)
        server.close()

    uvloop.run(main())


def test_a_broker_that_lacks_a_version_is_refused() -> None:
    async def main() -> None:
        async with tiny_log() as log:
            log.versions[Api.FETCH] = 4
            with pytest.raises(Unwanted, match="does not serve version 11 of FETCH: connect to another one"):
                await LogConnection(log.bootstrap[0], "test").open(5)

    uvloop.run(main())


def test_the_number_of_open_questions_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_connection, "OPEN_MAX", 2)

    async def main() -> None:
        async with tiny_log() as log, connected(log) as connection:
            answers = [ask_producer(connection) for _ in range(3)]
            with pytest.raises(Unreachable, match="2 questions wait"):
                await answers[2]
            await asyncio.gather(*answers[:2])

    uvloop.run(main())
