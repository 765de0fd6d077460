"""The steps of a group's members as files: one JSON object on each line, as `core/steps.py` names them.

Every member writes a file of its own, or several the same one. Files can be joined with `cat`, and their lines may
stand in any order: what came before what is found by causality when they are read (`step_order.py`).

A trace is a witness, not a part of the run. A file that is full, or a disk that is, ends the trace and not the group.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import BinaryIO

import msgspec

from octoloom.core.errors import UsageError
from octoloom.core.steps import Step

_log = logging.getLogger("octoloom.group")

FILE_BYTES_MAX = 256 * 1024 * 1024
"""How large a writer lets its file grow. Then it stops."""
LINE_BYTES_MAX = 1024 * 1024
STEPS_MAX = 1_000_000
"""How many steps are read at most, of all files together: they are held in memory."""
STDIN = "-"


class StepWriter:
    """Appends steps to a file, one write for each batch. `full` says that it has stopped."""

    def __init__(self, path: Path, bytes_max: int = FILE_BYTES_MAX, say: Callable[[str], None] = _log.warning) -> None:
        self._path, self._bytes_max, self._say = path, bytes_max, say
        self._encoder = msgspec.json.Encoder()
        self.full = False
        try:
            self._file = open(path, "ab+", buffering=0)  # noqa: SIM115  # it lives as long as the writer
            self._size = self._file.seek(0, os.SEEK_END)
            if self._size and os.pread(self._file.fileno(), 1, self._size - 1) != b"\n":
                # Somebody was killed in the middle of a line: it must not take our first one with it.
                self._size += self._file.write(b"\n")
        except OSError as error:
            raise UsageError(f"the trace {path} cannot be written: {error.strerror}") from error

    def __enter__(self) -> StepWriter:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def write(self, steps: Iterable[Step], at_ms: int = 0) -> None:
        """Adds a batch. `at_ms` is the time of those steps that have none yet."""
        if self.full or self._file.closed:
            return
        timed = [step if step.at_ms else msgspec.structs.replace(step, at_ms=at_ms) for step in steps]
        data = self._encoder.encode_lines(timed)
        if self._size + len(data) > self._bytes_max:
            self._stop(f"it would grow beyond {self._bytes_max:,} bytes")
            return
        try:
            written = self._file.write(data)
        except OSError as error:
            self._stop(str(error.strerror))
            return
        self._size += written
        if written < len(data):
            self._stop("the disk took only a part of a batch")

    def close(self) -> None:
        self._file.close()

    def _stop(self, why: str) -> None:
        self.full = True
        self._say(f"the trace {self._path} ends here, the group goes on: {why}")


def read_steps(paths: Sequence[Path]) -> list[Step]:
    """All steps of these files, in the order of their lines; `-` is the standard input.

    A last line without an end is left out if it cannot be read: its writer is still at it, or was killed.
    """
    steps: list[Step] = []
    decoder = msgspec.json.Decoder(Step)
    for path in paths:
        for number, line in _lines(path):
            try:
                step = decoder.decode(line)
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
                if line.endswith(b"\n"):
                    raise UsageError(f"{path}, line {number}: this is no step of a group: {error}") from error
                continue
            _check(step, path, number)
            if len(steps) >= STEPS_MAX:
                raise UsageError(f"{path}, line {number}: more than {STEPS_MAX:,} steps: cut the trace with `tail`")
            steps.append(step)
    return steps


def _check(step: Step, path: Path, number: int) -> None:
    if not step.name or not step.member:
        raise UsageError(f"{path}, line {number}: this is no step of a group: its name or its member is empty")


def _lines(path: Path) -> Iterator[tuple[int, bytes]]:
    """(number, line), without those that are empty."""
    try:
        if str(path) == STDIN:
            yield from _lines_of(sys.stdin.buffer, path)
        else:
            with open(path, "rb") as file:
                yield from _lines_of(file, path)
    except OSError as error:
        raise UsageError(f"the trace {path} cannot be read: {error.strerror}") from error


def _lines_of(file: BinaryIO, path: Path) -> Iterator[tuple[int, bytes]]:
    number = 0
    while line := file.readline(LINE_BYTES_MAX + 1):
        number += 1
        if len(line) > LINE_BYTES_MAX:
            raise UsageError(f"{path}, line {number}: longer than {LINE_BYTES_MAX:,} bytes: this is no trace")
        if line.strip():
            yield number, line
