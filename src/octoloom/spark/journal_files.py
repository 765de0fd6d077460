"""A directory of the journal's tables: Parquet files that tasks write, and that become visible together.

    events/000000000012-00003.parquet     batch 12, task 3; the same for each table
    _octoloom/commits/000000000012.json   batch 12 is whole: its counts, and the states that it leaves
    _octoloom/states/…                    which version of each space was seen last, per partition of the topic
    _octoloom/begun/…                     what tasks have begun, and nobody reads

Exactly once, whoever dies when:

1. A task writes into a folder of its attempt, under `begun`. Nothing there counts.
2. The driver moves the files of a batch to names that follow from the batch and the task, and then writes its commit.
   A batch that is run again has the same records: if its commit is there nothing is done, otherwise what it has left
   is removed first.
3. States are named by the commit, so a batch begins from those of the last commit before it, never from later ones.
4. Voided versions are taken out of older files by writing these anew, which may be done any number of times.

Directories are local, or of a file system that all machines mount.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import uuid
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from octoloom.core.errors import StoreError, UsageError
from octoloom.spark.journal_columns import FACTS, SCHEMAS
from octoloom.spark.journal_rows import Counts

OWN = "_octoloom"
CODEC = "zstd"
COMMITS_KEPT = 100


class Commit(msgspec.Struct):
    """A batch that is whole, with the sums of all batches up to it. `query` is the stream that it is of, if any."""

    batch: int
    query: str
    counts: Counts
    tables: dict[str, int]
    """Rows that were written, by table."""
    states: dict[str, str] = {}
    """The file with the state of each partition, by its name (`place_name`)."""


class TaskFiles:
    """What one attempt of a task writes: a file per table, begun when it has rows."""

    def __init__(self, directory: Path) -> None:
        self.folder = directory / OWN / "begun" / uuid.uuid4().hex
        self.folder.mkdir(parents=True)
        self.rows: dict[str, int] = {}
        self._writers: dict[str, pq.ParquetWriter] = {}

    def write(self, batches: Mapping[str, pa.RecordBatch]) -> None:
        for name, batch in batches.items():
            writer = self._writers.get(name)
            if writer is None:
                path = self.folder / f"{name}.parquet"
                writer = self._writers[name] = pq.ParquetWriter(path, SCHEMAS[name], compression=CODEC)
            writer.write_batch(batch)
            self.rows[name] = self.rows.get(name, 0) + batch.num_rows

    def write_state(self, place: str, state: bytes) -> None:
        (self.folder / f"{place}.state").write_bytes(state)

    def close(self) -> None:
        for writer in self._writers.values():
            writer.close()


class JournalDirectory:
    """The driver's side."""

    def __init__(self, directory: Path) -> None:
        self.path = directory
        self.own = directory / OWN

    def prepare(self, *, overwrite: bool) -> None:
        """For tables that are written at once: the directory is empty, or may be emptied."""
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            found = sorted(one.name for one in self.path.iterdir())
        except OSError as error:
            raise StoreError(f"{self.path} cannot be written to: {error.strerror}") from error
        strange = [name for name in found if name not in (OWN, "spaces", "devices", *SCHEMAS)]
        if strange:
            raise UsageError(
                f"{self.path} holds {strange[0]}, which is no table of a journal: choose another directory"
            )
        if found and not overwrite:
            raise UsageError(f"{self.path} holds tables already: choose another directory, or --overwrite them")
        for name in found:
            shutil.rmtree(self.path / name)

    # Commits.

    def last_commit(self, before: int | None = None) -> Commit | None:
        """The newest, or the newest of an earlier batch than `before`."""
        paths = sorted((self.own / "commits").glob("*.json"))
        if before is not None:
            paths = [path for path in paths if int(path.stem) < before]
        return self._read_commit(paths[-1]) if paths else None

    def find_commit(self, batch: int) -> Commit | None:
        path = self._commit_path(batch)
        return self._read_commit(path) if path.exists() else None

    def _read_commit(self, path: Path) -> Commit:
        try:
            return msgspec.json.decode(path.read_bytes(), type=Commit)
        except (OSError, msgspec.DecodeError) as error:
            text = f"{path} cannot be read ({error}): the tables cannot be gone on with, choose another directory"
            raise StoreError(text) from error

    def _commit_path(self, batch: int) -> Path:
        return self.own / "commits" / f"{batch:012d}.json"

    def commit(self, commit: Commit, folders: Iterable[Path]) -> Commit:
        """Makes what tasks have written visible. Answers the commit with the states that they left."""
        label, folders = f"{commit.batch:012d}", list(folders)
        for folder in folders:
            if not folder.is_dir():
                text = f"a task has written to {folder}, which is not there on this machine"
                raise StoreError(f"{text}: choose a directory that all machines mount")
        for name in SCHEMAS:
            (self.path / name).mkdir(exist_ok=True)
            for left in (self.path / name).glob(f"{label}-*.parquet"):
                left.unlink()
        states = dict(commit.states)
        (self.own / "states").mkdir(exist_ok=True)
        for number, folder in enumerate(folders):
            for file in sorted(folder.glob("*.parquet")):
                os.replace(file, self.path / file.stem / f"{label}-{number:05d}.parquet")
            for file in sorted(folder.glob("*.state")):
                states[file.stem] = f"{file.stem}-{label}"
                os.replace(file, self.own / "states" / states[file.stem])
        self._take_out_voids(label)
        commit = msgspec.structs.replace(commit, states=states)
        path = self._commit_path(commit.batch)
        path.parent.mkdir(exist_ok=True)
        _write_atomically(path, msgspec.json.encode(commit))
        self._clean(commit)
        return commit

    def _clean(self, commit: Commit) -> None:
        """What no later batch can need: attempts that came to nothing, and states of before."""
        before = self.last_commit(commit.batch)
        kept = {*commit.states.values(), *(before.states.values() if before is not None else ())}
        for state in (self.own / "states").iterdir():
            if state.name not in kept:
                state.unlink()
        for old in sorted((self.own / "commits").glob("*.json"))[:-COMMITS_KEPT]:
            old.unlink()
        shutil.rmtree(self.own / "begun", ignore_errors=True)

    def read_state(self, commit: Commit | None, place: str) -> bytes | None:
        name = commit.states.get(place) if commit is not None else None
        return (self.own / "states" / name).read_bytes() if name is not None else None

    @contextlib.contextmanager
    def replacing(self, name: str) -> Iterator[Path]:
        """A path to write a table to that then takes the place of the one of this name."""
        made, old = (self.own / "begun" / f"{name}-{uuid.uuid4().hex}" for _ in range(2))
        made.parent.mkdir(parents=True, exist_ok=True)
        yield made
        if (self.path / name).exists():
            os.replace(self.path / name, old)
        os.replace(made, self.path / name)
        shutil.rmtree(old, ignore_errors=True)

    # Voids.

    def _take_out_voids(self, label: str) -> None:
        found = [pq.read_table(file) for file in sorted((self.path / "voids").glob(f"{label}-*.parquet"))]
        if not found:
            return
        rounds = _rounds(pa.concat_tables(found).select(["space", "generation", "version"]).to_pylist())
        about = pc.field("space").isin(rounds[0]["space"])
        for name in FACTS:
            for file in sorted((self.path / name).glob("*.parquet")):
                if pq.read_table(file, columns=["space"], filters=about).num_rows:
                    _rewrite(file, rounds)


