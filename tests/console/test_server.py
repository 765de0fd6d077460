"""The console over real HTTP: routes, headers, bad input, viewers that are slow or too many, paths that lead out."""

from __future__ import annotations

import asyncio
import http.client
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from octoloom.console.gatherer import Gatherer
from octoloom.console.server import Console
from octoloom.console.watch import Watch
from octoloom.core.errors import UsageError
from tests.runtime.real_log import RealLog, real_log

PATIENCE_S = 30.0


class Served:
    """A console in a thread with a loop of its own."""

    def __init__(self, make: Callable[[], Console]) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self.console = make()
        self.run(self.console.start())

    def run(self, what: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(what, self._loop).result(PATIENCE_S)

    def stop(self) -> None:
        self.run(self.console.stop())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(PATIENCE_S)
        self._loop.close()

    @property
    def port(self) -> int:
        return int(self.console.url.rstrip("/").rpartition(":")[2])

    def ask(self, path: str, method: str = "GET", host: str | None = None) -> tuple[http.client.HTTPResponse, bytes]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE_S)
        try:
            connection.putrequest(method, path, skip_host=host is not None)
            if host is not None:
                connection.putheader("Host", host)
            connection.endheaders()
            response = connection.getresponse()
            return response, response.read()
        finally:
            connection.close()

    def json(self, path: str, status: int = 200) -> Any:
        response, body = self.ask(path)
        assert response.status == status, body
        assert response.headers["content-type"] == "application/json"
        return json.loads(body)


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("web")
    pages = folder / "pages"
    (pages / "deep").mkdir(parents=True)
    (pages / "index.html").write_text("<h1>my game</h1>")
    (pages / "deep" / "index.html").write_text("deep")
    (pages / "game.js").write_text("let x")
    (pages / ".secret").write_text("hidden")
    (folder / "outside.txt").write_text("outside")
    (pages / "leak.txt").symlink_to(folder / "outside.txt")
    return pages


@pytest.fixture(scope="module")
def alone(pages: Path) -> Iterator[Served]:
    """A console whose register is nowhere."""
    served = Served(lambda: Console(Gatherer(register="127.0.0.1:1"), port=0, pages=pages))
    yield served
    served.stop()


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealLog]:
    with real_log(tmp_path_factory.mktemp("log"), brokers=1) as log:
        yield log


@pytest.fixture(scope="module")
def served(log: RealLog) -> Iterator[Served]:
    address = log.register.address
    served = Served(lambda: Console(Gatherer(register=address), port=0))
    yield served
    served.stop()


# Without a register.


def test_a_register_that_does_not_answer_is_said(alone: Served) -> None:
    picture = alone.json("/api/picture")
    assert picture["register"]["state"] == "silent"
    assert picture["troubles"] == ["the register at 127.0.0.1:1 does not answer"]
    assert (picture["up"], picture["processes"]) == (0, 1)
    assert alone.json("/api/news") == []


def test_the_page_its_modules_and_its_policy(alone: Served) -> None:
    response, body = alone.ask("/")
    assert response.status == 200
    assert response.headers["content-type"].startswith("text/html")
    policy = response.headers["content-security-policy"]
    assert "default-src 'self'" in policy
    assert "connect-src 'self' ws: wss:" in policy
    assert "unsafe" not in policy
    assert response.headers["x-content-type-options"] == "nosniff"
    assert not [name for name in response.headers if name.lower().startswith("access-control")]
    assert b"<script>" not in body
    assert b" style=" not in body
    for path, kind in (
        ("/main.js", "text/javascript"),
        ("/console.css", "text/css"),
        ("/client/core.js", "text/javascript"),
    ):
        response, _ = alone.ask(path)
        assert (response.status, response.headers["content-type"].split(";")[0]) == (200, kind)


def test_only_our_names_are_served(alone: Served) -> None:
    for host in ("evil.example", f"evil.example:{alone.port}", "127.0.0.1.evil.example", ""):
        response, body = alone.ask("/api/picture", host=host)
        assert response.status == 421
        assert json.loads(body)["code"] == "other-host"
    for host in (f"localhost:{alone.port}", f"127.0.0.1:{alone.port}", f"[::1]:{alone.port}"):
        assert alone.ask("/api/news", host=host)[0].status == 200


def test_it_only_looks(alone: Served) -> None:
    for method in ("POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE"):
        response, _ = alone.ask("/api/picture", method)
        assert (response.status, response.headers["allow"]) == (405, "GET, HEAD")
    for path in ("/", "/api/picture", "/api/pictures", "/api/news"):
        response, body = alone.ask(path, "HEAD")
        assert (response.status, body) == (200, b"")


