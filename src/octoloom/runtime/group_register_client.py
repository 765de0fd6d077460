"""A group member's line to the register: it enlists, beats, and is told the views of its group.

A member that is refused for good, or is told a view that it is not in since it left, has nothing to come back for: the
line then stays down. While no register answers the group goes on in the view that it has.
"""

from __future__ import annotations

from collections.abc import Callable

from octoloom.core.group_messages import EnlistMember, GroupView, MemberToRegister
from octoloom.core.register_messages import Declined
from octoloom.runtime.register_line import RegisterLine
from octoloom.wire.register import Answer, Request


class MemberClient:
    """Keeps a connection to the register at `address`.

    `greet` gives the `EnlistMember` of each new connection. `on_view` is called for every view with a new epoch, in
    order, and last, if the member left, for the one without it. `on_declined` is called for every refusal; after one in
    `register_line.FINAL` the client stops.
    """

    def __init__(
        self,
        address: str,
        greet: Callable[[], EnlistMember],
        on_view: Callable[[GroupView], None],
        on_declined: Callable[[Declined], None] | None = None,
        beat_ms: int = 50,
    ) -> None:
        self.address = address
        self._enlist = greet
        self._on_view = on_view
        self._on_declined = on_declined
        self._member = ""
        self.line = RegisterLine(address, self._greet, self._on_answer, beat_ms)
        self.view: GroupView | None = None
        """The newest that was told."""

    @property
    def connected(self) -> bool:
        return self.line.connection is not None

    def start(self) -> None:
        """Begins to connect; needs a running loop."""
        self.line.start()

    async def stop(self) -> None:
        await self.line.stop()

    def say(self, message: MemberToRegister) -> bool:
        """Sends a message. False while there is no connection: then it is lost, and to be said again."""
        return self.line.say(message)

    def _greet(self) -> list[Request]:
        greeting = self._enlist()
        self._member = greeting.address.member
        return [greeting]

    def _on_answer(self, answer: Answer) -> None:
        match answer:
            case GroupView():
                is_out = self._member not in answer.names
                if is_out:
                    self.line.end()
                if is_out or self.view is None or answer.epoch > self.view.epoch:
                    self.view = answer
                    self._on_view(answer)
            case Declined() if self._on_declined is not None:
                self._on_declined(answer)
