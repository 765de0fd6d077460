"""Hosts a device's core: moves bytes between a WebSocket, a store and the core, and obeys its effects.

All inputs of one tick of the loop are one batch: one transaction makes them durable, then their sends leave as one
message. A commit that waits for a disk runs in a thread; what happens meanwhile is the next batch. Every effect
remembers the connection that it was meant for: what was to be said on a connection that has ended is not said on the
next one, where the bootstrap must come first.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor

from picows import WSCloseCode, WSError, WSFrame, WSListener, WSMsgType, WSTransport, ws_connect

from octoloom.core import device_messages as m
from octoloom.core.device import DeviceCore, Phase
from octoloom.core.device_effects import Advanced, Dial, Effect, Hangup, Persist, Reset, Send, Settled, Stopped
from octoloom.core.errors import OctoloomError, ProtocolError, StoreError, UsageError
from octoloom.runtime.device_route import Route
from octoloom.storage.device_store import Store
from octoloom.wire.device import EVENTS_MAX, TO_DEVICE_BYTES_MAX, decode_to_device, encode

log = logging.getLogger("octoloom.device")

Told = Settled | Advanced | Reset
CONNECT_MS_MAX = 3_000
CLOSE_MS_MAX = 500

ADVICE = {
    "fenced": "the same device is connected elsewhere, and the newer connection wins: give each client its own name",
    "forbidden": "the chain does not accept this token: pass another one as token=...",
}


class Socket(WSListener):
    """One WebSocket. It gathers the frames of a message and hands the text over."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self._parts: list[bytes] = []
        self.transport: WSTransport | None = None
        self.closed = asyncio.Event()

    def on_ws_connected(self, transport: WSTransport) -> None:
        self.transport = transport
        self._driver.on_opened(self)

    def on_ws_frame(self, transport: WSTransport, frame: WSFrame) -> None:
        if frame.msg_type is WSMsgType.CLOSE:
            transport.disconnect()
        elif frame.msg_type in (WSMsgType.TEXT, WSMsgType.BINARY, WSMsgType.CONTINUATION):
            self._parts.append(frame.get_payload_as_bytes())
            if frame.fin:
                text, self._parts = b"".join(self._parts), []
                self._driver.on_text(self, text)
            elif sum(map(len, self._parts)) > TO_DEVICE_BYTES_MAX:
                transport.disconnect(False)

    def on_ws_disconnected(self, transport: WSTransport) -> None:
        self.closed.set()
        self._driver.on_closed(self)

    def say(self, message: m.FromDevice) -> None:
        assert self.transport is not None
        self.transport.send(WSMsgType.TEXT, encode(message))

    def hang_up(self) -> None:
        assert self.transport is not None
        self.transport.disconnect(False)

    async def bid_farewell(self) -> None:
        """Lets what was sent leave, and ends the connection as the protocol wants it."""
        assert self.transport is not None
        self.transport.send_close(WSCloseCode.OK)
        self.transport.disconnect()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(CLOSE_MS_MAX / 1000):
                await self.closed.wait()


