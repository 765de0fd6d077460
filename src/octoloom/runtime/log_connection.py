"""One connection to one broker: questions leave in order and answers come back in order, many at a time.

What is asked within one tick leaves in one write. A broker answers in the order of the questions, so an answer that
is overdue holds up all that follow. One timer per connection watches the oldest question, and none is needed for each:

- later than `SUSPECT_S`, `on_overdue` is called, now and then, for someone to find out whether the broker is still the
  right one to ask;
- later than `GIVE_UP_S`, the connection is ended, and every open question fails.

A long poll holds up what follows it, too: who polls has a connection of its own, and says how long he means to wait.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from octoloom.core.errors import ProtocolError
from octoloom.runtime.frames import FramedConnection, split_address
from octoloom.runtime.log_errors import LogError, TimedOut, Unreachable, Unwanted
from octoloom.wire.framing import Piece
from octoloom.wire.kafka import client_messages as messages
from octoloom.wire.kafka.apis import Api, correlation_of
from octoloom.wire.kafka.client_messages import ASKED

T = TypeVar("T")
Parse = Callable[[memoryview], T]

ANSWER_MAX = 256 * 1024 * 1024
"""Bytes of one answer."""
OPEN_MAX = 10_000
"""Questions that may wait for their answers at a time."""
SUSPECT_S = 1.0
GIVE_UP_S = 30.0
_LOOK_S = 0.1

_Question = tuple[int, "asyncio.Future[Any]", Parse[Any], float]
"""(correlation id, the answer to come, how to read it, when it was due)"""


class LogConnection:
    """Made by `open`, and then spoken to with `ask`."""

    def __init__(self, address: str, client_id: str, on_overdue: Callable[[LogConnection], None] | None = None) -> None:
        self.address = address
        self._client_id = client_id.encode()
        self._on_overdue = on_overdue
        self._loop = asyncio.get_running_loop()
        self._framed: FramedConnection | None = None
        self._open: deque[_Question] = deque()
        self._correlation = 0
        self._served: dict[int, tuple[int, int]] = {}
        self._watch: asyncio.TimerHandle | None = None
        self._error: LogError | None = None
        self.deserted = False
        """For `on_overdue` to know: something that this broker led is led by another one now."""

    async def open(self, timeout_s: float) -> None:
        """Connects, and makes sure that the broker serves what is asked here."""
        host, port = split_address(self.address)
        try:
            async with asyncio.timeout(timeout_s):
                await self._loop.create_connection(self._protocol, host, port)
                self._served = await self.ask(Api.API_VERSIONS, (), messages.parse_api_versions)
            for api, version in ASKED.items():
                self._check(api, version)
        except (OSError, TimeoutError) as error:
            self.abort()
            reason = "it does not answer" if isinstance(error, TimeoutError) else error.strerror or str(error)
            raise Unreachable(f"no broker answers at {self.address} ({reason})") from error
        except BaseException:
            self.abort()
            raise

    def _check(self, api: int, version: int) -> None:
        first, last = self._served.get(api, (0, -1))
        if not first <= version <= last:
            text = f"the broker at {self.address} does not serve version {version} of {Api(api).name}"
            raise Unwanted(f"{text}: connect to another one")

    @property
    def closed(self) -> bool:
        return self._framed is None or self._framed.closed

    @property
    def waiting(self) -> int:
        """How many questions are open."""
        return len(self._open)

    @property
    def late_s(self) -> float:
        """How long ago the oldest open question should have been answered."""
        return self._loop.time() - self._open[0][3] if self._open else 0.0

    @property
    def is_overdue(self) -> bool:
        return self.late_s > SUSPECT_S

    def ask(
        self, api: int, body: Iterable[Piece], parse: Callable[[memoryview, int], T], patience_s: float = 0.0
    ) -> asyncio.Future[T]:
        """Sends a request at the end of this tick; the future gets what `parse` finds in the answer.

        An answer that comes within `patience_s` is not late, however long that is.
        """
        correlation = self._next()
        frame = messages.encode_frame(api, ASKED[api], correlation, self._client_id, body)
        return self._post(frame, correlation, lambda answer: messages.read(parse, answer), patience_s)

    def ask_as(
        self, api: int, version: int, encode: Callable[[int, str], bytes], parse: Parse[T], patience_s: float = 0.0
    ) -> asyncio.Future[T]:
        """As `ask`, with a frame that `encode` makes of the correlation id and the client's name."""
        self._check(api, version)
        correlation = self._next()
        return self._post((encode(correlation, self._client_id.decode()),), correlation, parse, patience_s)

    def tell(self, api: int, body: Iterable[Piece]) -> None:
        """Sends a request that nobody answers."""
        frame = messages.encode_frame(api, ASKED[api], self._next(), self._client_id, body)
        if self._framed is None or self._framed.closed:
            raise self._lost()
        self._framed.send(*frame)

    def flush(self) -> None:
        """Sends now what was asked in this tick: for who has long work to do before its end."""
        if self._framed is not None:
            self._framed.send_now(())

    def _next(self) -> int:
        self._correlation = (self._correlation + 1) & 0x7FFFFFFF
        return self._correlation

    def _post(
        self, frame: tuple[Piece, ...], correlation: int, parse: Parse[T], patience_s: float
    ) -> asyncio.Future[T]:
        answer: asyncio.Future[T] = self._loop.create_future()
        if self._framed is None or self._framed.closed:
            answer.set_exception(self._lost())
        elif len(self._open) >= OPEN_MAX:
            answer.set_exception(Unreachable(f"{OPEN_MAX} questions wait for {self.address} already: ask fewer"))
        else:
            self._open.append((correlation, answer, parse, self._loop.time() + patience_s))
            self._framed.send(*frame)
            if self._watch is None:
                self._watch = self._loop.call_later(_LOOK_S, self._look)
        return answer

    def abort(self, error: LogError | None = None) -> None:
        """Ends the connection now; every open question fails with the error."""
        self._error = self._error or error
        if self._watch is not None:
            self._watch.cancel()
            self._watch = None
        if self._framed is not None:
            self._framed.abort()
        failed, self._open = self._open, deque()
        for _, answer, _, _ in failed:
            if not answer.done():
                answer.set_exception(self._lost())
                # Who was cancelled, or asks no more, need not hear of it.
                answer.exception()

    def _lost(self) -> LogError:
        """Why this connection is of no use; a new error for everyone who hears it."""
        if self._error is None or isinstance(self._error, Unreachable):
            return Unreachable(str(self._error or f"the connection to {self.address} is closed"), ambiguous=True)
        return type(self._error)(str(self._error))

    def _look(self) -> None:
        """Watches the oldest question. The timer rests while nothing is asked."""
        self._watch = None
        if not self._open:
            return
        if self.late_s > GIVE_UP_S:
            self.abort(TimedOut(f"the broker at {self.address} has not answered for {GIVE_UP_S:.0f} s: try again"))
            return
        self._watch = self._loop.call_later(_LOOK_S, self._look)
        if self.is_overdue and self._on_overdue is not None:
            self._on_overdue(self)

    # What the framed connection calls.

    def _protocol(self) -> FramedConnection:
        return FramedConnection(self._on_frames, self._on_closed, self._on_opened, ANSWER_MAX)

    def _on_opened(self, framed: FramedConnection) -> None:
        self._framed = framed

    def _on_frames(self, _framed: FramedConnection, frames: list[memoryview]) -> None:
        for frame in frames:
            if not self._open:
                raise ProtocolError("unasked", "an answer to no question")
            correlation, answer, parse, _ = self._open[0]
            if correlation_of(frame) != correlation:
                raise ProtocolError("out-of-order", f"an answer to {correlation_of(frame)} instead of {correlation}")
            found = parse(frame)
            self._open.popleft()
            if not answer.done():
                answer.set_result(found)

    def _on_closed(self, _framed: FramedConnection, error: Exception | None) -> None:
        if isinstance(error, ProtocolError):
            text = f"what answers at {self.address} does not speak as a Kafka broker does ({error})"
            self.abort(Unwanted(f"{text}: see what listens there"))
        else:
            reason = f" ({error.strerror})" if isinstance(error, OSError) and error.strerror else ""
            self.abort(Unreachable(f"the broker at {self.address} hung up{reason}", ambiguous=True))
