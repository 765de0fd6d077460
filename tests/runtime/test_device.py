"""The Python device on a real socket, against a scripted head that speaks the documented messages."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import msgspec
import pytest
import uvloop
from picows import WSFrame, WSListener, WSMsgType, WSTransport, WSUpgradeRequest, ws_create_server

from octoloom.core import device_messages as m
from octoloom.core.app import App, Reject
from octoloom.core.device_effects import Full, PendingEvent
from octoloom.core.errors import StoreError, UsageError
from octoloom.runtime.device import Device
from octoloom.runtime.device_driver import joined
from octoloom.runtime.device_route import Route
from octoloom.runtime.observer import Observer
from octoloom.wire.device import decode_from_device, encode
from tests.waiting import STORY_S
from tests.waiting import async_until as until

Scenario = Callable[[], Coroutine[Any, Any, None]]


def raw(value: Any) -> msgspec.Raw:
    return msgspec.Raw(msgspec.json.encode(value))


class Head:
    """A chain of one, as a script: counts applied events in `n`. Tests change its manners through the attributes."""

    def __init__(self) -> None:
        self.connections: list[Connection] = []
        self.heard: list[m.FromDevice] = []
        self.state: dict[str, Any] = {"n": 0}
        self.version = 0
        self.generation = 7
        self.live: dict[int, bytes] = {}
        self.done: dict[int, str] = {}
        self.url = ""
        self.links: list[str] = []
        self.settles = True
        self.answers = True
        self.refuses: m.ToDevice | None = None
        self.rejected = b"no"

    def on_message(self, connection: Connection, message: m.FromDevice) -> None:
        self.heard.append(message)
        if not self.answers:
            return
        if self.refuses is not None and not isinstance(message, m.Ping):
            connection.say(self.refuses)
        elif isinstance(message, m.Bootstrap):
            self.on_bootstrap(connection, message)
        elif isinstance(message, m.Observe):
            self.welcome(connection)
        elif isinstance(message, m.Send):
            self.take(connection, message.events)
        else:
            connection.say(m.Pong())

    def on_bootstrap(self, connection: Connection, message: m.Bootstrap) -> None:
        known = [sequencer for sequencer, _, _ in message.events]
        kills = [(sequencer, self.done[sequencer], "") for sequencer in known if sequencer in self.done]
        lost = [
            (sequencer, "add", msgspec.Raw(text)) for sequencer, text in self.live.items() if sequencer not in known
        ]
        next_ = max(message.next, *(n + 1 for n in [0, *self.live, *self.done]))
        self.welcome(connection, next=next_, kills=kills, events=lost)
        connection.expected = next_
        self.admit(connection, [event for event in message.events if event[0] not in self.done])

    def welcome(self, connection: Connection, **more: Any) -> None:
        state = raw(self.state)
        connection.say(m.Welcome(self.generation, 1, self.version, state=state, links=self.links, **more))

    def take(self, connection: Connection, events: list[m.DeviceEvent]) -> None:
        for sequencer, _, _ in events:
            if sequencer > connection.expected:
                connection.say(m.Gap(connection.expected))
                return
            connection.expected = max(connection.expected, sequencer + 1)
        self.admit(connection, events)

    def admit(self, connection: Connection, events: list[m.DeviceEvent]) -> None:
        for sequencer, _, payload in events:
            if sequencer not in self.done:
                self.live[sequencer] = bytes(payload)
        if self.settles and self.live:
            self.settle()

    def settle(self) -> None:
        kills: list[m.KillNote] = []
        for sequencer, payload in sorted(self.live.items()):
            word = "rejected" if self.rejected in payload else "applied"
            self.state["n"] += word == "applied"
            self.done[sequencer] = word
            kills.append((sequencer, word, "taken" if word == "rejected" else ""))
        self.live.clear()
        self.change(kills)

    def change(self, kills: list[m.KillNote] | None = None) -> None:
        self.version += 1
        patch = raw(self.state)
        for connection in self.connections:
            connection.say(m.Changed(self.version - 1, self.version, patches=[patch], kills=kills or []))


class Connection(WSListener):
    def __init__(self, head: Head) -> None:
        self.head = head
        self.expected = 1

    def on_ws_connected(self, transport: WSTransport) -> None:
        self.transport = transport
        self.head.connections.append(self)

    def on_ws_frame(self, transport: WSTransport, frame: WSFrame) -> None:
        if frame.msg_type is WSMsgType.TEXT:
            self.head.on_message(self, decode_from_device(frame.get_payload_as_bytes()))
        elif frame.msg_type is WSMsgType.CLOSE:
            transport.disconnect()

    def on_ws_disconnected(self, transport: WSTransport) -> None:
        self.head.connections.remove(self)

    def say(self, message: m.ToDevice) -> None:
        self.transport.send(WSMsgType.TEXT, encode(message))

    def drop(self) -> None:
        self.transport.disconnect(False)


@asynccontextmanager
async def serving(port: int = 0) -> AsyncIterator[Head]:
    head = Head()

    def connection(request: WSUpgradeRequest) -> WSListener:
        return Connection(head)

    server = await ws_create_server(connection, "127.0.0.1", port)
    head.url = f"ws://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield head
    finally:
        server.close()
        for each in list(head.connections):
            each.drop()


def play(scenario: Awaitable[None]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(STORY_S):
            await scenario

    asyncio.run(bounded())


def joining(head: Head, **more: Any) -> Device:
    return Device.connect(head.url, "lobby", "ada", **more)


def sends(head: Head) -> list[list[int]]:
    return [[event[0] for event in message.events] for message in head.heard if isinstance(message, m.Send)]


def bootstraps(head: Head) -> list[m.Bootstrap]:
    return [message for message in head.heard if isinstance(message, m.Bootstrap)]


@pytest.mark.parametrize("runner", [asyncio.run, uvloop.run])
def test_an_event_is_applied_and_its_outcome_awaited(runner: Callable[[Coroutine[Any, Any, None]], None]) -> None:
    async def scenario() -> None:
        async with serving() as head, joining(head) as ada:
            assert ada.connected
            outcome = await ada.send("add", {"by": 1})
            assert outcome
            assert (outcome.status, outcome.version, outcome.sequencer) == ("applied", 1, 1)
            assert (ada.state, ada.version, ada.pending) == ({"n": 1}, 1, [])
            refused = await ada.send("add", "no")
            assert not refused
            assert (refused.status, refused.reason) == ("rejected", "taken")

    runner(scenario())


def test_sends_of_one_tick_leave_as_one_message() -> None:
    async def scenario() -> None:
        async with serving() as head, joining(head) as ada:
            for outcome in [ada.send("add", n) for n in range(50)]:
                assert await outcome
            assert sends(head) == [list(range(1, 51))]
            assert ada.state == {"n": 50}

    play(scenario())


def test_offline_actions_wait_and_leave_in_order() -> None:
    async def scenario() -> None:
        async with serving() as first:
            url = first.url
        async with Device.connect(url, "lobby", "ada", wait_ms=0) as ada:
            sendings = [ada.send("add", n) for n in range(3)]
            assert not ada.connected
            assert [event.sequencer for event in ada.pending] == [0, 0, 0]
            async with serving(int(url.rsplit(":", 1)[1])) as head:
                assert [(await sending).sequencer for sending in sendings] == [1, 2, 3]
                assert head.done == {1: "applied", 2: "applied", 3: "applied"}

    play(scenario())


def test_a_lost_connection_loses_nothing() -> None:
    async def scenario() -> None:
        async with serving() as head, joining(head) as ada:
            head.settles = False
            sending = ada.send("add", 1)
            await until(lambda: bool(head.live))
            head.connections[0].drop()
            head.live.clear()
            head.settles = True
            assert await sending
            assert [event[0] for event in bootstraps(head)[-1].events] == [1]
            assert ada.state == {"n": 1}

    play(scenario())


def test_the_next_process_goes_on_with_the_store(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with serving() as head:
            head.settles = False
            async with joining(head, store=tmp_path / "ada.db") as ada:
                ada.send("add", {"text": "first"})
                await until(lambda: bool(head.live))
            head.settles = True
            async with joining(head, store=tmp_path / "ada.db") as ada:
                await ada.settled()
                assert ada.state == {"n": 1}
                assert (await ada.send("add", 2)).sequencer == 2
            first, second = bootstraps(head)
            assert (first.next, first.events) == (1, [])
            assert (second.next, second.events) == (2, [(1, "add", raw({"text": "first"}))])
            assert second.generation == 7

    play(scenario())


def test_an_action_without_a_link_survives_in_the_store(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with Device.connect("ws://127.0.0.1:9", "lobby", "ada", tmp_path / "ada.db", wait_ms=0) as ada:
            ada.send("add", 1)
        async with serving() as head, joining(head, store=tmp_path / "ada.db") as ada:
            await ada.settled()
            assert ada.state == {"n": 1}

    play(scenario())


def test_nothing_is_said_before_it_is_durable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> None:
        async with serving() as head, joining(head, store=tmp_path / "ada.db") as ada:
            loop, reached, gate = asyncio.get_running_loop(), asyncio.Event(), asyncio.Event()
            store = ada._driver._store
            commit = store.commit

            def slow(steps: Any) -> None:
                loop.call_soon_threadsafe(reached.set)
                asyncio.run_coroutine_threadsafe(gate.wait(), loop).result()
                commit(steps)

            monkeypatch.setattr(store, "commit", slow)
            sending = ada.send("add", 1)
            await reached.wait()
            for _ in range(20):
                await asyncio.sleep(0.001)
            assert sends(head) == []
            # A connection that ends meanwhile takes its sends with it: the next one starts with a bootstrap.
            head.connections[0].drop()
            await until(lambda: not ada.connected)
            await until(lambda: ada._driver._socket is not None)
            gate.set()
            assert await sending
            assert [type(message) for message in head.heard] == [m.Bootstrap, m.Bootstrap]

    play(scenario())


def test_a_store_that_fails_ends_the_device(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> None:
        async with serving() as head, joining(head, store=tmp_path / "ada.db") as ada:

            def broken(steps: Any) -> None:
                raise StoreError("the disk is full: make room")

            monkeypatch.setattr(ada._driver._store, "commit", broken)
            with pytest.raises(StoreError, match="make room"):
                await ada.send("add", 1)
            assert sends(head) == []
            with pytest.raises(StoreError):
                ada.send("add", 2)

    play(scenario())


def test_a_redirect_is_followed_and_a_dead_link_left_for_another() -> None:
    async def scenario() -> None:
        async with serving() as head, serving() as signpost:
            signpost.refuses = m.Redirect(head.url)
            head.links = [head.url, signpost.url]
            async with joining(signpost) as ada:
                assert ada.connected
                assert await ada.send("add", 1)
                signpost.refuses = None
                head.refuses = m.Redirect(signpost.url)
                head.connections[0].drop()
                await until(lambda: bool(signpost.connections))
                assert await ada.send("add", 1)

    play(scenario())


@pytest.mark.parametrize("runner", [asyncio.run, uvloop.run])
def test_a_link_that_ends_before_it_answers_the_call_is_left(
    runner: Callable[[Coroutine[Any, Any, None]], None],
) -> None:
    calls: list[bytes] = []

    async def hang_up(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        calls.append(await reader.readline())
        writer.close()

    async def scenario() -> None:
        server = await asyncio.start_server(hang_up, "127.0.0.1", 0)
        dying = f"ws://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        async with serving() as head, Device.connect([dying, head.url], "s", "ada", wait_ms=5_000) as ada:
            assert ada.connected
            assert (await ada.send("add", 1)).status == "applied"
        assert len(calls) == 1
        server.close()

    runner(scenario())


def test_a_silent_link_is_pinged_and_left() -> None:
    async def scenario() -> None:
        async with serving() as head, serving() as other:
            head.links = [head.url, other.url]
            other.version = 50
            async with joining(head) as ada:
                head.answers = False
                await until(lambda: bool(bootstraps(other)))
                assert isinstance(head.heard[-1], m.Ping)
                await ada.online()

    play(scenario())


def test_a_fenced_device_stops_for_good_and_tells_who_waits() -> None:
    async def scenario() -> None:
        async with serving() as head, joining(head) as ada:
            head.settles = False
            sending = ada.send("add", 1)
            await until(lambda: bool(head.live))
            changes = ada.changes()
            head.connections[0].say(m.Refused("fenced", "a newer connection took over"))
            with pytest.raises(UsageError, match="its own name"):
                await sending
            with pytest.raises(UsageError, match="fenced"):
                await ada.settled()
            with pytest.raises(UsageError, match="fenced"):
                await anext(changes)
            await until(lambda: not head.connections)

    play(scenario())


def test_a_refused_token_is_told_at_the_door() -> None:
    async def scenario() -> None:
        async with serving() as head:
            head.refuses = m.Refused("forbidden", "wrong token")
            with pytest.raises(UsageError, match="token"):
                async with joining(head, token="x"):
                    pass
            assert bootstraps(head)[0].token == "x"

    play(scenario())


def test_a_link_that_breaks_the_protocol_is_left() -> None:
    async def scenario() -> None:
        async with serving() as head, joining(head) as ada:
            head.connections[0].transport.send(WSMsgType.TEXT, b'{"type":"nonsense"}')
            await until(lambda: len(bootstraps(head)) == 2)
            assert await ada.send("add", 1)

    play(scenario())


def test_changes_reach_readers_and_a_slow_one_gets_the_newest() -> None:
    async def scenario() -> None:
        async with serving() as head:
            async with joining(head) as ada:
                quick, slow = ada.changes(), ada.changes()
                for version in range(1, 5):
                    assert await ada.send("add", version)
                    change = await anext(quick)
                    assert (change.version, [each.sequencer for each in change.settled]) == (version, [version])
                newest = await anext(slow)
                assert (newest.version, [each.sequencer for each in newest.settled]) == (4, [1, 2, 3, 4])
                reader = asyncio.create_task(anext(quick, None))
                await asyncio.sleep(0)
            assert await reader is None
            assert [change async for change in slow] == []

    play(scenario())


def test_a_new_history_is_told() -> None:
    async def scenario() -> None:
        async with serving() as head, joining(head) as ada:
            assert await ada.send("add", 1)
            changes = ada.changes()
            head.generation, head.version, head.state = 8, 0, {"n": 0}
            head.connections[0].drop()
            change = await anext(changes)
            assert (change.reset, change.version, ada.state) == (True, 0, {"n": 0})

    play(scenario())


def test_the_view_shows_pending_events_at_once_and_settles() -> None:
    app = App("counter", {"n": 0})

    @app.on("add")
    def add(state: Any, event: Any) -> None:
        if event.payload == "no":
            raise Reject("no")
        state["n"] += 1

    async def scenario() -> None:
        async with serving() as head, joining(head, app=app) as ada:
            head.settles = False
            ada.send("add", 1)
            refused = ada.send("add", "no")
            assert (ada.view["n"], ada.state["n"]) == (1, 0)
            assert ada.view is ada.view
            await until(lambda: len(head.live) == 2)
            head.settle()
            assert not await refused
            assert ada.view["n"] == ada.state["n"] == 1

    play(scenario())


def test_giving_up_on_an_outcome_does_not_take_it_from_others() -> None:
    async def scenario() -> None:
        async with serving() as head, joining(head) as ada:
            head.settles = False
            sending = ada.send("add", 1)
            with suppress(TimeoutError):
                await asyncio.wait_for(sending, 0.01)
            await until(lambda: bool(head.live))
            head.settle()
            assert await sending

    play(scenario())


def test_leaving_says_what_was_done_and_tells_who_waits() -> None:
    async def scenario() -> None:
        async with serving() as head:
            async with joining(head) as ada:
                head.settles = False
                sending = ada.send("add", 1)
            await until(lambda: bool(head.live) and not head.connections)
            with pytest.raises(UsageError, match="closed"):
                await sending
            with pytest.raises(UsageError, match="closed"):
                ada.send("add", 2)

    play(scenario())


def test_an_observer_follows() -> None:
    async def scenario() -> None:
        async with serving() as head, Observer.connect(head.url, "lobby") as lobby:
            changes = lobby.changes()
            head.state["n"] = 5
            head.change()
            assert (await anext(changes)).version == 1
            assert lobby.state == {"n": 5}

    play(scenario())


def test_misuse_names_the_next_step() -> None:
    async def scenario() -> None:
        with pytest.raises(UsageError, match="ws://"):
            Device.connect("http://127.0.0.1:1", "lobby", "ada")
        with pytest.raises(UsageError, match="rename the device"):
            Device.connect("ws://127.0.0.1:1", "lobby", "@ada")
        with pytest.raises(UsageError, match="async with"):
            Device.connect("ws://127.0.0.1:1", "lobby", "ada").send("add")
        async with Device.connect("ws://127.0.0.1:1", "lobby", "ada", wait_ms=0) as ada:
            with pytest.raises(UsageError, match="use dicts"):
                ada.send("add", object())
            for _ in range(256):
                ada.send("add")
            with pytest.raises(Full):
                ada.send("add")
            assert isinstance(ada.pending[0], PendingEvent)

    play(scenario())


def test_only_events_that_follow_each_other_are_joined() -> None:
    def say(*numbers: int) -> m.Send:
        return m.Send([(n, "e", raw(n)) for n in numbers])

    assert joined([say(1), say(2, 3), m.Ping(), say(4), say(3, 4), say(5)]) == [
        say(1, 2, 3),
        m.Ping(),
        say(4),
        say(3, 4, 5),
    ]
    assert [len(each.events) for each in joined(say(n) for n in range(1, 301)) if isinstance(each, m.Send)] == [256, 44]


def test_a_route_goes_round_and_a_redirect_jumps_the_queue() -> None:
    route = Route(["a"])
    assert [route.next(), route.next()] == ["a", "a"]
    route.welcomed(["h", "a", "t"])
    assert [route.next(), route.next(), route.next()] == ["t", "h", "a"]
    route.redirect("x")
    assert (route.pause_ms(), route.next(), route.next()) == (0, "x", "h")
    pauses = [route.pause_ms() for _ in range(10)]
    assert 10 <= pauses[0] <= 20
    assert all(250 <= pause <= 500 for pause in pauses[5:])
