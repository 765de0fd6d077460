"""What a member's core may ask for is named in one place, so that a driver can be shown to obey all of it."""

from __future__ import annotations

from dataclasses import is_dataclass
from typing import get_args

from octoloom.core import group_effects
from octoloom.core.group_effects import Effect
from octoloom.core.steps import Step


def test_every_effect_is_named_and_is_a_value() -> None:
    made_here = [
        each
        for each in vars(group_effects).values()
        if isinstance(each, type) and each.__module__ == group_effects.__name__
    ]
    assert set(get_args(Effect)) == {*made_here, Step}
    for effect in made_here:
        assert is_dataclass(effect)
        assert effect.__dataclass_params__.frozen  # type: ignore[attr-defined]
