"""What can go wrong for the app of a group's member."""

from __future__ import annotations

from typing import Any

from octoloom.core.errors import OctoloomError


class Expelled(OctoloomError):  # noqa: N818
    """The group has gone on without this member. Its app can join again, as somebody new.

    `unsure` are the bodies of one's own of which it is not known whether the others have them.
    """

    def __init__(self, text: str, unsure: list[Any] | None = None) -> None:
        super().__init__(text)
        self.unsure = unsure or []
