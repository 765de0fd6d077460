"""What a broker's core may ask for is named in one place, so that a driver can be shown to obey all of it."""

from __future__ import annotations

from dataclasses import is_dataclass
from typing import get_args

from octoloom.core import broker_effects
from octoloom.core.broker_effects import Effect


def test_every_effect_is_named_and_is_a_value() -> None:
    made_here = [
        each
        for each in vars(broker_effects).values()
        if isinstance(each, type) and each.__module__ == broker_effects.__name__
    ]
    assert set(get_args(Effect)) == set(made_here)
    for effect in made_here:
        assert is_dataclass(effect)
        assert effect.__dataclass_params__.frozen  # type: ignore[attr-defined]
