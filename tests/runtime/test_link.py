"""Links on real sockets: a register, several links and real devices in one loop."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator, Callable, Coroutine
from itertools import pairwise
from typing import Any

import msgspec
import pytest
import uvloop
from picows import WSFrame, WSListener, WSMsgType, WSTransport, ws_connect

from octoloom.core.admission import Limits
from octoloom.core.app import App, AppEvent, Reject
from octoloom.core.errors import UsageError
from octoloom.core.link_messages import Hello
from octoloom.core.placement import place
from octoloom.core.register import RegisterConfig
from octoloom.runtime import doors, stats
from octoloom.runtime.device import Device
from octoloom.runtime.link import LinkServer
from octoloom.runtime.observer import Observer
from octoloom.runtime.register import RegisterServer
from octoloom.runtime.trial import Trials
from octoloom.runtime.watchdog import Watchdog
from octoloom.wire.device import FROM_DEVICE_BYTES_MAX
from octoloom.wire.framing import frame
from octoloom.wire.link import Intro, encode_intro
from octoloom.wire.stats import StatsRequest
from tests.waiting import PATIENCE_S
from tests.waiting import async_until as until

MAIN = os.getpid()
RUNNERS = [asyncio.run, uvloop.run]

app = App("counter", state={"n": 0, "by": {}})


@app.on("add")
def add(state: Any, event: AppEvent) -> None:
    state["n"] += event.payload
    state["by"][event.device] = state["by"].get(event.device, 0) + event.payload


@app.on("refuse")
def refuse(state: Any, event: AppEvent) -> None:
    state["n"] = -1
    raise Reject("not today")


@app.on("fill")
def fill(state: Any, event: AppEvent) -> None:
    state["text"] = str(event.payload) * 60_000


@app.on("spin")
def spin(state: Any, event: AppEvent) -> None:
    while True:
        pass


@app.on("end-the-trial")
def end_the_trial(state: Any, event: AppEvent) -> None:
    """Deadly in a trial only, since this process is needed for the tests."""
    if os.getpid() != MAIN:
        os._exit(1)


class World:
    """A register and its links."""

    def __init__(self, register: RegisterServer, links: list[LinkServer]) -> None:
        self.register = register
        self.links = links

    def at(self, role: str, chain: str = "c") -> LinkServer:
        return next(link for link in self.links if role in stats.role_of(link.chains[chain]))

    def settled(self, size: int, chain: str = "c") -> bool:
        cores = [link.chains.get(chain) for link in self.links]
        return all(core and core.whole and len(core.view.links) == size for core in cores)

    async def lose(self, link: LinkServer) -> None:
        self.links.remove(link)
        await link.stop()


@contextlib.asynccontextmanager
async def world(size: int, chains: int = 1, app_name: str = "", **settings: Any) -> AsyncIterator[World]:
    names = ["c"] if chains == 1 else [f"c{number}" for number in range(chains)]
    register = RegisterServer(RegisterConfig(names, replicas=size))
    await register.start()
    trials = [Trials(app_name) for _ in range(size)]
    links = [LinkServer(f"link{n}", register.address, app, trials=trials[n], **settings) for n in range(size)]
    there = World(register, links)
    try:
        for link in there.links:
            await link.start()
        await until(lambda: all(there.settled(size, name) for name in names))
        yield there
        for link in there.links:
            assert link.failed is not None
            assert not link.failed.done()
    finally:
        for link in there.links:
            await link.stop()
        await register.stop()


class Raw(WSListener):
    """A WebSocket that says whatever it is told to."""

    def __init__(self, polite: bool = True) -> None:
        self.polite = polite
        """Does it leave when it is told to?"""
        self.heard: list[dict[str, Any]] = []
        self.transport: WSTransport
        self.closed = False

    def on_ws_connected(self, transport: WSTransport) -> None:
        self.transport = transport

    def on_ws_frame(self, transport: WSTransport, frame: WSFrame) -> None:
        if frame.msg_type == WSMsgType.CLOSE:
            if self.polite:
                transport.disconnect()
        elif frame.msg_type == WSMsgType.TEXT:
            self.heard.append(msgspec.json.decode(frame.get_payload_as_bytes()))

    def on_ws_disconnected(self, transport: WSTransport) -> None:
        self.closed = True

    def say(self, **message: Any) -> None:
        self.transport.send(WSMsgType.TEXT, msgspec.json.encode(message))

    async def hear(self, kind: str) -> dict[str, Any]:
        await until(lambda: any(message["type"] == kind for message in self.heard) or self.closed)
        return next(message for message in self.heard if message["type"] == kind)


async def dial(url: str, polite: bool = True) -> Raw:
    raw = Raw(polite)
    await ws_connect(lambda: raw, url)
    return raw


def digests(links: list[LinkServer], space: str = "s") -> list[tuple[int, str]]:
    told = [told for link in links for told in link.stats()["spaces"] if told["space"] == space]
    return [(space["version"], space["digest"]) for space in told]


@pytest.mark.parametrize("run", RUNNERS)
def test_a_chain_forms_and_applies_what_a_device_sends(run: Callable[[Coroutine[Any, Any, None]], None]) -> None:
    async def play() -> None:
        async with world(3) as there:
            head, tail = there.at("head"), there.at("tail")
            assert [link.id for link in (head, there.at("middle"), tail)] == head.chains["c"].view.links
            async with (
                # Any link will do: one that is not the head sends the device there.
                Device.connect(tail.url, space="s", device="ada") as ada,
                Observer.connect(tail.url, space="s") as watcher,
            ):
                outcomes = await asyncio.gather(*(ada.send("add", 1) for _ in range(100)))
                assert [outcome.status for outcome in outcomes] == ["applied"] * 100
                outcome = await ada.send("refuse")
                assert (outcome.status, outcome.reason) == ("rejected", "not today")
                assert ada.state == {"n": 100, "by": {"ada": 100}}
                await until(lambda: watcher.state == ada.state)
            assert len(set(digests(there.links))) == 1
            assert len(digests(there.links)) == 3

    run(play())


def test_devices_are_redirected_to_the_head() -> None:
    async def play() -> None:
        async with world(2) as there:
            raw = await dial(there.at("tail").url)
            raw.say(type="bootstrap", space="s", device="ada")
            assert (await raw.hear("redirect"))["url"] == there.at("head").url
            await until(lambda: raw.closed)

    asyncio.run(play())


def test_nobody_is_served_before_there_is_a_view() -> None:
    async def play() -> None:
        link = LinkServer("alone", "127.0.0.1:1", app)
        await link.start()
        raw = await dial(link.url)
        raw.say(type="ping")
        await raw.hear("pong")
        raw.say(type="observe", space="s")
        told = await raw.hear("redirect")
        assert (told["url"], told["retry_ms"] > 0) == ("", True)
        await until(lambda: raw.closed)
        await link.stop()

    asyncio.run(play())


@pytest.mark.parametrize("role", ["head", "middle", "tail"])
def test_a_link_is_lost_and_everything_is_settled_all_the_same(role: str) -> None:
    async def play() -> None:
        async with world(3) as there:
            urls = [link.url for link in there.links]
            async with Device.connect(urls, space="s", device="ada") as ada:
                sendings = [ada.send("add", 1) for _ in range(50)]
                await until(lambda: there.at("head").chains["c"].spaces["s"].events)
                await there.lose(there.at(role))
                sendings += [ada.send("add", 1) for _ in range(50)]
                async with asyncio.timeout(PATIENCE_S):
                    outcomes = [await sending for sending in sendings]
                assert {outcome.status for outcome in outcomes} == {"applied"}
                assert ada.state["n"] == 100
                await until(lambda: there.settled(2) and len(set(digests(there.links))) == 1)

    asyncio.run(play())


def test_a_new_link_learns_and_takes_over() -> None:
    async def play() -> None:
        async with world(2) as there:
            old = there.at("head")
            async with Device.connect([link.url for link in there.links], space="s", device="ada") as ada:
                await ada.send("add", 5)
                new = LinkServer("newcomer", there.register.address, app)
                await new.start()
                there.links.append(new)
                await there.lose(old)
                await until(lambda: there.settled(2))
                assert new.chains["c"].place.is_tail
                assert (await ada.send("add", 1)).status == "applied"
                assert ada.state["n"] == 6
                await until(lambda: len(set(digests(there.links))) == 1)

    asyncio.run(play())


def test_leaving_hands_over_first() -> None:
    async def play() -> None:
        async with world(3) as there:
            head = there.at("head")
            async with Device.connect(head.url, space="s", device="ada") as ada:
                await ada.send("add", 1)
                there.links.remove(head)
                assert await head.leave()
                assert (await ada.send("add", 1)).status == "applied"
                assert ada.state["n"] == 2

    asyncio.run(play())


BAD: list[tuple[str, list[bytes | dict[str, Any]]]] = [
    ("malformed", [b"{"]),
    ("malformed", [b"\xff\xfe"]),
    ("malformed", [b'{"type":"events","events":[[1,"add",' + b"[" * 100_000]),
    ("bad-field", [b"[]"]),
    ("unknown-message", [{"type": "nonsense"}]),
    ("bad-field", [{"type": "observe", "space": 3}]),
    ("bad-name", [{"type": "observe", "space": ""}]),
    ("bad-name", [{"type": "bootstrap", "space": "s", "device": "@timer"}]),
    ("bootstrap-first", [{"type": "events", "events": [[1, "add", 1]]}]),
    ("bad-number", [{"type": "bootstrap", "space": "s", "device": "ada", "next": 0}]),
    ("bad-number", [{"type": "bootstrap", "space": "s", "device": "ada", "next": 1, "events": [[1, "add", 1]]}]),
    ("message-too-large", [b" " * (FROM_DEVICE_BYTES_MAX + 1)]),
    (
        "payload-too-large",
        [
            {"type": "bootstrap", "space": "s", "device": "eve"},
            {"type": "events", "events": [[1, "add", "x" * 70_000]]},
        ],
    ),
    (
        "too-deep",
        [
            {"type": "bootstrap", "space": "s", "device": "eve"},
            b'{"type":"events","events":[[1,"add",' + b"[" * 40 + b"]" * 40 + b"]]}",
        ],
    ),
    (
        "bad-event-name",
        [{"type": "bootstrap", "space": "s", "device": "eve"}, {"type": "events", "events": [[1, "@join", 1]]}],
    ),
]


@pytest.mark.parametrize(("code", "messages"), BAD, ids=[f"{n}-{code}" for n, (code, _) in enumerate(BAD)])
def test_bad_input_gets_its_error_is_counted_and_changes_nothing(
    code: str, messages: list[bytes | dict[str, Any]]
) -> None:
    async def play() -> None:
        async with world(1) as there:
            link = there.links[0]
            async with Device.connect(link.url, space="s", device="bob") as bob:
                await bob.send("add", 1)
                raw = await dial(link.url)
                for message in messages:
                    text = message if isinstance(message, bytes) else msgspec.json.encode(message)
                    raw.transport.send(WSMsgType.TEXT, text)
                assert (await raw.hear("error"))["code"] == code
                assert dict(link.counters()) == {code: 1}
                assert (await bob.send("add", 1)).status == "applied"
                assert bob.state == {"n": 2, "by": {"bob": 2}}

    asyncio.run(play())


def test_frames_that_are_not_text_are_refused() -> None:
    async def play() -> None:
        async with world(1) as there:
            link = there.links[0]
            binary, orphan, huge = [await dial(link.url) for _ in range(3)]
            binary.transport.send(WSMsgType.BINARY, b"{}")
            orphan.transport.send(WSMsgType.CONTINUATION, b"{}")
            huge.transport.send(WSMsgType.TEXT, b"x" * (3 * FROM_DEVICE_BYTES_MAX))
            assert (await binary.hear("error"))["code"] == "binary-frame"
            assert (await orphan.hear("error"))["code"] == "bad-frame"
            await until(lambda: huge.closed)
            await until(lambda: link.counters()["message-too-large"] == 1)

    asyncio.run(play())


def test_a_message_may_come_in_several_frames() -> None:
    async def play() -> None:
        async with world(1) as there:
            raw = await dial(there.links[0].url)
            raw.transport.send(WSMsgType.TEXT, b'{"type":"observe",', fin=False)
            raw.transport.send_ping(b"in between")
            raw.transport.send(WSMsgType.CONTINUATION, b'"space":', fin=False)
            raw.transport.send(WSMsgType.CONTINUATION, b'"s"}')
            await raw.hear("welcome")

    asyncio.run(play())


def test_there_is_room_for_so_many() -> None:
    async def play() -> None:
        async with world(1, connections_max=2) as there:
            link = there.links[0]
            first, second, third = [await dial(link.url) for _ in range(3)]
            assert (await third.hear("error"))["code"] == "too-many-connections"
            await until(lambda: third.closed)
            second.say(type="observe", space="s")
            await second.hear("welcome")
            first.transport.disconnect()
            await until(lambda: len(link.doors) == 1)
            fourth = await dial(link.url)
            fourth.say(type="observe", space="s")
            await fourth.hear("welcome")

    asyncio.run(play())


def test_a_connection_stays_with_one_chain() -> None:
    async def play() -> None:
        async with world(1, chains=2) as there:
            link = there.links[0]
            spaces = [next(f"s{n}" for n in range(100) if place(f"s{n}", ["c0", "c1"]) == c) for c in ("c0", "c1")]
            raw = await dial(link.url)
            raw.say(type="observe", space=spaces[0])
            await raw.hear("welcome")
            raw.say(type="observe", space=spaces[1])
            assert (await raw.hear("error"))["code"] == "other-space"

    asyncio.run(play())


def test_a_newer_connection_fences_the_older() -> None:
    async def play() -> None:
        async with world(1) as there:
            older, newer = [await dial(there.links[0].url) for _ in range(2)]
            older.say(type="bootstrap", space="s", device="ada")
            await older.hear("welcome")
            newer.say(type="bootstrap", space="s", device="ada")
            await newer.hear("welcome")
            assert (await older.hear("error"))["code"] == "fenced"
            older.say(type="events", events=[[1, "add", 100]])
            newer.say(type="events", events=[[1, "add", 1]])
            await until(lambda: there.links[0].chains["c"].spaces["s"].state.get("n") == 1)
            await until(lambda: older.closed and not newer.closed)

    asyncio.run(play())


def test_nothing_more_is_heard_of_who_is_being_sent_away(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doors, "CLOSE_MS_MAX", 100)

    async def play() -> None:
        async with world(1) as there:
            raw = await dial(there.links[0].url, polite=False)
            raw.say(type="events", events=[])
            await raw.hear("error")
            raw.say(type="bootstrap", space="s", device="ada", next=2, events=[[1, "add", 1]])
            await until(lambda: raw.closed)
            assert len(raw.heard) == 1
            assert there.links[0].chains["c"].spaces == {}
            assert dict(there.links[0].counters()) == {"bootstrap-first": 1}

    asyncio.run(play())


def test_who_says_nothing_is_sent_away(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doors, "GREETING_MS_MAX", 50)

    async def play() -> None:
        async with world(1) as there:
            raw, other = [await dial(there.links[0].url) for _ in range(2)]
            other.say(type="observe", space="s")
            assert (await raw.hear("error"))["code"] == "silent"
            await until(lambda: raw.closed)
            assert not other.closed

    asyncio.run(play())


def test_who_does_not_read_is_told_the_difference_later() -> None:
    async def play() -> None:
        async with world(1) as there:
            link = there.links[0]
            slow = await dial(link.url)
            slow.say(type="observe", space="s")
            await slow.hear("welcome")
            slow.transport.underlying_transport.pause_reading()
            async with Device.connect(link.url, space="s", device="ada") as ada:
                # More than the kernel's buffers hold.
                for number in range(200):
                    assert (await ada.send("fill", number % 10)).status == "applied"
                await ada.send("add", 1)
                told = len(slow.heard)
                slow.transport.underlying_transport.resume_reading()
                await until(lambda: slow.heard[-1].get("version") == ada.version)
                assert len(slow.heard) - told < 200
                await ada.send("add", 1)
                await until(lambda: slow.heard[-1].get("version") == ada.version)
                chain = [message for message in slow.heard if message["type"] == "change"]
                assert all(a["version"] == b["since"] for a, b in pairwise(chain))

    asyncio.run(play())


def test_an_event_that_ends_its_process_is_quarantined_by_the_next_tail() -> None:
    async def play() -> None:
        async with world(2, app_name=f"{__name__}:app") as there:
            head, tail = there.at("head"), there.at("tail")
            async with Device.connect(head.url, space="s", device="ada") as ada:
                await ada.send("add", 1)
                # The tail hangs: it takes what comes and computes nothing.
                tail._turns.close()
                sendings = [ada.send("add", 1), ada.send("end-the-trial"), ada.send("add", 1)]
                await until(lambda: len(tail.chains["c"].spaces["s"].events) == 3)
                await there.lose(tail)
                async with asyncio.timeout(PATIENCE_S):
                    outcomes = [(await sending).status for sending in sendings]
                assert outcomes == ["applied", "quarantined", "applied"]
                assert ada.state["n"] == 3

    asyncio.run(play())


@pytest.mark.parametrize("run", RUNNERS)
def test_an_endless_reducer_is_rejected_and_the_link_goes_on(run: Callable[[Coroutine[Any, Any, None]], None]) -> None:
    async def play() -> None:
        async with world(2) as there, Device.connect(there.at("head").url, space="s", device="ada") as ada:
            sendings = [ada.send("add", 1), ada.send("spin"), ada.send("add", 1)]
            async with asyncio.timeout(PATIENCE_S):
                outcomes = [(await sending).status for sending in sendings]
            assert outcomes == ["applied", "rejected", "applied"]

    watchdog = Watchdog([app], budget_ms=40, tick_ms=10)
    watchdog.start()
    try:
        run(play())
    finally:
        watchdog.stop()


def test_a_broken_invariant_ends_the_link_and_the_others_go_on() -> None:
    async def play() -> None:
        async with world(2) as there:
            tail = there.at("tail")
            async with Device.connect([link.url for link in there.links], space="s", device="ada") as ada:
                await ada.send("add", 1)
                tail.chains["c"].spaces["s"].version += 1
                sending = ada.send("add", 1)
                assert tail.failed is not None
                with pytest.raises(AssertionError):
                    await tail.failed
                await there.lose(tail)
                async with asyncio.timeout(PATIENCE_S):
                    assert (await sending).status == "applied"
                assert ada.state["n"] == 2

    asyncio.run(play())


def test_what_was_meant_for_a_lost_connection_does_not_go_out_on_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    async def play() -> None:
        async with world(2) as there:
            head, tail = there.at("head"), there.at("tail")
            said: list[object] = []
            monkeypatch.setattr(tail.peers, "send", lambda _chain, _peer, messages: said.extend(messages))
            # All of it within one tick.
            for _ in range(3):
                tail.on_peer_down("c", head.id)
                said.append("lost")
                tail.on_peer_up("c", head.id)
            await until(lambda: said[-1] != "lost")
            last = len(said) - said[::-1].index("lost")
            assert [type(message) for message in said[last:]] == [Hello]

    asyncio.run(play())


def test_strangers_on_the_peer_port_are_hung_up_on() -> None:
    async def play() -> None:
        async with world(1, token="ours") as there:
            link = there.links[0]
            host, port = link.peer_address.split(":")
            junk = [b"GET / HTTP/1.1\r\n\r\n", frame(b"junk"), frame(b"{}{}"), encode_intro(Intro("x#1", "", "c"))]
            for text in junk:
                reader, writer = await asyncio.open_connection(host, int(port))
                writer.write(text)
                async with asyncio.timeout(PATIENCE_S):
                    with contextlib.suppress(ConnectionResetError):
                        assert await reader.read() == b""
                writer.close()
            assert dict(link.counters()) == {"frame-too-large": 1, "malformed": 2, "forbidden": 1}

    asyncio.run(play())


def test_links_with_a_token_know_each_other() -> None:
    async def play() -> None:
        async with world(3, token="ours") as there, Device.connect(there.links[0].url, space="s", device="ada") as ada:
            assert (await ada.send("add", 1)).status == "applied"

    asyncio.run(play())


def test_anyone_may_ask_how_a_link_is() -> None:
    async def play() -> None:
        async with world(2, limits=Limits(leave_grace_ms=50)) as there:
            async with Device.connect(there.links[0].url, space="s", device="ada") as ada:
                await ada.send("add", 7)
                told = await stats.ask(there.at("head").peer_address, StatsRequest(space="s"))
                assert told["chains"]["c"]["role"] == "head"
                assert told["chains"]["c"]["epoch"] == there.links[0].chains["c"].epoch
                assert told["snapshot"]["state"] == ada.state
                assert told["snapshot"]["digest"] == told["spaces"][0]["digest"]
            plain = await stats.ask(there.at("tail").peer_address, StatsRequest(digests=False))
            assert "digest" not in plain["spaces"][0]
            assert "snapshot" not in plain
        with pytest.raises(UsageError, match="is it running"):
            await stats.ask("127.0.0.1:1")

    asyncio.run(play())


def test_a_port_that_is_taken_is_said() -> None:
    async def play() -> None:
        async with world(1) as there:
            taken = LinkServer("other", there.register.address, app, peer_port=there.links[0].peers.port)
            with pytest.raises(UsageError, match="cannot listen for links"):
                await taken.start()
            taken = LinkServer("other", there.register.address, app, device_port=there.links[0].doors.port)
            with pytest.raises(UsageError, match="cannot listen for devices"):
                await taken.start()

    asyncio.run(play())


def test_the_register_may_be_away_while_nobody_dies() -> None:
    async def play() -> None:
        async with world(2) as there:
            await there.register.stop()
            async with Device.connect(there.at("head").url, space="s", device="ada") as ada:
                assert (await ada.send("add", 1)).status == "applied"

    asyncio.run(play())