@pytest.mark.parametrize(
    "path",
    [
        "/../server.py", "/%2e%2e/server.py", "/..%2fserver.py", "/client/../../server.py", "/client/%2e%2e/index.html",
        "/app/../index.html", "/app/%2e%2e/outside.txt", "/app/..%2foutside.txt", "/app//etc/passwd", "/app/leak.txt",
        "/app/.secret", "/app/%00", "/app/..\\outside.txt", "/nothing.js", "/client/", "/app/deep/nothing",
        "/app/" + "x" * 5000,
    ],
)  # fmt: skip
def test_no_path_leads_out(alone: Served, path: str) -> None:
    response, body = alone.ask(path)
    assert response.status == 404, body
    assert json.loads(body)["code"] == "not-found"


def test_pages_of_the_user_are_served_beside_it(alone: Served) -> None:
    assert alone.console.pages_url == f"{alone.console.url}app/"
    response, body = alone.ask("/app/")
    assert (response.status, body) == (200, b"<h1>my game</h1>")
    assert "content-security-policy" not in response.headers
    assert response.headers["x-content-type-options"] == "nosniff"
    assert alone.ask("/app/deep/")[1] == b"deep"
    assert alone.ask("/app/game.js")[0].headers["content-type"].startswith("text/javascript")
    assert alone.ask("/app")[0].status == 307


def test_without_brokers_records_are_a_503_or_400_and_say_what_to_do(alone: Served) -> None:
    told = alone.json("/api/topics/moves/records", 503)
    assert told["code"] == "try-again"
    assert "octoloom up" in told["detail"]
    assert alone.json("/api/topics/moves/records?partition=x", 400)["detail"].startswith("partition= is no number")
    assert alone.json("/api/groups/lunch/trace.svg", 503)["code"] == "try-again"
    assert alone.json("/api/nothing", 404)["code"] == "not-found"


def test_a_port_that_is_taken_names_the_option() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        console = Console(Gatherer(register="127.0.0.1:1"), port=port, option="--console-port")
        with pytest.raises(UsageError, match=f"127.0.0.1:{port} .* name another port with --console-port"):
            asyncio.run(console.start())


def test_a_stopped_console_ends_its_streams_and_frees_its_port() -> None:
    served = Served(lambda: Console(Gatherer(register="127.0.0.1:1"), port=0))
    port = served.port
    stream = Stream(port)
    assert stream.until("event: picture")
    begun = time.monotonic()
    served.stop()
    assert time.monotonic() - begun < 10
    stream.until_closed()
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        probe.bind(("127.0.0.1", port))


# Streams.


class Stream:
    """A viewer who reads when it likes."""

    def __init__(self, port: int, buffer_bytes: int = 0) -> None:
        self.socket = socket.socket()
        if buffer_bytes:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer_bytes)
        self.socket.settimeout(PATIENCE_S)
        self.socket.connect(("127.0.0.1", port))
        self.socket.sendall(b"GET /api/pictures HTTP/1.1\r\nHost: localhost\r\n\r\n")
        self.seen = b""

    def until(self, text: str, count: int = 1) -> str:
        while self.seen.count(text.encode()) < count:
            part = self.socket.recv(65536)
            assert part, self.seen[-500:]
            self.seen += part
        return self.seen.decode()

    def until_closed(self) -> None:
        while part := self.socket.recv(65536):
            self.seen += part
        self.socket.close()


def test_pictures_come_as_events(alone: Served) -> None:
    stream = Stream(alone.port)
    text = stream.until("event: picture", 3)
    assert "content-type: text/event-stream" in text
    assert "retry: 1000\n" in text
    assert text.count("event: news") == 1
    data = next(line for line in text.splitlines() if line.startswith("data: {"))
    assert json.loads(data.removeprefix("data: "))["troubles"]
    stream.socket.close()
    until(lambda: alone.console.watch.viewers == 0)


