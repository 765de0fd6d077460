"""Steps get their time, and the words of the message that they are about."""

from __future__ import annotations

from pathlib import Path

from octoloom.core.group_effects import Effect, InstallView, ToMembers
from octoloom.core.group_messages import Bundle, Cast, Forward, GroupView, Numbered
from octoloom.core.steps import DELIVERED, FORWARDED, ORDERED, SENT, VIEW, Step
from octoloom.runtime.group_steps import TEXT_MAX, StepSink
from octoloom.runtime.step_file import StepWriter, read_steps
from octoloom.wire.group import encode_bodies


def bundle(number: int, *bodies: object) -> Bundle:
    return Bundle("ada#1", number, len(bodies), encode_bodies(bodies))


def test_steps_are_told_with_their_words_and_nothing_else_is() -> None:
    told: list[Step] = []
    forward = Forward(1, [bundle(3, "third", 3)])
    effects: list[Effect] = [
        Step(SENT, "ada#1", "ada#1", 7),
        ToMembers(["bob#1"], Cast(1, "ada#1", 7, [bundle(1, "Done?")])),
        InstallView(GroupView("room", 1, "fifo", []), [], []),
        Step(FORWARDED, "ada#1", "ada#1", 3),
        ToMembers(["bob#1"], Numbered(1, forward)),
        Step(ORDERED, "ada#1", "ada#1", 1),
        Step(DELIVERED, "ada#1", "ada#1", 1),
        Step(VIEW, "ada#1", text="fifo"),
    ]
    sink = StepSink(told.append)
    sink.write(effects)
    sink.write(effects[1:3])
    sink.close()
    assert [(step.name, step.text) for step in told] == [
        (SENT, "Done?"),
        (FORWARDED, "third, 3"),
        (ORDERED, "Done?"),
        (DELIVERED, ""),
        (VIEW, "fifo"),
    ]
    assert all(step.at_ms > 1_000_000_000_000 for step in told)


def test_long_and_unreadable_words_are_cut() -> None:
    told: list[Step] = []
    bundles = [Bundle("ada#1", 1, 1, b"\xc1"), bundle(2, "x" * 1000)]
    cast: Effect = ToMembers(["bob#1"], Cast(1, "ada#1", 1, bundles))
    StepSink(told.append).write([Step(SENT, "ada#1", "ada#1", 1), cast])
    assert told[0].text == "x" * (TEXT_MAX - 1) + "…"


def test_files_and_writers(tmp_path: Path) -> None:
    sink = StepSink(str(tmp_path / "own"))
    sink.write([Step(VIEW, "ada#1")])
    sink.close()
    assert [step.name for step in read_steps([tmp_path / "own"])] == [VIEW]
    with StepWriter(tmp_path / "shared") as writer:
        for _ in range(2):
            sink = StepSink(writer)
            sink.write([Step(VIEW, "ada#1")])
            sink.close()  # the writer is somebody else's
    assert len(read_steps([tmp_path / "shared"])) == 2
