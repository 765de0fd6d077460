"""How a bug is planted: for a while, one method of a core is replaced by a wrong one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import Any

Plants = dict[str, Callable[[], AbstractContextManager[None]]]
Wrong = Callable[..., Any]


def planting(plants: Plants) -> Callable[[type, str], Callable[[Wrong], Wrong]]:
    """A decorator that enters a function in `plants` as a wrong `owner.name`; it is given the right one first."""

    def plant(owner: type, name: str) -> Callable[[Wrong], Wrong]:
        def register(wrong: Wrong) -> Wrong:
            @contextmanager
            def planted() -> Iterator[None]:
                right = owner.__dict__[name]
                call = right.__func__ if isinstance(right, staticmethod) else right
                value = property(lambda self: wrong(right.fget, self)) if isinstance(right, property) else None
                setattr(owner, name, value or (lambda *args, **kwargs: wrong(call, *args, **kwargs)))
                try:
                    yield
                finally:
                    setattr(owner, name, right)

            plants[wrong.__name__] = planted
            return wrong

        return register

    return plant


def together(plants: Plants, *wrongs: Wrong) -> None:
    """Makes one plant of several, each of which would be harmless alone. It has the first one's name."""
    parts = [plants.pop(wrong.__name__) for wrong in wrongs]

    @contextmanager
    def planted() -> Iterator[None]:
        with ExitStack() as stack:
            for part in parts:
                stack.enter_context(part())
            yield

    plants[wrongs[0].__name__] = planted
