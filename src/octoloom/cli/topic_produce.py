"""`octoloom topic produce`: the lines of standard input become records."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from functools import partial

import click

from octoloom.cli.broker_options import bootstrap_option, run
from octoloom.cli.counting import Counting
from octoloom.cli.topic_format import Line, parse_json_line
from octoloom.core.errors import UsageError
from octoloom.runtime.log_client import LogClient
from octoloom.runtime.log_errors import LogError
from octoloom.runtime.log_producer import BUFFER_BYTES_MAX, Full, Producer
from octoloom.wire.kafka.compression import CODECS
from octoloom.wire.kafka.records import Headers

CHUNK = 256 * 1024
CHUNKS_AHEAD_MAX = 4
LIST_LINES_MAX = 8192
LIST_BYTES_MAX = 256 * 1024
"""Lines that are values and nothing else are written in lists, of no more than this."""
LAST_WORDS_S = 5.0
"""How long an interrupted command waits for what it has read already."""

Post = Callable[[Producer], "asyncio.Future[tuple[int, int]]"]
"""Sends a record, or a list of them."""


@click.command(short_help="Write lines to a topic.")
@click.argument("name")
@click.option("-K", "separator", metavar="SEP", help="What stands between key and value; a line without it has no key.")
@click.option("-k", "fixed_key", metavar="KEY", help="The key of all records.")
@click.option("-p", "--partition", type=click.IntRange(0), help="The partition of all records; else by key, or any.")
@click.option("-H", "headers", multiple=True, metavar="KEY=VALUE", help="A header of all records; may be repeated.")
@click.option("-z", "codec", type=click.Choice(CODECS), default="none", show_default=True, help="Compression.")
@click.option("-Z", "empty_is_null", is_flag=True, help="An empty key or value is null.")
@click.option("--json", "as_json", is_flag=True, help='Lines are {"key", "value", "headers", "partition"}.')
@bootstrap_option
def produce(
    name: str,
    separator: str | None,
    fixed_key: str | None,
    partition: int | None,
    headers: tuple[str, ...],
    codec: str,
    empty_is_null: bool,
    as_json: bool,
    bootstrap: str,
) -> None:
    """Write the lines of standard input to the topic NAME, each as a record, each once.

    Exits with 0 when all are on the brokers' disks.

    \b
    Examples:
      echo hello | octoloom topic produce journal
      octoloom topic produce journal -K : -z zstd < lines.txt
      octoloom topic consume journal -e --json | octoloom topic produce copy --json
    """
    if as_json and (separator is not None or fixed_key is not None):
        raise UsageError("--json lines carry their keys: leave out -K and -k")
    fixed_headers = tuple(_header(text) for text in headers)
    key = fixed_key.encode() if fixed_key is not None else None

    def parse(line: bytes) -> Line:
        if as_json:
            of_key, value, more, place, timestamp = parse_json_line(line)
            return of_key, value, fixed_headers + more, partition if place is None else place, timestamp
        of_key, value = split_line(line, key, separator)
        if empty_is_null:
            of_key, value = of_key or None, value or None
        return of_key, value, fixed_headers, partition, None

    is_plain = not (as_json or empty_is_null or separator or headers) and key is None

    def posts(first: int, lines: list[bytes]) -> Iterator[tuple[int, Post]]:
        """What to send of these lines, whose first has this number, and how many records each is."""
        for start in range(0, len(lines), LIST_LINES_MAX):
            some = lines[start : start + LIST_LINES_MAX]
            if is_plain and sum(map(len, some)) <= LIST_BYTES_MAX:
                yield len(some), list_post(name, some, partition)
                continue
            for number, line in enumerate(some, first + start):
                try:
                    yield 1, post_of(name, *parse(line))
                except UsageError as error:
                    raise UsageError(f"line {number}: {error}") from error

    async def work(client: LogClient) -> None:
        await client.topic(name)
        await _Writing(client, codec, posts).run()

    run(bootstrap, work)


def split_line(line: bytes, key: bytes | None, separator: str | None) -> tuple[bytes | None, bytes]:
    if separator:
        before, found, after = line.partition(separator.encode())
        if found:
            return before, after
    return key, line


def list_post(topic: str, values: list[bytes], partition: int | None) -> Post:
    return lambda producer: producer.send_many(topic, values, partition=partition)


def post_of(
    topic: str,
    key: bytes | None,
    value: bytes | None,
    headers: Headers,
    partition: int | None,
    timestamp: int | None,
) -> Post:
    return lambda producer: producer.send(
        topic, value, key=key, headers=headers, partition=partition, timestamp=timestamp
    )


def _header(text: str) -> tuple[str, bytes]:
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise UsageError(f"{text!r} is no header: write KEY=VALUE, as in trace=1")
    return name, value.encode()


class _Writing:
    def __init__(
        self, client: LogClient, codec: str, posts: Callable[[int, list[bytes]], Iterator[tuple[int, Post]]]
    ) -> None:
        self.client, self.codec, self.posts = client, codec, posts
        self.counting = Counting("records written")
        self.error: BaseException | None = None

    async def run(self) -> None:
        async with Producer(self.client, codec=self.codec) as producer:
            try:
                number = 1
                async for lines in read_lines():
                    for records, post in self.posts(number, lines):
                        await self._send(producer, records, post)
                    number += len(lines)
            except asyncio.CancelledError:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(LAST_WORDS_S):
                        await producer.flush()
                raise
            finally:
                self.counting.stop()
            await producer.flush()
        if self.error is not None:
            raise self.error

    async def _send(self, producer: Producer, records: int, post: Post) -> None:
        if self.error is not None:
            raise self.error
        while True:
            try:
                written = post(producer)
            except Full:
                await producer.room()
            else:
                written.add_done_callback(partial(self._on_written, records))
                return

    def _on_written(self, records: int, written: asyncio.Future[tuple[int, int]]) -> None:
        if written.cancelled():
            return
        error = written.exception()
        if error is None:
            self.counting.add(records)
        elif self.error is None:
            self.error = error


async def read_lines() -> AsyncIterator[list[bytes]]:
    """The lines of standard input as they come. A last one without an end counts, too.

    A thread reads: standard input may be a file, a pipe or a terminal, and none of them waits for a loop. It is left
    behind when the command ends, and it reads no further ahead than `CHUNKS_AHEAD_MAX`.
    """
    loop = asyncio.get_running_loop()
    chunks: asyncio.Queue[bytes | OSError] = asyncio.Queue()
    ahead = threading.Semaphore(CHUNKS_AHEAD_MAX)

    read_some = _reader()

    def read() -> None:
        chunk: bytes | OSError = b"-"
        while chunk and not isinstance(chunk, OSError):
            ahead.acquire()
            try:
                chunk = read_some()
            except OSError as error:
                chunk = error
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(chunks.put_nowait, chunk)

    threading.Thread(target=read, daemon=True).start()
    rest: list[bytes] = []
    rest_size = 0
    while chunk := await chunks.get():
        ahead.release()
        if isinstance(chunk, OSError):
            raise LogError(f"standard input cannot be read ({chunk.strerror})") from chunk
        *lines, last = chunk.split(b"\n")
        if lines:
            lines[0] = b"".join([*rest, lines[0]])
            rest, rest_size = [], 0
            yield lines
        rest.append(last)
        rest_size += len(last)
        if rest_size > BUFFER_BYTES_MAX:
            raise UsageError(f"a line of more than {BUFFER_BYTES_MAX} bytes: cut it up")
    if line := b"".join(rest):
        yield [line]


def _reader() -> Callable[[], bytes]:
    """Reads what there is. A buffered reader would be locked by a thread that is left behind in it."""
    try:
        descriptor = sys.stdin.fileno()
    except OSError:
        buffer = sys.stdin.buffer
        return lambda: buffer.read(CHUNK)
    return lambda: os.read(descriptor, CHUNK)
