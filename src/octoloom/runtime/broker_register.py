"""A broker's line to the register: it enlists, beats, is told, and asks.

What the register tells goes to `on_message` in order. Two kinds of answers belong to questions and stay here: those to
requests about topics, by their tickets, and those to `Allot`, which come one after the other.

Beats are answered: from that a broker knows, by its own clock, whether it may speak of what it was told (`standing`).

A question about topics is asked once. If the connection ends before the answer, nobody knows whether it was done, and
the asker is told so by Kafka's code for that. Asking for producer ids again wastes some, so that is simply done.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable

import msgspec

from octoloom.core.group_messages import GroupList, GroupView
from octoloom.core.log_messages import (
    Admin,
    AdminDone,
    Allot,
    Allotted,
    BrokerBeat,
    BrokerToRegister,
    EnlistBroker,
    Heard,
    RegisterToBroker,
)
from octoloom.core.register_messages import Declined, Directory, Leave
from octoloom.core.standing import DIAL_TRIES, Standing
from octoloom.runtime.register_line import RegisterLine
from octoloom.wire.kafka.errors import ErrorCode
from octoloom.wire.register import Answer, Request

ASK_TIMEOUT_S = 10.0
SLACK_S = 1.0
"""How much longer than the register has a request waits for its answer, which is the one that says more."""
REQUESTS_MAX = 10_000
"""Requests about topics that wait for their answers."""


class BrokerRegisterClient:
    """`enlist` gives the `EnlistBroker` of each new connection. `on_message` is never told an answer to a question.

    After a refusal in `register_line.FINAL` the client stops; `on_declined` is told of every refusal.
    """

    def __init__(
        self,
        address: str,
        enlist: Callable[[], EnlistBroker],
        on_message: Callable[[RegisterToBroker], None],
        on_declined: Callable[[Declined], None] | None = None,
        beat_ms: int = 100,
    ) -> None:
        self._enlist = enlist
        self._on_message = on_message
        self._on_declined = on_declined
        self.line = RegisterLine(
            address, self._greet, self._on_answer, beat_ms, self._on_down, self._beat, self._on_dial_failed
        )
        self.standing = Standing()
        self._ticket = 0
        self._requests: dict[int, asyncio.Future[AdminDone]] = {}
        self._allots: deque[tuple[int, asyncio.Future[Allotted]]] = deque()

    @property
    def connected(self) -> bool:
        return self.line.connection is not None

    def start(self) -> None:
        """Begins to connect; needs a running loop."""
        self.line.start()

    async def stop(self) -> None:
        await self.line.stop()
        self._on_down()
        for _, answer in self._allots:
            answer.cancel()

    def say(self, message: BrokerToRegister | Leave) -> bool:
        """False while there is no connection: then it is lost. The core says it again when it is told the directory."""
        return self.line.say(message)

    async def request(self, message: Admin, timeout_s: float = ASK_TIMEOUT_S) -> AdminDone:
        """Asks for something about a topic; its ticket is given here. Errors are Kafka's codes in the answer."""
        if len(self._requests) >= REQUESTS_MAX:
            return AdminDone(0, ErrorCode.THROTTLING_QUOTA_EXCEEDED, "too many requests about topics wait already")
        self._ticket += 1
        ticket = self._ticket
        message = msgspec.structs.replace(message, ticket=ticket, timeout_ms=int(timeout_s * 1000))
        if not self.line.say(message):
            return AdminDone(ticket, ErrorCode.NOT_CONTROLLER, "no register answers: try again once one does")
        answer: asyncio.Future[AdminDone] = asyncio.get_running_loop().create_future()
        self._requests[ticket] = answer
        try:
            async with asyncio.timeout(timeout_s + SLACK_S):
                return await answer
        except TimeoutError:
            return AdminDone(ticket, ErrorCode.REQUEST_TIMED_OUT, "the register did not answer in time")
        finally:
            self._requests.pop(ticket, None)

    async def allot(self, count: int) -> Allotted:
        """So many producer ids, for this broker alone. Waits until a register answers: bound it with a timeout."""
        answer: asyncio.Future[Allotted] = asyncio.get_running_loop().create_future()
        self._allots.append((count, answer))
        self.line.say(Allot(count))
        return await answer

    def _greet(self) -> list[Request]:
        self._allots = deque((count, answer) for count, answer in self._allots if not answer.done())
        return [self._enlist(), *(Allot(count) for count, _ in self._allots)]

    def may_speak(self) -> bool:
        """Whether what the register told may be told to clients: by the clock, since this process may have slept."""
        return self.standing.may_speak(_now_ms())

    def _beat(self) -> BrokerBeat:
        now = _now_ms()
        self.standing.on_try(now)
        return BrokerBeat(now)

    def _on_dial_failed(self) -> None:
        self.standing.on_try(_now_ms(), DIAL_TRIES)

    def _on_down(self) -> None:
        self.standing.on_lost()
        text = "the register was lost before it answered: whether it was done is not known"
        for ticket, answer in self._requests.items():
            if not answer.done():
                answer.set_result(AdminDone(ticket, ErrorCode.REQUEST_TIMED_OUT, text))

    def _on_answer(self, answer: Answer) -> None:
        match answer:
            case Heard(sent_at, lease_ms):
                self.standing.on_heard(sent_at, lease_ms)
            case AdminDone():
                waiting = self._requests.get(answer.ticket)
                if waiting is not None and not waiting.done():
                    waiting.set_result(answer)
            case Allotted():
                if self._allots:
                    _, first = self._allots.popleft()
                    if not first.done():
                        first.set_result(answer)
            case Declined():
                if self._on_declined is not None:
                    self._on_declined(answer)
            case Directory() | GroupView() | GroupList():
                pass  # of chains and groups: not asked for
            case _:
                self._on_message(answer)


def _now_ms() -> int:
    """Not by the loop's clock, which stands still during a tick: a process that is stopped in one does not see it."""
    return time.monotonic_ns() // 1_000_000
