"""Pictures as server-sent events: `picture` every second, `news` when there is some, a comment when nothing comes.

A viewer that does not read is waited for, and gets the newest picture when it reads again. One that reads nothing for
`STUCK_S` is cut off: its seat is somebody else's.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress

from starlette.types import Message, Receive, Scope, Send

from octoloom.console.guard import Problem, refuse
from octoloom.console.watch import Frame, TooManyViewers, Watch

RETRY_MS = 1_000
SILENCE_S = 5.0
STUCK_S = 30.0
_HEADERS = [(b"content-type", b"text/event-stream; charset=utf-8"), (b"cache-control", b"no-store")]


class Pictures:
    """The endpoint. It speaks ASGI by itself, to wait for a slow reader on its own terms."""

    def __init__(self, watch: Watch, silence_s: float = SILENCE_S, stuck_s: float = STUCK_S) -> None:
        self._watch = watch
        self._silence_s, self._stuck_s = silence_s, stuck_s

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["method"] == "HEAD":
            await send({"type": "http.response.start", "status": 200, "headers": _HEADERS})
            await send({"type": "http.response.body", "body": b""})
            return
        try:
            self._watch.enter()
        except TooManyViewers as error:
            await refuse(send, 503, Problem("too-many-viewers", str(error)))
            return
        speaking = asyncio.ensure_future(self._speak(send))
        leaving = asyncio.ensure_future(_until_gone(receive))
        try:
            await asyncio.wait([speaking, leaving], return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (speaking, leaving):
                task.cancel()
            results = await asyncio.gather(speaking, leaving, return_exceptions=True)
            self._watch.leave()
        for result in results:
            if isinstance(result, Exception) and not isinstance(result, (OSError, TimeoutError)):
                raise result

    async def _speak(self, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": _HEADERS})
        await self._say(send, f"retry: {RETRY_MS}\n\n".encode())
        news_told = -1
        async for frame in self._watch.frames(self._silence_s):
            if frame is None:
                await self._say(send, b": no picture yet\n\n")
                continue
            await self._say(send, encode(frame, frame.news_number != news_told))
            news_told = frame.news_number
        with suppress(OSError):
            await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _say(self, send: Send, body: bytes) -> None:
        async with asyncio.timeout(self._stuck_s):
            await send({"type": "http.response.body", "body": body, "more_body": True})


def encode(frame: Frame, with_news: bool) -> bytes:
    parts = [b"id: %d\nevent: picture\ndata: " % frame.number, frame.picture, b"\n\n"]
    if with_news:
        parts += [b"event: news\ndata: ", frame.news, b"\n\n"]
    return b"".join(parts)


async def _until_gone(receive: Receive) -> None:
    message: Message = {"type": ""}
    while message["type"] != "http.disconnect":
        message = await receive()
