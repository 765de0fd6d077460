"""Lines of steps, judged as a group. No Spark: what a task does, done here."""

from __future__ import annotations

import msgspec
import pytest

from octoloom.core.errors import UsageError
from octoloom.core.steps import Step
from octoloom.spark import group_verdicts
from octoloom.spark.group_verdicts import Line, judge_lines
from tests.runtime.lunch import lunch


def lines(steps: list[Step]) -> list[Line]:
    return [Line(msgspec.json.encode(step), f"line {number}") for number, step in enumerate(steps, start=1)]


def test_a_group_is_judged_by_its_lines() -> None:
    verdict = judge_lines("lunch", lines(lunch("causal")))
    assert (verdict.group, verdict.members, verdict.views, verdict.clean) == ("lunch", 3, 1, True)


@pytest.mark.parametrize("text", [None, b"", b"oops", b"{}", b'{"name": "", "member": "ada#1"}', b"\xff"])
def test_a_line_that_is_no_step_is_told_with_its_place(text: bytes | None) -> None:
    verdict = judge_lines("lunch", [*lines(lunch("causal")), Line(text, "room.steps, line 99")])
    assert verdict.counts == {"unreadable": 1}
    assert verdict.findings[0].text.startswith("room.steps, line 99: this is no step")


def test_there_are_only_so_many_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group_verdicts, "STEPS_MAX", 3)
    with pytest.raises(UsageError, match="a group is judged as a whole: cut its trace"):
        judge_lines("lunch", lines(lunch("causal")))
