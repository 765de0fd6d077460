"""Acknowledgements, from files of JSON lines: what producers and devices were told, one object on each line.

    {"topic": "moves", "partition": 3, "offset": 1204, "key": "ada"}
    {"space": "lobby", "device": "ada", "sequencer": 5, "outcome": "applied", "version": 97}

`key` and `version` may be left out. Whatever else an object has is ignored, so a producer's own log will often do.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import msgspec

from octoloom.core.acknowledged import LINES_MAX, Settled, Written
from octoloom.core.errors import UsageError

LINE_BYTES_MAX = 64 * 1024


class Told(msgspec.Struct):
    """By space, and by topic and partition."""

    settled: dict[str, list[Settled]] = {}
    written: dict[tuple[str, int], list[Written]] = {}

    def __len__(self) -> int:
        return sum(map(len, self.settled.values())) + sum(map(len, self.written.values()))


def read_acknowledgements(paths: Iterable[Path]) -> Told:
    told = Told()
    settled, written = msgspec.json.Decoder(Settled), msgspec.json.Decoder(Written)
    count = 0
    for path in paths:
        try:
            with open(path, "rb") as file:
                for number, line in enumerate(file, start=1):
                    if not line.strip():
                        continue
                    count += 1
                    if count > LINES_MAX or len(line) > LINE_BYTES_MAX:
                        raise UsageError(f"{path}, line {number}: too much: at most {LINES_MAX:,} lines are held")
                    _add(told, line, settled, written, f"{path}, line {number}")
        except OSError as error:
            raise UsageError(f"the acknowledgements {path} cannot be read: {error.strerror}") from error
    return told


def _add(
    told: Told, line: bytes, settled: msgspec.json.Decoder[Settled], written: msgspec.json.Decoder[Written], where: str
) -> None:
    try:
        if b'"topic"' in line:
            record = written.decode(line)
            told.written.setdefault((record.topic, record.partition), []).append(record)
        else:
            outcome = settled.decode(line)
            told.settled.setdefault(outcome.space, []).append(outcome)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        text = f"{where}: this is no acknowledgement ({error})"
        raise UsageError(
            f"{text}: it has topic, partition and offset, or space, device, sequencer and outcome"
        ) from error