class Driver:
    """Runs one core until it is closed, or ended by what cannot be mended."""

    def __init__(self, core: DeviceCore, route: Route, store: Store, on_told: Callable[[list[Told]], None]) -> None:
        self.core = core
        self.error: OctoloomError | None = None
        self.revision = 0
        """Rises whenever pending events or the state may have changed."""
        self._route, self._store, self._on_told = route, store, on_told
        self._loop = asyncio.get_running_loop()
        self._pool = ThreadPoolExecutor(1, "octoloom-store") if store.blocking else None
        self._socket: Socket | None = None
        self._attempt = Socket(self)
        self._effects: list[tuple[Socket | None, Effect]] = []
        self._flushing = False
        self._idle = asyncio.Event()
        self._timer: asyncio.TimerHandle | None = None
        self._task = self._loop.create_task(self._connect_for_ever())

    @property
    def connected(self) -> bool:
        return self.core.phase is Phase.READY

    def act(self, name: str, payload: bytes) -> int:
        if self.error is not None:
            raise self.error
        ticket, effects = self.core.act(name, payload)
        self._perform(effects)
        return ticket

    async def close(self) -> None:
        """Makes durable what was done, says what was to be said, and leaves."""
        while self._flushing and self.error is None:
            self._idle.clear()
            await self._idle.wait()
        self._task.cancel()
        await asyncio.wait([self._task])
        socket, self._socket = self._socket, None
        if socket is not None:
            await socket.bid_farewell()
        self._stop_timer()
        if self._pool is not None:
            await self._loop.run_in_executor(self._pool, self._store.close)
            self._pool.shutdown(wait=False)
        self.error = self.error or UsageError("this connection was closed: open a new one with connect(...)")

    # Connecting.

    async def _connect_for_ever(self) -> None:
        while True:
            url, self._attempt = self._route.next(), Socket(self)
            try:
                async with asyncio.timeout(CONNECT_MS_MAX / 1000):
                    await ws_connect(lambda: self._attempt, url, max_frame_size=TO_DEVICE_BYTES_MAX)
            except (OSError, WSError, ValueError) as error:
                log.debug("cannot reach %s: %s", url, error)
            # Not every call that returns was answered: a link may end between the call and the upgrade, and of such a
            # connection nobody is told that it has closed.
            if self._attempt.transport is not None:
                await self._attempt.closed.wait()
            # Whoever answers from here on is too late, and is hung up on.
            self._attempt = Socket(self)
            await asyncio.sleep(self._route.pause_ms() / 1000)

    def on_opened(self, socket: Socket) -> None:
        if socket is not self._attempt or self.error is not None:
            # Somebody gave up on this call while it was answered.
            socket.hang_up()
            return
        self._socket = socket
        self._perform(self.core.on_connected(self._now()))

    def on_closed(self, socket: Socket) -> None:
        if socket is self._socket:
            self._socket = None
            self._perform(self.core.on_disconnected(self._now()))

    def on_text(self, socket: Socket, text: bytes) -> None:
        if socket is not self._socket:
            return
        try:
            self._perform(self.core.on_message(self._now(), decode_to_device(text)))
        except ProtocolError as error:
            log.warning("the link broke the protocol: %s", error)
            socket.hang_up()

    # Time.

    def _now(self) -> int:
        return int(self._loop.time() * 1000)

    def _arm(self) -> None:
        """Most deadlines only move back, and then the timer that is set asks again soon enough."""
        deadline = self.core.deadline()
        if deadline is not None and (self._timer is None or self._timer.when() > deadline / 1000):
            self._stop_timer()
            self._timer = self._loop.call_at(deadline / 1000, self._on_timer)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _on_timer(self) -> None:
        self._timer = None
        # The loop may wake a little early; a deadline in whole milliseconds must still count as reached.
        self._perform(self.core.on_time(self._now() + 1))

    # Effects.

    def _perform(self, effects: list[Effect]) -> None:
        """Takes effects for the end of this tick."""
        if self.error is not None:
            return
        self.revision += any(type(effect) is Persist for effect in effects)
        self._effects.extend((self._socket, effect) for effect in effects)
        self._schedule()
        self._arm()

    def _schedule(self) -> None:
        if self._effects and not self._flushing:
            self._flushing = True
            self._loop.call_soon(self._flush)

    def _flush(self) -> None:
        batch, self._effects = self._effects, []
        steps = [effect for _, effect in batch if isinstance(effect, Persist)]
        if self._pool is None:
            self._store.commit(steps)
        if self._pool is None or not steps:
            self._obey(batch)
            return
        commit = self._loop.run_in_executor(self._pool, self._store.commit, steps)
        commit.add_done_callback(lambda future: self._on_committed(future, batch))

    def _on_committed(self, commit: asyncio.Future[None], batch: list[tuple[Socket | None, Effect]]) -> None:
        if commit.cancelled() or (error := commit.exception()) is None:
            self._obey(batch)
        else:
            self._end(error if isinstance(error, OctoloomError) else StoreError(f"cannot save: {error!r}"))

    def _obey(self, batch: list[tuple[Socket | None, Effect]]) -> None:
        self._flushing = False
        told: list[Told] = [effect for _, effect in batch if isinstance(effect, Settled | Advanced | Reset)]
        if any(isinstance(effect, Advanced) for effect in told):
            self._route.welcomed(self.core.links)
        socket = self._socket
        current = [effect for meant_for, effect in batch if meant_for is socket]
        if socket is not None:
            for message in joined(effect.message for effect in current if isinstance(effect, Send)):
                socket.say(message)
        for effect in current:
            self._leave(effect)
        if told:
            self._on_told(told)
        self._schedule()
        self._idle.set()

    def _leave(self, effect: Effect) -> None:
        if isinstance(effect, Stopped):
            advice = ADVICE.get(effect.code, "see the device protocol for this code")
            self._end(UsageError(f"{effect.code}: {effect.detail} ({advice})"))
        elif isinstance(effect, Dial | Hangup) and self._socket is not None:
            log.debug("leaving the link: %s", effect)
            if isinstance(effect, Dial):
                self._route.redirect(effect.url)
            self._socket.hang_up()

    def _end(self, error: OctoloomError) -> None:
        """Nothing more will happen; whoever waits is told why."""
        self.error = error
        self._flushing = False
        self._effects.clear()
        self._stop_timer()
        self._task.cancel()
        if self._socket is not None:
            self._socket.hang_up()
        self._idle.set()
        self._on_told([])


def joined(messages: Iterable[m.FromDevice]) -> list[m.FromDevice]:
    """The same messages, with events that follow each other in one. A resend starts a message of its own."""
    out: list[m.FromDevice] = []
    run: list[m.DeviceEvent] = []
    for message in messages:
        if not isinstance(message, m.Send):
            out.append(message)
            run = []
        elif run and run[-1][0] < message.events[0][0] and len(run) + len(message.events) <= EVENTS_MAX:
            run.extend(message.events)
        else:
            run = list(message.events)
            out.append(m.Send(run))
    return out
