"""Bad reducers and bad input on real processes: a typed answer, a counter, and nothing else changes."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
from picows import WSFrame, WSListener, WSMsgType, WSTransport, ws_connect

from octoloom import Device
from octoloom.core import link_messages as link
from octoloom.core.event import Change, Event, SpaceSnapshot
from octoloom.core.tokens import sign
from octoloom.runtime.frames import FramedConnection, split_address
from octoloom.wire.device import FROM_DEVICE_BYTES_MAX
from octoloom.wire.link import Intro, decode, encode_frame, encode_intro
from tests.chaos.cluster import Cluster
from tests.chaos.ledger import follow
from tests.waiting import PATIENCE_S
from tests.waiting import until_answered as until

SPACE = "space"
SECRET = "a secret of more than sixteen bytes"


@contextlib.asynccontextmanager
async def secured(folder: Path) -> AsyncIterator[Cluster]:
    """A chain that knows devices by their tokens."""
    (folder / "secret").write_text(SECRET)
    async with Cluster(folder, link_options=("--secret-file", str(folder / "secret"))) as cluster:
        yield cluster


def token(device: str) -> str:
    return sign(SECRET.encode(), device)


def trail_of(numbers: list[int]) -> dict[str, int]:
    trail = 0
    for number in numbers:
        trail = follow(trail, number)
    return {"count": len(numbers), "last": numbers[-1], "trail": trail}


# Reducers.

ENDS = {
    "raise": "rejected",
    "spin": "rejected",
    "exit": "quarantined",
    "kill": "quarantined",
    "segfault": "quarantined",
}


def test_a_reducer_cannot_end_the_chain(tmp_path: Path) -> None:
    async def play() -> None:
        async with Cluster(tmp_path) as cluster:
            mending = asyncio.create_task(cluster.mend_for_ever())
            try:
                await suffer_reducers(cluster)
            finally:
                mending.cancel()
            assert "broke" not in cluster.logs()

    asyncio.run(play())


async def suffer_reducers(cluster: Cluster) -> None:
    async with (
        Device.connect(cluster.urls, SPACE, "ada") as ada,
        Device.connect(cluster.urls, SPACE, "bob") as bob,
    ):
        count = 0
        for name, end in ENDS.items():
            before = cluster.mended
            sendings = [ada.send("act", 70 * count + 1), ada.send(name), ada.send("act", 70 * count + 2)]
            others = bob.send("act", count + 1)
            async with asyncio.timeout(PATIENCE_S):
                outcomes = [await sending for sending in sendings]
                assert (await others).status == "applied"
            assert [outcome.status for outcome in outcomes] == ["applied", end, "applied"], (name, outcomes)
            count += 1
            await cluster.until_whole()
            # One tail died of it, and only one.
            assert cluster.mended - before == (end == "quarantined"), name
        replicas = await cluster.until_equal()
        state = await cluster.state([SPACE])
        assert state["devices"]["ada"] == trail_of([70 * n + k for n in range(count) for k in (1, 2)])
        assert state["devices"]["bob"] == trail_of(list(range(1, count + 1)))
        assert state["doubles"] == 0
        assert len(replicas) == 1


# Devices that do not keep to the protocol.


class Raw(WSListener):
    """A WebSocket that says whatever it is told to."""

    def __init__(self) -> None:
        self.heard: list[dict[str, Any]] = []
        self.closed = False
        self.transport: WSTransport

    def on_ws_connected(self, transport: WSTransport) -> None:
        self.transport = transport

    def on_ws_frame(self, transport: WSTransport, frame: WSFrame) -> None:
        if frame.msg_type == WSMsgType.CLOSE:
            transport.disconnect()
        elif frame.msg_type == WSMsgType.TEXT:
            self.heard.append(msgspec.json.decode(frame.get_payload_as_bytes()))

    def on_ws_disconnected(self, transport: WSTransport) -> None:
        self.closed = True

    async def hear(self, kind: str) -> dict[str, Any]:
        async def found() -> dict[str, Any] | None:
            return next((message for message in self.heard if message["type"] == kind), None)

        return dict(await until(found, f"a {kind}, beside {self.heard}"))


def bootstrap(device: str, **more: Any) -> bytes:
    return msgspec.json.encode({"type": "bootstrap", "space": SPACE, "device": device} | more)


def events(payload: bytes) -> bytes:
    return b'{"type":"events","events":[[1,"act",%s]]}' % payload


LET_IN = bootstrap("eve", token=token("eve"))
TEXT, BINARY = WSMsgType.TEXT, WSMsgType.BINARY

BAD: list[tuple[str, str, WSMsgType, list[bytes]]] = [
    ("an unknown message", "unknown-message", TEXT, [b'{"type":"sudo"}']),
    ("no JSON", "malformed", TEXT, [b'{"type":']),
    ("wrong types", "bad-field", TEXT, [b'{"type":"observe","space":7}']),
    ("an event with wrong types", "bad-field", TEXT, [LET_IN, b'{"type":"events","events":[["1",2,3]]}']),
    ("a huge message", "message-too-large", TEXT, [b" " * (FROM_DEVICE_BYTES_MAX + 1)]),
    ("a huge payload", "payload-too-large", TEXT, [LET_IN, events(b'"%s"' % (b"x" * 70_000))]),
    ("a deep payload", "too-deep", TEXT, [LET_IN, events(b"[" * 40 + b"]" * 40)]),
    ("a bottomless message", "malformed", TEXT, [LET_IN, events(b"[" * 200_000)]),
    ("a binary frame", "binary-frame", BINARY, [b'{"type":"ping"}']),
    ("a forged name", "forbidden", TEXT, [bootstrap("ada", token=token("eve"))]),
    ("a name without a token", "forbidden", TEXT, [bootstrap("ada")]),
    ("the chain's own name", "bad-name", TEXT, [bootstrap("@timer", token=token("@timer"))]),
    ("events before the bootstrap", "bootstrap-first", TEXT, [events(b"1")]),
]


def test_bad_input_is_answered_counted_and_changes_nothing(tmp_path: Path) -> None:
    async def play() -> None:
        async with secured(tmp_path) as cluster:
            head = await cluster.at("head")
            async with (
                Device.connect(cluster.urls, SPACE, "ada", token=token("ada")) as ada,
                Device.connect(cluster.urls, SPACE, "eve", token=token("eve")),
            ):
                # Eve's place is known from here on: that she comes again is no change.
                assert (await ada.send("act", 1)).status == "applied"
                for text, code, kind, messages in BAD:
                    await misbehave(cluster, head, text, code, kind, messages)
                await speak_in_an_old_epoch(cluster, head)
                assert (await ada.send("act", 2)).status == "applied"
            assert (await cluster.state([SPACE]))["devices"] == {"ada": trail_of([1, 2])}
            assert "broke" not in cluster.logs()
            assert "Traceback" not in cluster.logs()

    asyncio.run(play())


async def misbehave(cluster: Cluster, head: str, text: str, code: str, kind: WSMsgType, messages: list[bytes]) -> None:
    held = await cluster.until_equal()
    counted = (await cluster.ask(head))["counters"].get(code, 0)
    url = cluster.urls[cluster.names.index(head)]
    raw = Raw()
    await ws_connect(lambda: raw, url)
    for message in messages[:-1]:
        raw.transport.send(TEXT, message)
        await raw.hear("welcome")
    raw.transport.send(kind, messages[-1])
    assert (await raw.hear("error"))["code"] == code, text
    raw.transport.disconnect()

    async def is_counted() -> bool:
        return bool((await cluster.ask(head))["counters"].get(code, 0) == counted + 1)

    await until(is_counted, f"the counter of {code} after {text}")
    assert await cluster.until_equal() == held, text


# A link that does not know the newest view.


async def speak_in_an_old_epoch(cluster: Cluster, head: str) -> None:
    """The head's peer port is told things of an old epoch in the name of the tail, which is no neighbour of it."""
    held, view = await cluster.until_equal(), await cluster.view()
    counted = (await cluster.ask(head))["counters"].get("stale-epoch", 0)
    chain, old, version = view.chain, view.epoch - 1, held[SPACE][0]
    event = Event(10_000, "ada", 10_000, "act", b"5", 1, 1)
    snapshot = SpaceSnapshot(SPACE, version + 50, b"{}", 10_000, [], [], [], 1, [], 1)
    messages: list[link.LinkMessage] = [
        link.Hello(chain, old, []),
        link.Welcome(chain, old, []),
        link.Snapshot(chain, old, snapshot),
        link.Events(chain, old, SPACE, [event]),
        link.Changes(chain, old, SPACE, [Change(old, version + 1, True, b"{}", [])]),
        link.Synced(chain, old),
        link.Ack(chain, old, [(SPACE, version + 1)]),
    ]
    answers: list[link.LinkMessage] = []

    def on_frames(_connection: FramedConnection, frames: list[memoryview]) -> None:
        answers.extend(message for frame in frames for message in decode(frame))

    def protocol() -> FramedConnection:
        return FramedConnection(on_frames, lambda *_: None)

    host, port = split_address(cluster.peer_address(head))
    _, connection = await asyncio.get_running_loop().create_connection(protocol, host, port)
    connection.send(encode_intro(Intro(view.tail, "", chain)))
    connection.send(encode_frame(messages))

    async def are_answered() -> bool:
        return len(answers) >= len(messages)

    await until(are_answered, "the answers to an old epoch")
    assert answers == [link.Stale(chain, view.epoch)] * len(messages)
    connection.abort()
    assert (await cluster.ask(head))["counters"].get("stale-epoch", 0) == counted + len(messages)
    assert await cluster.until_equal() == held
    assert (await cluster.view()).epoch == view.epoch
