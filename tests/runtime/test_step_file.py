"""Traces as files: what is written is read, and what cannot be read is named."""

from __future__ import annotations

import io
import sys
from pathlib import Path

import pytest

from octoloom.core.errors import UsageError
from octoloom.core.steps import BUFFERED, DELIVERED, SENT, Step
from octoloom.runtime import step_file
from octoloom.runtime.step_file import StepWriter, read_steps

ADA, BOB = "ada#1", "bob#1"
SAID = Step(SENT, ADA, ADA, 1, {ADA: 1, BOB: 0}, text="Done?", at_ms=5)
HELD = Step(BUFFERED, BOB, ADA, 2, {ADA: 0, BOB: 0}, waits_for=(ADA, 1), at_ms=6)
HEARD = Step(DELIVERED, BOB, ADA, 1, {ADA: 1, BOB: 0})


def test_what_is_written_is_read(tmp_path: Path) -> None:
    path = tmp_path / "ada.steps"
    with StepWriter(path) as writer:
        writer.write([SAID, HELD])
        assert read_steps([path]) == [SAID, HELD]  # before it is closed: a batch does not wait for another
        writer.write([])
    with StepWriter(path) as writer:
        writer.write([HEARD], at_ms=7)
    writer.write([SAID])  # after the end: nobody is listening any more
    [_, _, heard] = read_steps([path])
    assert heard.at_ms == 7
    assert len(path.read_bytes().splitlines()) == 3


def test_the_own_time_of_a_step_stays(tmp_path: Path) -> None:
    with StepWriter(tmp_path / "t") as writer:
        writer.write([SAID], at_ms=99)
    assert read_steps([tmp_path / "t"]) == [SAID]


def test_a_full_file_takes_whole_batches_or_nothing_and_says_so_once(tmp_path: Path) -> None:
    path, said = tmp_path / "t", list[str]()
    with StepWriter(path, bytes_max=300, say=said.append) as writer:
        for _ in range(10):
            writer.write([SAID])
        assert writer.full
    assert path.stat().st_size <= 300
    assert 1 <= len(read_steps([path])) < 10
    assert len(said) == 1
    assert "the group goes on" in said[0]
    before = path.read_bytes()
    with StepWriter(path, bytes_max=300, say=said.append) as writer:  # a restart does not make room
        writer.write([SAID])
    assert path.read_bytes() == before
    assert len(said) == 2


def test_a_full_disk_ends_the_trace_and_not_the_group() -> None:
    full, said = Path("/dev/full"), list[str]()
    if not full.exists():
        pytest.skip("this system has no /dev/full")
    with StepWriter(full, say=said.append) as writer:
        writer.write([SAID])
        writer.write([SAID])
    assert len(said) == 1
    assert "No space left" in said[0]


def test_a_place_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="nowhere/t cannot be written"):
        StepWriter(tmp_path / "nowhere" / "t")


def test_several_files_are_one_trace(tmp_path: Path) -> None:
    for name, step in (("a", SAID), ("b", HELD)):
        with StepWriter(tmp_path / name) as writer:
            writer.write([step])
    both = tmp_path / "both"
    both.write_bytes((tmp_path / "b").read_bytes() + b"\n  \n" + (tmp_path / "a").read_bytes())
    assert read_steps([tmp_path / "a", tmp_path / "b"]) == [SAID, HELD]
    assert read_steps([both]) == [HELD, SAID]


def test_standard_input(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with StepWriter(tmp_path / "t") as writer:
        writer.write([SAID])
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO((tmp_path / "t").read_bytes())))
    assert read_steps([Path("-")]) == [SAID]


@pytest.mark.parametrize(
    ("line", "says"),
    [
        (b"hello\n", "line 2: this is no step"),
        (b'{"name": "x"}\n', "line 2: this is no step.*member"),
        (b'{"name": "", "member": "ada#1"}\n', "line 2: .* is empty"),
        (b'{"name": "x", "member": "a", "number": "one"}\n', "line 2: .*number"),
        (b'{"name": "x\xff", "member": "a"}\n', "line 2: this is no step"),
        (b'{"x": ' + b"[" * 100_000 + b"\n", "line 2: this is no step"),
    ],
)
def test_a_bad_line_is_named(line: bytes, says: str, tmp_path: Path) -> None:
    path = tmp_path / "t"
    with StepWriter(path) as writer:
        writer.write([SAID])
    with path.open("ab") as file:
        file.write(line)
    with pytest.raises(UsageError, match=f"{path}, {says}"):
        read_steps([path])


def test_the_torn_end_of_a_killed_writer_costs_one_line(tmp_path: Path) -> None:
    path = tmp_path / "t"
    with StepWriter(path) as writer:
        writer.write([SAID, HELD])
    path.write_bytes(path.read_bytes()[:-10])
    assert read_steps([path]) == [SAID]
    with StepWriter(path) as writer:
        writer.write([HEARD])
    assert path.read_bytes().splitlines()[2].startswith(b'{"name":"VectorTimeStampedMessageDelivered"')


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="nothing cannot be read"):
        read_steps([tmp_path / "nothing"])
    with pytest.raises(UsageError, match="cannot be read: Is a directory"):
        read_steps([tmp_path])


def test_reading_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "t"
    with StepWriter(path) as writer:
        writer.write([SAID] * 3)
    monkeypatch.setattr(step_file, "STEPS_MAX", 3)
    assert len(read_steps([path])) == 3
    with pytest.raises(UsageError, match="line 1: more than 3 steps"):
        read_steps([path, path])
    monkeypatch.setattr(step_file, "LINE_BYTES_MAX", 50)
    with pytest.raises(UsageError, match="line 1: longer than 50 bytes"):
        read_steps([path])
