"""The log against a dumb twin, a list of batches, through random lives with crashes.

A crash is a copy of the directory, made worse: what was not synced is cut off, torn, or zeroed, names that were not
synced are gone, and an index that was not synced may be missing, empty, or the one before.
"""

from __future__ import annotations

import random
import shutil
from pathlib import Path
from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st

from octoloom.storage.log import Log, LogSettings
from octoloom.storage.reader_cache import ReaderCache
from octoloom.wire.kafka.batches import read_header
from tests.storage.log_batches import append, make_batch, quick_directory, read_all

SETTINGS = LogSettings(segment_bytes=700, index_bytes=150, checkpoint_bytes=300)

share = st.integers(0, 100)
steps = st.one_of(
    st.tuples(st.just("append"), st.lists(st.tuples(st.integers(70, 250), st.integers(1, 4)), min_size=1, max_size=6)),
    st.tuples(st.just("append"), st.lists(st.tuples(st.integers(70, 250), st.integers(1, 4)), min_size=1, max_size=6)),
    st.tuples(st.just("epoch"), st.integers(1, 3)),
    st.tuples(st.just("time"), st.integers(-30, 200)),
    st.tuples(st.just("sync"), share),
    st.tuples(st.just("truncate"), share),
    st.tuples(st.just("trim"), share),
    st.tuples(st.just("retain"), share),
    st.tuples(st.just("expire"), share),
    st.tuples(st.just("reset"), share),
    st.tuples(st.just("reopen"), share),
    st.tuples(st.just("crash"), st.integers(0, 1 << 30)),
)


