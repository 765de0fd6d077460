"""How a test waits: for a condition, never for a time.

The limit is not an expectation. It only ends a test that would wait forever, so it is long enough for a machine that is
many times as slow as usual, and nobody waits it out unless something is broken. The error then says what was waited
for, the last value seen, and what the condition looked at.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import linecache
import time
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from octoloom.core.errors import OctoloomError

T = TypeVar("T")

PATIENCE_S = 120.0
"""For one thing to happen."""
STORY_S = 840.0
"""For all of a test: a little less than pytest's own limit, which could not say where an event loop stood."""
_SHOWN_MAX = 600


def until(condition: Callable[[], T], what: str = "", limit_s: float = PATIENCE_S, pause_s: float = 0.01) -> T:
    """Asks until the result is true, and returns it."""
    end = time.monotonic() + limit_s
    while not (value := condition()):
        if time.monotonic() > end:
            raise AssertionError(_error(condition, what, limit_s, value))
        time.sleep(pause_s)
    return value


async def async_until(
    condition: Callable[[], T], what: str = "", limit_s: float = PATIENCE_S, pause_s: float = 0.005
) -> T:
    """The same, while the event loop goes on."""
    end = time.monotonic() + limit_s
    while not (value := condition()):
        if time.monotonic() > end:
            raise AssertionError(_error(condition, what, limit_s, value))
        await asyncio.sleep(pause_s)
    return value


async def until_answered(
    ask: Callable[[], Awaitable[T | None]], what: str = "", limit_s: float = PATIENCE_S, pause_s: float = 0.02
) -> T:
    """The same with a question that is awaited. Our own errors mean that there is no answer yet."""
    end = time.monotonic() + limit_s
    while True:
        last: T | OctoloomError | None
        try:
            if last := await ask():
                return last
        except OctoloomError as error:
            last = error
        if time.monotonic() > end:
            raise AssertionError(_error(ask, what, limit_s, last))
        await asyncio.sleep(pause_s)


def _error(condition: Callable[[], Any], what: str, limit_s: float, last: object) -> str:
    said = f"waited {limit_s:g} s for {what or _source(condition)}; last: {_short(last)}"
    with contextlib.suppress(Exception):
        for name, value in inspect.getclosurevars(condition).nonlocals.items():
            said += f"\n  {name} = {_short(value)}"
    return said


def _source(condition: Callable[[], Any]) -> str:
    """The line that the condition stands in: a lambda has no better name."""
    code = getattr(condition, "__code__", None)
    if code is None or code.co_name != "<lambda>":
        return f"`{getattr(condition, '__qualname__', condition)}`"
    return f"`{linecache.getline(code.co_filename, code.co_firstlineno).strip()}`"


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= _SHOWN_MAX else f"{text[: _SHOWN_MAX // 2]} … {text[-_SHOWN_MAX // 2 :]}"
