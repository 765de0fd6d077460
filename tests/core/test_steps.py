"""Steps have the names of the slides, each its own, and come back from a file as they were."""

from __future__ import annotations

import msgspec

from octoloom.core import steps
from octoloom.core.steps import BUFFERED, VIEW, Step

NAMES = {name: value for name, value in vars(steps).items() if name.isupper()}


def test_each_step_has_a_name_of_its_own() -> None:
    assert len(set(NAMES.values())) == len(NAMES)
    assert all(value[0].isupper() and value.isalnum() for value in NAMES.values())


def test_a_step_comes_back_as_it_was_and_says_no_more_than_it_has_to() -> None:
    full = Step(BUFFERED, "C", "B", 1, {"A": 0, "B": 1}, ("A", 1), ["A", "B"], 3, 17, "text")
    for step in (full, Step(VIEW, "A")):
        assert msgspec.json.decode(msgspec.json.encode(step), type=Step) == step
    assert msgspec.json.decode(msgspec.json.encode(Step(VIEW, "A"))) == {"name": VIEW, "member": "A"}
