"""The space-time diagram of a group, from the topic that its members write their steps to."""

from __future__ import annotations

import asyncio

import msgspec

from octoloom.console.peek import PATIENCE_MS, read
from octoloom.console.picture import STEPS_SUFFIX
from octoloom.core.errors import UsageError
from octoloom.core.steps import Step
from octoloom.runtime.log_client import LogClient
from octoloom.runtime.space_time import space_time
from octoloom.runtime.space_time_svg import svg
from octoloom.wire.kafka.records import Record

LAST, LAST_MAX = 40, 300
STEPS_MAX = 3_000
"""How many steps are read, of all members together: the last ones."""
_steps = msgspec.json.Decoder(Step)


class NoSteps(Exception):  # noqa: N818
    """There is nothing to draw."""


async def trace(client: LogClient, group: str, last: int) -> str:
    """The last so many marks of the group as a picture (SVG)."""
    if not 1 <= last <= LAST_MAX:
        raise UsageError(f"{last} marks cannot be drawn: ask for 1 to {LAST_MAX} with last=")
    topic = f"{group}{STEPS_SUFFIX}"
    numbers = sorted((await client.topic(topic, PATIENCE_MS)).partitions)
    bounds = await client.bounds([(topic, number) for number in numbers], PATIENCE_MS)
    records: list[Record] = []
    for number in numbers:
        start, high = bounds[topic, number]
        begin = max(start, high - STEPS_MAX)
        records += await read(client, topic, number, begin, STEPS_MAX, high)
    return await asyncio.to_thread(draw, records, group, last)


def draw(records: list[Record], group: str, last: int) -> str:
    newest = sorted(records, key=lambda record: record.timestamp)[-STEPS_MAX:]
    steps = [step for record in newest if (step := _step(record.value)) is not None]
    if not steps:
        raise NoSteps(f"no member of {group} has written a step yet: say something in the group")
    return svg(space_time(steps, last=last), f"The last messages of {group}")


def _step(value: bytes | None) -> Step | None:
    """A step, or nothing: anybody may write anything to a topic."""
    try:
        step = _steps.decode(value or b"")
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
    return step if step.name and step.member else None
