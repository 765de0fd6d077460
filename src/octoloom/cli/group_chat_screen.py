"""Where a chat is shown and typed: a terminal, or a pipe for programs.

In a terminal the line that is being typed stays below what arrives, whole. It keeps to one row, so that it can be
wiped and drawn again around every line that is printed. In a pipe there are plain lines, as they come.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
import termios
import time
import tty
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from typing import Protocol

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from octoloom.cli.group_chat_line import TypedLine
from octoloom.cli.group_chat_words import Part, plain

READ_MAX = 4096
LINES_AHEAD_MAX = 100
"""So many lines that were pasted wait at most, and those of one more read."""
ROOM_MIN = 10
"""Columns that are left for the line, however long the prompt."""
_WIPE = "\r\x1b[K"


class Screen(Protocol):
    def show(self, parts: Sequence[Part]) -> None:
        """Prints a line."""

    def ask(self, prompt: str) -> None:
        """What stands before the line that is being typed."""

    def lines(self) -> AsyncIterator[str]:
        """What is typed, line by line."""

    def open(self) -> contextlib.AbstractContextManager[None]: ...


def screen(on_closed: Callable[[], None]) -> Screen:
    """The terminal if there is one at both ends. `on_closed` is called when nobody reads any more."""
    if sys.stdin.isatty() and sys.stdout.isatty():
        return Terminal()
    return Pipe(on_closed)


class Pipe:
    def __init__(self, on_closed: Callable[[], None]) -> None:
        self._on_closed = on_closed

    def show(self, parts: Sequence[Part]) -> None:
        from octoloom.cli.topic_consume import write

        line = "".join(text for text, _ in parts) + "\n"
        if not write([line.encode(errors="replace")], unbuffered=True):
            self._on_closed()

    def ask(self, prompt: str) -> None:
        """Nobody is asked."""

    async def lines(self) -> AsyncIterator[str]:
        from octoloom.cli.topic_produce import read_lines

        async for batch in read_lines():
            for line in batch:
                yield plain(line.decode(errors="replace").rstrip("\r"))

    @contextlib.contextmanager
    def open(self) -> Iterator[None]:
        yield


class Terminal:
    def __init__(self) -> None:
        self._console = Console(highlight=False)
        self._typed = TypedLine()
        self._prompt = ""
        self._is_open = False
        self._is_paused = False
        self._finished: asyncio.Queue[str | None] = asyncio.Queue()

    @contextlib.contextmanager
    def open(self) -> Iterator[None]:
        """Has the keys come one by one, unechoed; gives the terminal back as it was. Ctrl-C stays a signal."""
        keyboard = sys.stdin.fileno()
        before = termios.tcgetattr(keyboard)
        loop = asyncio.get_running_loop()
        tty.setcbreak(keyboard)
        loop.add_reader(keyboard, self._on_keys)
        self._is_open = True
        self._draw()
        try:
            yield
        finally:
            self._is_open = False
            loop.remove_reader(keyboard)
            self._write(_WIPE)
            termios.tcsetattr(keyboard, termios.TCSADRAIN, before)

    def resume(self) -> None:
        """After Ctrl-Z and `fg` the terminal is as the shell left it."""
        tty.setcbreak(sys.stdin.fileno())
        self._draw()

    def show(self, parts: Sequence[Part]) -> None:
        line = Text(end="\n").append(time.strftime("%H:%M:%S  "), style="dim")
        for text, style in parts:
            line.append(text, style=style)
        if self._is_open:
            self._write(_WIPE)
        self._console.print(line)
        self._draw()

    def ask(self, prompt: str) -> None:
        if prompt != self._prompt:
            self._prompt = prompt
            self._draw()

    async def lines(self) -> AsyncIterator[str]:
        while (line := await self._finished.get()) is not None:
            if self._is_paused and self._finished.empty():
                self._is_paused = False
                asyncio.get_running_loop().add_reader(sys.stdin.fileno(), self._on_keys)
            yield line

    def _on_keys(self) -> None:
        try:
            data = os.read(sys.stdin.fileno(), READ_MAX)
        except OSError:
            data = b""  # the terminal is gone
        for line in self._typed.feed(data):
            self._finished.put_nowait(line)
        is_over = self._typed.ended or not data
        if is_over:
            self._finished.put_nowait(None)
        self._is_paused = not is_over and self._finished.qsize() > LINES_AHEAD_MAX
        if is_over or self._is_paused:
            asyncio.get_running_loop().remove_reader(sys.stdin.fileno())
        self._draw()

    def _draw(self) -> None:
        if not self._is_open:
            return
        room = max(self._console.width - cell_len(self._prompt) - 1, ROOM_MIN)
        text, column = self._typed.shown(room)
        behind = cell_len(text) - column
        self._write(f"{_WIPE}{self._prompt}{text}" + (f"\x1b[{behind}D" if behind else ""))

    def _write(self, text: str) -> None:
        with contextlib.suppress(OSError):
            sys.stdout.write(text)
            sys.stdout.flush()
