"""A line of versions: each batch goes on from the one before, whatever is run again or dies on the way."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from octoloom.core.errors import StoreError, UsageError
from octoloom.spark import state_files
from octoloom.spark.state_files import StateFiles


def test_a_batch_goes_on_from_the_newest_version_before_it(tmp_path: Path) -> None:
    files = StateFiles(tmp_path / "moves-0")
    assert files.newest(0) is None
    assert files.read(None) == {}
    files.write(0, 10, {"a": b"1", "b": b"1"})
    files.write(3, 20, {"b": b"2"})
    assert files.read(files.newest(9)) == {"a": b"1", "b": b"2"}
    assert files.read(files.newest(3)) == {"a": b"1", "b": b"1"}
    # Run again, the batch starts from where it started before.
    files.write(3, 20, {"b": b"3"})
    assert files.read(files.newest(4)) == {"a": b"1", "b": b"3"}
    assert files.read(files.newest(4), since=0) == {"b": b"3"}


@pytest.mark.parametrize("seed", range(20))
def test_long_lines_hold_what_a_dict_holds_and_stay_short_on_disk(seed: int, tmp_path: Path) -> None:
    dice = random.Random(seed)
    folder = tmp_path / "moves-0"
    whole: dict[str, bytes] = {}
    before: dict[str, bytes] = {}
    batch = 0
    for _ in range(60):
        batch += dice.randint(1, 3)
        files = StateFiles(folder)
        again = dice.random() < 0.3
        for _ in range(2 if again else 1):
            assert files.read(files.newest(batch)) == whole
            changes = {dice.choice("abcdef"): dice.randbytes(3) for _ in range(dice.randint(0, 3))}
            before, after = whole, {**whole, **changes}
            files.write(batch, batch * 10, changes)
        # The one before can still be read: it is needed if this batch is run once more.
        assert files.read(files.newest(batch)) == before
        whole = after
    assert len(list(folder.iterdir())) <= 2 * (state_files.DELTAS_MAX + 2)


def test_a_damaged_or_incomplete_line_is_noticed(tmp_path: Path) -> None:
    files = StateFiles(tmp_path)
    version = files.write(1, 10, {"a": b"content"})
    path = tmp_path / version.file
    data = path.read_bytes()
    for at in range(len(data)):
        path.write_bytes(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :])
        with pytest.raises(StoreError, match="damaged"):
            files.read(version)
        path.write_bytes(data[:at])
        with pytest.raises(StoreError, match="damaged"):
            files.read(version)
    path.write_bytes(data)
    delta = files.write(2, 20, {"b": b"x"})
    assert delta.kind == "delta"
    path.unlink()
    with pytest.raises(StoreError, match="without what they changed"):
        files.read(delta)


def test_what_a_dying_writer_left_beside_is_not_looked_at(tmp_path: Path) -> None:
    files = StateFiles(tmp_path)
    version = files.write(1, 10, {"a": b"1"})
    (tmp_path / f".{version.file}-77").write_bytes(b"half a f")
    assert files.read(files.newest(9)) == {"a": b"1"}


def test_a_partition_comes_in_one_task_of_a_run(tmp_path: Path) -> None:
    files = StateFiles(tmp_path / "moves-0")
    files.claim(4, "run1-7", 0)
    files.claim(4, "run1-7", 0)  # the same task, tried again
    with pytest.raises(UsageError, match="moves-0 come in several tasks"):
        files.claim(4, "run1-7", 1)
    files.claim(4, "run2-1", 3)  # the batch is run again by another driver
    with pytest.raises(UsageError, match="several tasks"):
        files.claim(4, "run2-1", 0)
    files.claim(5, "run2-2", 0)
    files.write(5, 9, {})
    assert sorted(path.name for path in (tmp_path / "moves-0").glob("*.claim")) == ["000000000005.claim"]
