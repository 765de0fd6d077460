"""What a member of a consumer group has to say, in order, and the one question of its way in that is under way."""

from __future__ import annotations

from octoloom.core.consumer_member_messages import Ask, Effect, Request


class Questions:
    def __init__(self) -> None:
        self._last_ticket = 0
        self._effects: list[Effect] = []
        self.step = 0
        """The ticket of a question on the way in or out, 0 for none. An answer to any other comes too late."""
        self.again_at: int | None = None
        """When that is asked again."""

    def add(self, *effects: Effect) -> None:
        self._effects += effects

    def ask(self, request: Request) -> int:
        """Its ticket."""
        self._last_ticket += 1
        self.add(Ask(self._last_ticket, request))
        return self._last_ticket

    def ask_step(self, request: Request) -> None:
        self.again_at = None
        self.step = self.ask(request)

    def drop_step(self) -> None:
        self.step, self.again_at = 0, None

    def take(self) -> list[Effect]:
        effects, self._effects = self._effects, []
        return effects
