"""`octoloom topic consume`: records as lines on standard output."""

from __future__ import annotations

import asyncio
import contextlib
import os
import select
import stat
import sys
import threading
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Literal, TypeVar

import click

from octoloom.cli.broker_options import bootstrap_option, run
from octoloom.cli.counting import Counting
from octoloom.cli.topic_consume_group import GroupSource, start_of_group
from octoloom.cli.topic_format import Render, json_line, parse_start, renderer
from octoloom.core.errors import UsageError
from octoloom.runtime.log_client import LogClient
from octoloom.runtime.log_consumer import Consumer, Deliveries, Delivery, ValueConsumer, ValueDelivery
from octoloom.wire.kafka.client_messages import TopicPartition

T = TypeVar("T")
LinesOf = Callable[[T, int | None], list[bytes]]
OnLast = Callable[[T, int], Awaitable[None]]


@click.command(short_help="Print the records of a topic.")
@click.argument("name")
@click.option(
    "--from",
    "-o",
    "start",
    default="beginning",
    show_default=True,
    metavar="PLACE",
    help="beginning, end, an offset, -N for the last N, a time like 2026-01-31T12:00, or @MILLISECONDS.",
)
@click.option(
    "-p", "--partition", "partitions", type=click.IntRange(0), multiple=True, help="Only this one; may be repeated."
)
@click.option(
    "-G",
    "--group",
    metavar="GROUP",
    help="As a member of this consumer group: each record for one member, from where the group was on.",
)
@click.option("-c", "count", type=click.IntRange(1), help="End after so many records.")
@click.option("-e", "to_the_end", is_flag=True, help="End when all is printed that there was at the start.")
@click.option("-f", "template", metavar="FORMAT", help=r"As kcat: %t topic %p partition %o offset %k key %s value ...")
@click.option("-K", "separator", metavar="SEP", help="Print the key and SEP in front of each value.")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON object per line.")
@click.option("-u", "unbuffered", is_flag=True, help="Write each record by itself, as in a terminal.")
@bootstrap_option
def consume(
    name: str,
    start: str,
    partitions: tuple[int, ...],
    group: str | None,
    count: int | None,
    to_the_end: bool,
    template: str | None,
    separator: str | None,
    as_json: bool,
    unbuffered: bool,
    bootstrap: str,
) -> None:
    """Print the records of the topic NAME, until Ctrl-C or as told.

    A format has %t topic, %p partition, %o offset, %T timestamp, %k key, %K its length, %s value, %S its length,
    %R the same in 4 bytes, %h headers, %% and the escapes \\n \\r \\t \\xNN.

    \b
    Examples:
      octoloom topic consume journal -e
      octoloom topic consume journal --from -10 -f '%p %o %k: %s\\n'
      octoloom topic consume journal --from 2026-01-31T12:00 --json | jq .value
      octoloom topic consume journal --group billing -e    # what is new since the last time
    """
    if as_json and (template is not None or separator is not None):
        raise UsageError("--json is a format of its own: leave out -f and -K")
    is_plain = not as_json and template is None and separator is None
    if template is None:
        template = "%k" + (separator or "").replace("%", "%%") + "%s\\n"
    render = json_line if as_json else renderer(template)
    place = parse_start(start)
    first = start_of_group(place, partitions) if group is not None else "beginning"

    async def work(client: LogClient) -> None:
        topic = await client.topic(name)
        unknown = [number for number in partitions if number not in topic.partitions]
        if unknown:
            raise UsageError(f"{name} has no partition {unknown[0]}: it has {len(topic.partitions)}, from 0 on")
        starts = {(name, number): place for number in partitions or sorted(topic.partitions)}
        until = None
        if to_the_end:
            until = {place: high for place, (_, high) in (await client.bounds(starts)).items()}
        reading = _Reading(count, unbuffered or sys.stdout.isatty())
        lines_of = partial(record_lines, render)
        if group is not None:
            await _read_as_member(reading, client, group, name, first, until, None if is_plain else lines_of)
        elif is_plain:
            await reading.run(ValueConsumer(client, starts, until=until), value_lines)
        else:
            await reading.run(Consumer(client, starts, until=until), lines_of)

    run(bootstrap, work)


