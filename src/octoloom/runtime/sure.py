"""Keeps a core that is not sure of itself from going on."""

from __future__ import annotations

from collections.abc import Callable

from octoloom.core.errors import ProtocolError


class Sure:
    """Around every call of a core: whatever is not a peer's fault is a broken invariant, and goes no further."""

    __slots__ = ("_on_broken",)

    def __init__(self, on_broken: Callable[[Exception], None]) -> None:
        self._on_broken = on_broken

    def __enter__(self) -> None:
        pass

    def __exit__(self, _kind: object, error: BaseException | None, _traceback: object) -> bool:
        if error is None or isinstance(error, ProtocolError) or not isinstance(error, Exception):
            return False
        self._on_broken(error)
        return True