Round = dict[str, pa.Array]
"""Voids of as many spaces, one of each."""


def _rounds(voids: list[dict[str, Any]]) -> list[Round]:
    rounds: list[dict[str, dict[str, Any]]] = []
    for void in voids:
        free = next((each for each in rounds if void["space"] not in each), None)
        if free is None:
            rounds.append(free := {})
        free[void["space"]] = void
    names = ("space", "generation", "version")
    return [{name: pa.array([void[name] for void in each.values()]) for name in names} for each in rounds]


def _rewrite(file: Path, rounds: list[Round]) -> None:
    """The file without the rows of older generations above the versions that the voids name."""
    part = file.with_name(f".{file.name}")
    with pq.ParquetFile(file) as old, pq.ParquetWriter(part, old.schema_arrow, compression=CODEC) as new:
        for batch in old.iter_batches():
            for voids in rounds:
                which = pc.index_in(batch.column("space"), voids["space"])
                older = pc.less(batch.column("generation"), voids["generation"].take(which))
                above = pc.greater(batch.column("version"), voids["version"].take(which))
                batch = batch.filter(pc.invert(pc.fill_null(pc.and_(older, above), False)))
            new.write_batch(batch)
    os.replace(part, file)


def _write_atomically(path: Path, content: bytes) -> None:
    part = path.with_suffix(".part")
    with part.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    os.replace(part, path)
    with contextlib.suppress(OSError):
        descriptor = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def place_name(topic: str, partition: int) -> str:
    return f"{topic}-{partition}"
