"""What a running cluster writes down about itself in its data directory, for the commands that look at it.

`lock` is held by the process that runs the cluster, for as long as it lives: a file that was left by a dead cluster is
told from a live one by trying it. A process is named by its number *and* its start, so that a number which the system
has given to somebody else is never taken for one of ours.
"""

from __future__ import annotations

import fcntl
import os
from pathlib import Path
from typing import TextIO

import msgspec

from octoloom.core.errors import UsageError
from octoloom.runtime.processes import is_same

CLUSTER = "cluster.json"
LOCK = "lock"


class ProcessNote(msgspec.Struct, frozen=True):
    """One process of the cluster. `kind` is register, broker or link; `pid` 0 means that it is about to restart."""

    name: str
    kind: str
    pid: int
    created: float
    address: str = ""
    peer: str = ""
    log: str = ""
    restarts: int = 0

    @property
    def running(self) -> bool:
        return self.pid != 0 and is_same(self.pid, self.created)


class ClusterNote(msgspec.Struct, frozen=True):
    pid: int
    created: float
    register: str
    app: str
    replicas: int
    chains: int
    started_ms: int
    processes: list[ProcessNote]
    updates: int = 0
    """How many rolling updates have ended, one way or the other."""
    update: str = ""
    """How far the update under way is, or how the last one ended."""


def make_directory(path: Path) -> None:
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"{path} cannot be made ({error.strerror}): name another directory with --data") from error


def lock(data: Path) -> TextIO:
    """Takes the data directory for this process; the lock ends with the file that is returned."""
    make_directory(data)
    try:
        file = (data / LOCK).open("a")
    except OSError as error:
        raise UsageError(f"{data} cannot be written ({error.strerror}): name another directory with --data") from error
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        file.close()
        text = (
            f"a cluster runs in {data} already: look at it with `octoloom status --data {data}`, or name another --data"
        )
        raise UsageError(text) from error
    return file


def write(data: Path, note: ClusterNote) -> None:
    """Replaces the note in one step: whoever reads it sees the old one or the new one."""
    text = msgspec.json.format(msgspec.json.encode(note), indent=2)
    beside = data / f"{CLUSTER}.new"
    beside.write_bytes(text)
    os.replace(beside, data / CLUSTER)


def read(data: Path) -> ClusterNote:
    """The note of the cluster that runs in `data`."""
    hint = f"no cluster runs in {data}: start one with `octoloom up --data {data}`"
    try:
        note = msgspec.json.decode((data / CLUSTER).read_bytes(), type=ClusterNote)
    except FileNotFoundError as error:
        raise UsageError(hint) from error
    except (OSError, msgspec.MsgspecError) as error:
        raise UsageError(f"{data / CLUSTER} cannot be read ({error}): remove it and start the cluster anew") from error
    if not is_same(note.pid, note.created):
        raise UsageError(hint)
    return note


def last_app(data: Path) -> str:
    """The app of the cluster that was the last to run in `data`; empty if nobody knows."""
    try:
        return msgspec.json.decode((data / CLUSTER).read_bytes(), type=ClusterNote).app
    except (OSError, msgspec.MsgspecError):
        return ""