async def _read_as_member(
    reading: _Reading,
    client: LogClient,
    group: str,
    topic: str,
    start: Literal["beginning", "end"],
    until: Mapping[TopicPartition, int] | None,
    lines_of: LinesOf[Delivery] | None,
) -> None:
    """Prints what this member of the group gets: values, or records if it is said how."""
    # It takes a while to load, and who reads by himself should not wait for it.
    from octoloom.runtime.log_group_consumer import GroupConsumer, GroupValueConsumer

    if lines_of is None:
        values = GroupSource(GroupValueConsumer(client, group, [topic], start=start), until)
        await reading.run(values, value_lines, values.commit_printed)
    else:
        records = GroupSource(GroupConsumer(client, group, [topic], start=start), until)
        await reading.run(records, lines_of, records.commit_printed)


def value_lines(delivery: ValueDelivery, most: int | None) -> list[bytes]:
    """A line for each value, and no more than so many."""
    return [(value or b"") + b"\n" for value in delivery.values[:most]]


def record_lines(render: Render, delivery: Delivery, most: int | None) -> list[bytes]:
    topic, partition, records = delivery
    return [render(topic, partition, record) for record in records[:most]]


class _Reading:
    def __init__(self, count: int | None, unbuffered: bool) -> None:
        self.left, self.unbuffered = count, unbuffered
        self.counting = Counting("records")

    async def run(self, source: Deliveries[T], lines_of: LinesOf[T], on_last: OnLast[T] | None = None) -> None:
        """When enough is printed, `on_last` is called with the last delivery and how much of it that was."""
        pipe = asyncio.ensure_future(closed_pipe())
        reading = asyncio.ensure_future(self._read(source, lines_of, on_last))
        try:
            await asyncio.wait([pipe, reading], return_when=asyncio.FIRST_COMPLETED)
            if reading.done():
                reading.result()
        finally:
            self.counting.stop()
            for task in (pipe, reading):
                task.cancel()
            await asyncio.gather(pipe, reading, return_exceptions=True)

    async def _read(self, source: Deliveries[T], lines_of: LinesOf[T], on_last: OnLast[T] | None) -> None:
        async with source:
            async for delivery in source:
                lines = lines_of(delivery, self.left)
                if not write(lines, self.unbuffered):
                    return
                self.counting.add(len(lines))
                if self.left is not None:
                    self.left -= len(lines)
                    if self.left <= 0:
                        if on_last is not None:
                            await on_last(delivery, len(lines))
                        return


def write(lines: list[bytes], unbuffered: bool) -> bool:
    """False when nobody reads any more."""
    out = sys.stdout.buffer
    try:
        for piece in lines if unbuffered else [b"".join(lines)]:
            out.write(piece)
            out.flush()
    except BrokenPipeError:
        # What is left in the buffer must not raise again when the interpreter ends.
        with contextlib.suppress(OSError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return False
    return True


async def closed_pipe() -> None:
    """Returns when the reader of our pipe has gone, even if there is nothing to write; `| head` ends us so."""
    gone = asyncio.Event()
    loop = asyncio.get_running_loop()
    try:
        descriptor = sys.stdout.fileno()
        if not stat.S_ISFIFO(os.fstat(descriptor).st_mode):
            await gone.wait()
    except OSError:
        await gone.wait()

    def watch() -> None:
        poll = select.poll()
        poll.register(descriptor, 0)
        poll.poll()
        with contextlib.suppress(RuntimeError):
            loop.call_soon_threadsafe(gone.set)

    threading.Thread(target=watch, daemon=True).start()
    await gone.wait()