def test_too_many_viewers_are_told_so(alone: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(alone.console.watch, "_viewers_max", 2)
    streams = [Stream(alone.port), Stream(alone.port)]
    for stream in streams:
        stream.until("event: picture")
    told = alone.json("/api/pictures", 503)
    assert told == {"code": "too-many-viewers", "detail": "2 look at this console already: close a page that shows it"}
    streams[0].socket.close()
    until(lambda: alone.console.watch.viewers == 1)
    again = Stream(alone.port)
    again.until("event: picture")
    for stream in (again, streams[1]):
        stream.socket.close()
    until(lambda: alone.console.watch.viewers == 0)


def test_a_viewer_that_does_not_read_costs_no_more_than_one_picture_and_gets_the_newest(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def quick(console: Console) -> Console:
        watch = console.watch
        monkeypatch.setattr(watch, "_every_s", 0.002)
        # A picture that fills buffers quickly.
        monkeypatch.setattr(watch, "_news_text", b'["' + b"x" * 200_000 + b'"]')
        add = Watch.tell

        async def gather() -> Any:
            add(watch, "y" * 2000)
            return await console._gatherer.picture()

        monkeypatch.setattr(watch, "_gather", gather)
        return console

    served = Served(lambda: quick(Console(Gatherer(register="127.0.0.1:1"), port=0)))
    stuck = Stream(served.port, 4096)
    awake = Stream(served.port)
    watch = served.console.watch
    deadline = time.monotonic() + PATIENCE_S
    while watch.pictures < 300:
        awake.seen = awake.seen[-1000:]
        assert awake.socket.recv(1 << 20)
        assert time.monotonic() < deadline
    numbers: list[int] = []
    while not numbers or max(numbers) < 300:
        stuck.until("\nid: ", len(numbers) + 1)
        numbers = [
            int(line.removeprefix("id: ")) for line in stuck.seen.decode().splitlines()[:-1] if line.startswith("id: ")
        ]
    # Whole frames, in order, most of them skipped.
    assert numbers == sorted(set(numbers))
    assert len(numbers) < 150
    for stream in (stuck, awake):
        stream.socket.close()
    until(lambda: watch.viewers == 0)
    served.stop()


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


# With brokers.


def test_records_are_shown_a_few_at_a_time(served: Served, log: RealLog) -> None:
    from octoloom.runtime.log_client import LogClient
    from octoloom.runtime.log_producer import Producer

    async def write() -> None:
        async with LogClient(log.bootstrap) as client:
            await client.create_topic("moves", 2)
            producer = Producer(client)
            for number in range(120):
                producer.send("moves", b'{"n": %d}' % number, key=b"k", partition=0)
            producer.send("moves", b"\x00\x01", partition=1)
            producer.send("moves", b"x" * 20_000, partition=1)
            await producer.close()

    asyncio.run(write())
    last = served.json("/api/topics/moves/records?partition=0&count=10")
    assert (last["start"], last["high"], last["first"], last["next"]) == (0, 120, 110, 120)
    assert [record["value"]["text"] for record in last["records"]] == [
        f'{{"n": {number}}}' for number in range(110, 120)
    ]
    assert last["records"][0]["key"] == {"kind": "text", "text": "k", "size": 1, "cut": False}
    older = served.json(f"/api/topics/moves/records?partition=0&from={last['first'] - 10}&count=10")
    assert [record["offset"] for record in older["records"]] == list(range(100, 110))
    assert len(served.json("/api/topics/moves/records?from=0&count=200")["records"]) == 120
    assert served.json("/api/topics/moves/records?from=99999")["records"] == []
    hexed, cut = served.json("/api/topics/moves/records?partition=1")["records"]
    assert (hexed["value"]["kind"], cut["value"]["cut"], cut["value"]["size"]) == ("hex", True, 20_000)

    for query, status in (
        ("partition=2", 404),
        ("count=0", 400),
        ("count=201", 400),
        ("from=-1", 400),
        ("count=x", 400),
    ):
        assert served.json(f"/api/topics/moves/records?{query}", status)["detail"]
    assert "topic create" in served.json("/api/topics/nothing/records", 404)["detail"]


def test_a_picture_has_topics_with_their_ends(served: Served) -> None:
    until(lambda: any(topic["name"] == "moves" for topic in served.json("/api/picture")["topics"]))
    until(lambda: served.json("/api/picture")["topics"][0]["partitions"][0]["high"] == 120)
    picture = served.json("/api/picture")
    assert picture["troubles"] == []
    assert [broker["state"] for broker in picture["brokers"]] == ["up"]
    [zero, _] = picture["topics"][0]["partitions"]
    assert (zero["start"], zero["high"], zero["in_sync"]) == (0, 120, zero["replicas"])


def test_a_group_without_steps_has_no_picture(served: Served) -> None:
    told = served.json("/api/groups/lunch/trace.svg", 404)
    assert "lunch-steps does not exist" in told["detail"]
    assert served.json("/api/groups/lunch/trace.svg?last=0", 400)["detail"].startswith("0 marks cannot be drawn")
