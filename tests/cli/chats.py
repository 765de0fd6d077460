"""Chats as processes of their own, typed into and read from."""

from __future__ import annotations

import contextlib
import os
import select
import subprocess
import sys
import termios
import threading
import time
from collections.abc import Callable
from functools import partial
from typing import Self

from tests.waiting import PATIENCE_S


def chat_command(register: str, room: str, name: str, *options: str) -> list[str]:
    where = ["--as", name, "--register", register]
    return [sys.executable, "-m", "octoloom", "group", "chat", room, *where, *options]


class ChatProcess:
    """`octoloom group chat` in a pipe."""

    def __init__(self, register: str, room: str, name: str, *options: str) -> None:
        self.name = name
        self.lines: list[str] = []
        self.ended = False
        self._news = threading.Condition()
        self.process = subprocess.Popen(
            chat_command(register, room, name, *options),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            encoding="utf-8",
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            with self._news:
                self.lines.append(line.rstrip("\n"))
                self._news.notify_all()
        with self._news:
            self.ended = True
            self._news.notify_all()

    def type(self, *lines: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write("".join(f"{line}\n" for line in lines))
        self.process.stdin.flush()

    def has(self, start: str) -> bool:
        return any(line.startswith(start) for line in self.lines)

    def await_line(self, start: str) -> str:
        """The first line that begins like this; waits until there is one."""
        with self._news:
            self._news.wait_for(lambda: self.has(start) or self.ended, PATIENCE_S)
        found = next((line for line in self.lines if line.startswith(start)), None)
        assert found is not None, f"{self.name} never shows {start!r}: {self.lines}"
        return found

    def await_together(self, *names: str) -> None:
        """Returns when all of these are in the room."""
        for name in names:
            with self._news:
                met = self._news.wait_for(partial(self._has_met, name), PATIENCE_S)
            assert met, f"{self.name} never meets {name}: {self.lines}"

    def _has_met(self, name: str) -> bool:
        greeting = next((line for line in self.lines if line.startswith("* you are in")), "")
        return self.has(f"* {name} is here") or name in greeting.partition(" with ")[2]

    def said(self) -> list[str]:
        """The messages, without what was told about them."""
        return [line for line in self.lines if not line.startswith("* ")]

    def end(self) -> int:
        """Closes its input, and answers how it ended."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        return self.wait()

    def wait(self) -> int:
        code = self.process.wait(PATIENCE_S)
        self._reader.join(PATIENCE_S)
        return code

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self._reader.join(PATIENCE_S)
        for stream in (self.process.stdin, self.process.stdout):
            if stream is not None:
                with contextlib.suppress(BrokenPipeError):
                    stream.close()


class PtyChat:
    """`octoloom group chat` in a terminal of 80 columns."""

    def __init__(self, register: str, room: str, name: str) -> None:
        self._keyboard, terminal = os.openpty()
        self._seen = b""
        self.process = subprocess.Popen(
            chat_command(register, room, name),
            preexec_fn=partial(os.login_tty, terminal),
            pass_fds=(terminal,),
            env={**os.environ, "TERM": "xterm", "COLUMNS": "80"},
        )
        self._terminal = terminal

    def type(self, keys: str) -> None:
        os.write(self._keyboard, keys.encode())

    def echoes(self) -> bool:
        return bool(termios.tcgetattr(self._terminal)[3] & termios.ECHO)

    def await_text(self, text: str) -> None:
        self._await(lambda: text in self.seen, text)

    def await_end(self, text: str) -> None:
        """Returns when this is the last that was printed."""
        self._await(lambda: self.seen.endswith(text), text)

    @property
    def seen(self) -> str:
        return self._seen.decode(errors="replace")

    def _await(self, true: Callable[[], bool], text: str) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while not true():
            ready, _, _ = select.select([self._keyboard], [], [], max(deadline - time.monotonic(), 0))
            assert ready, f"{text!r} is never seen: {self.seen!r}"
            self._seen += os.read(self._keyboard, 65536)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        os.close(self._keyboard)
        os.close(self._terminal)
