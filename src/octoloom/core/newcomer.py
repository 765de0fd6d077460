"""How a newcomer gets the app's state: from a member that was there before, where the newcomer's first view begins.

Until it has come nothing is handed to its app, and its app's own messages wait. If the giver is lost, the next view's
state covers all that was held back for the one before. Whoever gives it need not be who says that the view begins, so
the state may come first: the newest such is kept.
"""

from __future__ import annotations

from collections.abc import Callable

from octoloom.core.group_effects import Deliver, Effect, NeedState, TakeState
from octoloom.core.group_messages import Install

HELD_MAX = 65_536
"""So many deliveries are held until the state is there; then no more casts are taken, and they come again."""


class Newcomer:
    def __init__(self, me: str, wants_state: bool, emit: Callable[[Effect], None]) -> None:
        self._me = me
        self._emit = emit
        self.lacks_state = wants_state
        self.waits = False
        """For the state of the view that is installed."""
        self._epoch = 0
        self._early: tuple[int, bytes] | None = None
        """The state of a view that was not installed here when it came."""
        self._held: list[Deliver] = []

    @property
    def full(self) -> bool:
        return len(self._held) >= HELD_MAX

    def on_installed(self, install: Install) -> None:
        self._epoch = install.view.epoch
        self._held.clear()
        # The state of the view before may have come after it was reported missing.
        self.waits = self.lacks_state and self._me in install.newcomers
        if self.lacks_state and not self.waits:
            self.lacks_state = False
            self._emit(TakeState(None))
        giver = next((member for member in install.view.names if member not in install.newcomers), "")
        if install.newcomers and giver == self._me:
            self._emit(NeedState(self._epoch, install.newcomers))
        if self._early is not None and self._early[0] <= self._epoch:
            early, self._early = self._early, None
            self.on_state(*early)

    def on_state(self, epoch: int, payload: bytes) -> bool:
        """Whether this was the state that the member waits for."""
        if self.lacks_state and epoch > max(self._epoch, self._early[0] if self._early is not None else 0):
            self._early = epoch, payload
        if not self.waits or epoch != self._epoch:
            return False
        self.waits = self.lacks_state = False
        self._early = None
        self._emit(TakeState(payload))
        for deliver in self._held:
            self._emit(deliver)
        self._held.clear()
        return True

    def hand_over(self, deliver: Deliver) -> None:
        if self.waits:
            self._held.append(deliver)
        else:
            self._emit(deliver)
