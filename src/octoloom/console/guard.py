"""What every request passes before anything else looks at it.

1. Only GET and HEAD: the console looks, and changes nothing.
2. Only hosts that are ours. A page from elsewhere could have its own name point to this machine and then read the
   console as if it were its own (DNS rebinding); its name in the `Host` header gives it away.
3. Answers carry a policy: scripts come from here alone, and nobody may put the console into a frame.
"""

from __future__ import annotations

import ipaddress

import msgspec
from starlette.types import ASGIApp, Message, Receive, Scope, Send

LOOPBACK = ("localhost", "127.0.0.1", "::1")
POLICY = (
    "default-src 'self'; connect-src 'self' ws: wss:; img-src 'self' data:; object-src 'none'; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'"
)
PAGES = "/app"
"""Where the user's own pages are. They bring their own scripts, in whatever way they like."""


class Problem(msgspec.Struct, frozen=True):
    """Every error of the console, as JSON."""

    code: str
    detail: str


def name_in(host: str) -> str:
    """The name in a `Host` header, without its port: `[::1]:7060` is `::1`."""
    if host.startswith("["):
        return host[1:].partition("]")[0].lower()
    return host.rpartition(":")[0].lower() if host.count(":") == 1 else host.lower()


def is_ours(host: str, own: str) -> bool:
    """Whether a `Host` header names this machine. `own` is the address that the console was told to listen on."""
    name = name_in(host).removesuffix(".")
    if name in LOOPBACK or name == own.lower():
        return True
    # Who listens on all addresses cannot know them. A number is no name, and cannot be made to point elsewhere.
    return _is_number(name) and _is_number(own) and ipaddress.ip_address(own).is_unspecified


def _is_number(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


class Guard:
    def __init__(self, app: ASGIApp, own_host: str) -> None:
        self._app = app
        self._own_host = own_host

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        problem = self._problem(scope)
        if problem is not None:
            status, told = problem
            await refuse(_with_headers(send, scope["path"]), status, told, scope["method"])
        else:
            await self._app(scope, receive, _with_headers(send, scope["path"]))

    def _problem(self, scope: Scope) -> tuple[int, Problem] | None:
        hosts = [value.decode("latin-1") for name, value in scope["headers"] if name == b"host"]
        if len(hosts) != 1 or not is_ours(hosts[0], self._own_host):
            return 421, Problem(
                "other-host", "this console is not served under that name: use localhost, or see --host"
            )
        if scope["method"] not in ("GET", "HEAD"):
            return 405, Problem("only-looks", "the console changes nothing: ask with GET")
        return None


def _with_headers(send: Send, path: str) -> Send:
    policy = [] if path == PAGES or path.startswith(f"{PAGES}/") else [(b"content-security-policy", POLICY.encode())]
    always = [*policy, (b"x-content-type-options", b"nosniff"), (b"referrer-policy", b"no-referrer")]

    async def sent(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = list(message.get("headers", []))
            named = {name for name, _ in headers}
            headers += [(name, value) for name, value in always if name not in named]
            if b"cache-control" not in named:
                headers.append((b"cache-control", b"no-cache"))
            message = {**message, "headers": headers}
        await send(message)

    return sent


async def refuse(send: Send, status: int, problem: Problem, method: str = "GET") -> None:
    body = msgspec.json.encode(problem)
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    if status == 405:
        headers.append((b"allow", b"GET, HEAD"))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": b"" if method == "HEAD" else body})
