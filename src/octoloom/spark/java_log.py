"""Where Spark's Java writes: a directory for each process that starts one, with two files.

`spark.log` is what Spark logs, of a bounded size (see log4j2.properties). `java.err` is what Java and the Python
workers write to standard output and standard error. The directories of processes that are gone are kept for a while,
because a log is wanted after the end, and no more than the newest few.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import psutil

KEPT_MAX = 10
LINE_MAX = 400


@dataclass(frozen=True, slots=True)
class JavaLog:
    path: Path

    @classmethod
    def fresh(cls, place: Path) -> JavaLog:
        place.mkdir(parents=True, exist_ok=True)
        _sweep(place)
        path = place / f"{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}"
        path.mkdir(exist_ok=True)
        return cls(path)

    def options(self, settings: Path) -> str:
        """What Java is told of it."""
        return f'"-Dlog4j2.configurationFile={settings.as_uri()}" "-Doctoloom.spark.log={self.path / "spark.log"}"'

    @contextlib.contextmanager
    def raw(self) -> Iterator[BinaryIO]:
        with (self.path / "java.err").open("ab") as file:
            yield file

    def last_line(self) -> str:
        """The last thing that was said, which is why it ended if it ended early."""
        lines: list[str] = []
        for name in ("spark.log", "java.err"):
            with contextlib.suppress(OSError):
                lines += (self.path / name).read_text(errors="replace").split("\n")
        said = [line.strip() for line in lines if line.strip()]
        return said[-1][:LINE_MAX] if said else "it said nothing"


def _sweep(place: Path) -> None:
    gone = [path for path in sorted(place.iterdir()) if path.is_dir() and not _is_running(path.name)]
    for path in gone[:-KEPT_MAX]:
        shutil.rmtree(path, ignore_errors=True)


def _is_running(name: str) -> bool:
    pid = name.rpartition("-")[2]
    return pid.isdigit() and psutil.pid_exists(int(pid))