class Life:
    """A log and its twin, always in the same condition."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.lives = 0
        self.cache = ReaderCache(readers_max=2)
        self.log = Log.open(path / "0", SETTINGS, self.cache)
        self.batches: list[bytes] = []
        self.base = self.start = self.synced = 0
        self.epoch, self.time = 0, 1000
        self.older_indexes: dict[str, bytes] = {}
        self.durable_names: set[str] = set()

    @property
    def end(self) -> int:
        return read_header(self.batches[-1]).next_offset if self.batches else self.base

    def pick(self, part: int) -> int:
        return self.start + (self.end - self.start) * part // 100

    def run(self, step: str, value: Any) -> None:
        getattr(self, f"on_{step}")(value)
        self.compare()

    def compare(self) -> None:
        log = self.log
        assert (log.start, log.end) == (self.start, self.end)
        assert self.synced <= log.synced <= log.end
        # Retention and trimming remove whole segments only, so the files may begin before the log does.
        kept = [batch for batch in self.batches if read_header(batch).next_offset > self.start]
        assert read_all(log, bytes_max=400) == kept
        assert log.epochs == self.epochs(kept)
        assert [header.base_offset for header in log.headers(self.start)] == [read_header(b).base_offset for b in kept]
        assert log.size == sum(path.stat().st_size for path in Path(log.path).glob("*.log"))
        assert len(self.cache) <= 2

    def epochs(self, kept: list[bytes]) -> list[tuple[int, int]]:
        if not kept:
            # Even a log without batches may know which epoch it was in.
            return self.log.epochs if all(start == self.start for _, start in self.log.epochs) else []
        starts: list[tuple[int, int]] = []
        for header in map(read_header, kept):
            if not starts or header.leader_epoch > starts[-1][0]:
                starts.append((header.leader_epoch, max(header.base_offset, self.start)))
        return starts

    def on_append(self, shapes: list[tuple[int, int]]) -> None:
        batches, offset = [], self.end
        for size, count in shapes:
            batches.append(make_batch(offset, size, self.epoch, self.time, count))
            offset += count
            self.time += 7
        append(self.log, batches)
        self.batches += batches

    def on_epoch(self, more: int) -> None:
        self.epoch += more

    def on_time(self, more: int) -> None:
        """Asks for a time, too: the first record that is not older, found by looking at all of them."""
        self.time += more
        asked = self.time - 3 * more
        expected = None
        for header in map(read_header, self.batches):
            for delta in range(header.count):
                offset, time = header.base_offset + delta, header.base_timestamp + delta
                if expected is None and offset >= self.start and time >= asked:
                    expected = (offset, time)
        assert self.log.offset_at(asked, self.end) == expected
        if expected is not None:
            assert self.log.offset_at(asked, expected[0]) is None
            assert self.log.offset_at(asked, expected[0] + 1) == expected

    def on_sync(self, _: int) -> None:
        for path in Path(self.log.path).glob("*.index"):
            self.older_indexes[path.name] = path.read_bytes()
        assert self.log.sync() == self.end
        self.synced = self.end
        self.durable_names = {path.name for path in Path(self.log.path).glob("*.log")}

    def on_truncate(self, part: int) -> None:
        offset = self.pick(part)
        if offset < self.end:
            self.batches = [batch for batch in self.batches if read_header(batch).next_offset <= offset]
            self.start = min(self.start, self.end)
            assert self.log.truncate(offset) == self.end
            self.settle()
        assert self.log.truncate(offset) == self.end

    def on_trim(self, part: int) -> None:
        self.start = self.pick(part)
        self.log.trim(self.start)

    def on_retain(self, part: int) -> None:
        before = self.log.start
        moved = self.log.retain(0, -1, self.log.size * part // 100, self.synced)
        assert moved == (self.log.start > before)
        assert self.log.size >= self.log.size * part // 100
        self.start = self.log.start

    def on_expire(self, part: int) -> None:
        times = [read_header(batch).max_timestamp for batch in self.batches]
        now = max(times, default=0) * part // 100 + 500
        self.log.retain(now, 500, -1, self.end)
        gone = [h for h in map(read_header, self.batches) if self.start < h.next_offset <= self.log.start]
        assert all(header.max_timestamp < now - 500 for header in gone)
        self.start = self.log.start

    def on_reset(self, part: int) -> None:
        self.base = self.start = self.end + part - 50 if self.end > 50 else part
        self.batches = []
        self.log.reset(self.base)
        self.settle()

    def on_reopen(self, _: int) -> None:
        self.log.close()
        self.log = Log.open(self.log.path, SETTINGS, self.cache)
        self.settle()

    def on_crash(self, seed: int) -> None:
        self.lives += 1
        place = self.path / str(self.lives)
        shutil.copytree(self.log.path, place)
        positions = {path.name: self.synced_size(path) for path in place.glob("*.log")}
        worsen(place, positions, self.older_indexes, random.Random(seed))
        shutil.rmtree(self.log.path)
        self.log = Log.open(place, SETTINGS, self.cache)
        assert self.synced <= self.log.end <= self.end
        self.batches = [batch for batch in self.batches if read_header(batch).next_offset <= self.log.end]
        if not self.batches and self.log.end == self.start:
            self.base = self.start  # all is lost, and the log goes on where it had been trimmed
        assert self.end == self.log.end
        self.start = min(self.start, self.end)
        self.settle()

    def synced_size(self, path: Path) -> int | None:
        """How many bytes of a segment are sure to survive; None if not even its name is."""
        base, size = int(path.stem), 0
        for batch in self.batches:
            header = read_header(batch)
            if header.base_offset >= base and header.next_offset <= self.synced:
                size += header.size
        return min(size, path.stat().st_size) if path.name in self.durable_names else None

    def settle(self) -> None:
        """Everything is durable now, and no older index can come back."""
        self.synced = self.end
        self.durable_names = {path.name for path in Path(self.log.path).glob("*.log")}
        self.older_indexes.clear()


def worsen(place: Path, synced: dict[str, int | None], older: dict[str, bytes], dice: random.Random) -> None:
    """What a loss of power may do to files that were not synced. Names are lost in the order of a file system's
    journal: the newest first."""
    lost = False
    for name, sure in sorted(synced.items()):
        path = place / name
        data = path.read_bytes()
        if sure is None:
            lost = lost or dice.random() < 0.3
            if lost:
                path.unlink()
                continue
            sure = 0
        cut = dice.randint(sure, len(data))
        tail = bytearray(data[cut:])
        fate = dice.choice(["keep", "cut", "zeros", "noise"])
        if fate == "cut":
            tail = bytearray()
        elif fate == "zeros":
            tail = bytearray(len(tail))
        elif fate == "noise" and tail:
            tail = bytearray(dice.randbytes(len(tail)))
        path.write_bytes(data[:cut] + tail)
    for path in sorted(place.glob("*.index")):
        fate = dice.choice(["keep", "keep", "older", "empty", "gone"])
        if fate == "older" and path.name in older:
            path.write_bytes(older[path.name])
        elif fate == "empty":
            path.write_bytes(b"")
        elif fate == "gone":
            path.unlink()


@settings(deadline=None, max_examples=150)
@given(st.lists(steps, max_size=30))
@example([("append", [(70, 2)]), ("trim", 50), ("append", [(70, 1)]), ("crash", 1)])
def test_a_log_is_a_list_of_batches(history: list[tuple[str, Any]]) -> None:
    with quick_directory() as path:
        life = Life(path)
        for step, value in history:
            life.run(step, value)
        life.on_reopen(0)
        life.compare()
        life.log.close()
