"""The console as a server: Starlette's routes on uvicorn, in the running loop.

console = Console(Gatherer(data=Path("octoloom-data")))
await console.start()       # console.url says where
await console.stop()
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Iterator
from pathlib import Path

import msgspec
import uvicorn
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import BaseRoute, Mount, Route

from octoloom.console.files import STATIC, Files, client_folder
from octoloom.console.gatherer import Gatherer
from octoloom.console.guard import PAGES, Guard, Problem
from octoloom.console.peek import COUNT, peek
from octoloom.console.streams import Pictures
from octoloom.console.trace import LAST, NoSteps, trace
from octoloom.console.watch import Watch
from octoloom.core.errors import OctoloomError, UsageError
from octoloom.runtime.log_client import LogClient
from octoloom.runtime.log_errors import LogError, UnknownTopic

PORT = 7060
HOST = "127.0.0.1"
CONNECTIONS_MAX = 256
STOP_S = 1
SVG_POLICY = "default-src 'none'; style-src 'unsafe-inline'; sandbox"
"""A picture runs nothing and loads nothing, even if somebody opens it by itself."""


class Console:
    """Serves what a gatherer finds. It needs a running loop from `start` on."""

    def __init__(
        self, gatherer: Gatherer, host: str = HOST, port: int = PORT, pages: Path | None = None, option: str = "--port"
    ) -> None:
        """`pages` is a folder with pages of the user's own. `option` is what names the port, for the error's text."""
        self.watch = Watch(gatherer.picture, gatherer.close)
        self._gatherer = gatherer
        self._host, self._port, self._option = host, port, option
        self._pages = pages
        self._socket: socket.socket | None = None
        self._server: _Server | None = None
        self._serving: asyncio.Task[None] | None = None

    @property
    def url(self) -> str:
        """Where to open it. Who listens on all addresses is also here."""
        assert self._socket is not None
        host = {"0.0.0.0": HOST, "::": "::1"}.get(self._host, self._host)
        return f"http://{f'[{host}]' if ':' in host else host}:{self._socket.getsockname()[1]}/"

    @property
    def pages_url(self) -> str:
        """Where the user's pages are; empty if there are none."""
        return f"{self.url}{PAGES[1:]}/" if self._pages is not None else ""

    async def start(self) -> None:
        self._socket = listen(self._host, self._port, self._option)
        config = uvicorn.Config(
            self.app(),
            log_config=None,
            access_log=False,
            log_level="warning",
            lifespan="off",
            ws="none",
            http="h11",
            server_header=False,
            proxy_headers=False,
            limit_concurrency=CONNECTIONS_MAX,
            timeout_graceful_shutdown=STOP_S,
        )
        self._server = _Server(config)
        self._serving = asyncio.get_running_loop().create_task(self._server.serve(sockets=[self._socket]))
        while not self._server.started and not self._serving.done():
            await asyncio.sleep(0.005)
        if self._serving.done():
            self._serving.result()

    async def stop(self) -> None:
        await self.watch.stop()
        if self._server is not None and self._serving is not None:
            self._server.should_exit = True
            await self._serving
        self._server = self._serving = None
        if self._socket is not None:
            self._socket.close()
        await self._gatherer.close()

    def tell(self, text: str) -> None:
        """News from who runs the cluster."""
        self.watch.tell(text)

    # Routes.

    def app(self) -> Guard:
        get = ["GET", "HEAD"]
        routes: list[BaseRoute] = [
            Route("/api/picture", self._picture, methods=get),
            Route("/api/news", self._news, methods=get),
            Route("/api/pictures", Pictures(self.watch), methods=get),
            Route("/api/topics/{topic}/records", self._records, methods=get),
            Route("/api/groups/{group:path}/trace.svg", self._trace, methods=get),
            Route("/api/{rest:path}", _no_such_thing, methods=get),
            Mount("/client", Files(client_folder(), "the browser client has no such file: see docs/browser.md")),
        ]
        if self._pages is not None:
            hint = f"there is no such file in {self._pages.name}: see what --pages names"
            routes += [Route(PAGES, _to_pages, methods=get), Mount(PAGES, Files(self._pages, hint))]
        else:
            routes.append(Route(f"{PAGES}/{{rest:path}}", _no_pages, methods=get))
        routes.append(Mount("/", Files(STATIC, "there is no such page: the console is at /")))
        app = Starlette(
            routes=routes,
            exception_handlers={
                HTTPException: _on_http_error,
                OctoloomError: _on_error,
                NoSteps: _on_error,
                Exception: _on_bug,
            },
        )
        return Guard(app, self._host)

    async def _picture(self, _request: Request) -> Response:
        return Response((await self.watch.once()).picture, media_type="application/json")

    async def _news(self, _request: Request) -> Response:
        return Response(self.watch.news, media_type="application/json")

    async def _records(self, request: Request) -> Response:
        partition = number_in(request, "partition", 0)
        first = None if request.query_params.get("from", "") in ("", "end") else number_in(request, "from", 0)
        count = number_in(request, "count", COUNT)
        client = await self._client()
        found = await peek(client, request.path_params["topic"], partition, first, count)
        return Response(msgspec.json.encode(found), media_type="application/json")

    async def _trace(self, request: Request) -> Response:
        picture = await trace(await self._client(), request.path_params["group"], number_in(request, "last", LAST))
        headers = {"content-security-policy": SVG_POLICY, "cache-control": "no-store"}
        return Response(picture, media_type="image/svg+xml", headers=headers)

    async def _client(self) -> LogClient:
        """Who asks for records before any picture was made needs to know where the brokers are."""
        if not self._gatherer.address:
            await self.watch.once()
        return await self._gatherer.client()


class _Server(uvicorn.Server):
    """Signals are for who runs this process."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def listen(host: str, port: int, option: str) -> socket.socket:
    """A socket that listens, or an error that names the option to choose another port with."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    made = socket.socket(family, socket.SOCK_STREAM)
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind((host, port))
        made.setblocking(False)
    except OSError as error:
        made.close()
        reason = error.strerror or str(error)
        raise UsageError(f"cannot listen on {host}:{port} ({reason}): name another port with {option}") from error
    return made


def number_in(request: Request, name: str, otherwise: int) -> int:
    text = request.query_params.get(name, "")
    if not text:
        return otherwise
    if not (text.isascii() and text.isdigit() and len(text) < 19):
        raise UsageError(f"{name}= is no number: write it as in {name}={otherwise}")
    return int(text)


# Errors.


async def _no_such_thing(_request: Request) -> Response:
    return problem(404, "not-found", "there is no such thing: ask for /api/picture, /api/pictures or /api/news")


async def _to_pages(_request: Request) -> Response:
    return RedirectResponse(f"{PAGES}/")


async def _no_pages(_request: Request) -> Response:
    return problem(404, "no-pages", "no pages are served here: name their folder with --pages DIR")


def problem(status: int, code: str, detail: str) -> Response:
    return Response(msgspec.json.encode(Problem(code, detail)), status, media_type="application/json")


async def _on_http_error(_request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return problem(error.status_code, "not-found" if error.status_code == 404 else "refused", error.detail)


async def _on_error(_request: Request, error: Exception) -> Response:
    """The asker's fault is a 400 or 404; what passes by itself is a 503."""
    if isinstance(error, UnknownTopic | NoSteps):
        return problem(404, "not-found", str(error))
    if isinstance(error, LogError) and error.retriable:
        return problem(503, "try-again", str(error))
    return problem(400, "bad-request", str(error))


async def _on_bug(_request: Request, _error: Exception) -> Response:
    return problem(500, "broken", "the console could not answer that: see its log")
