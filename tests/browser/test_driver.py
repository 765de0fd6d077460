"""A page against a scripted head: what is said and saved, in which order, and what bad messages do."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from picows import WSMsgType
from playwright.async_api import Page

from octoloom.core import device_messages as m
from tests.browser.chromium import Chromium, blank_page, until
from tests.browser.histories import BAD_TEXTS
from tests.browser.site import Site
from tests.runtime.test_device import Head, bootstraps, sends, serving

Play = Callable[[Callable[[Page, Head], Awaitable[None]]], None]

JOIN = """async ([url, more]) => {
    window.ada = await Device.connect(url, { space: "lobby", device: "ada", ...more });
}"""


@pytest.fixture
def play(chromium: Chromium, site: Site) -> Play:
    """Plays a scenario with an empty page and a head."""

    def run(scenario: Callable[[Page, Head], Awaitable[None]]) -> None:
        async def whole(context: Any) -> None:
            async with serving() as head:
                await scenario(await blank_page(context, site.url), head)

        chromium.play(whole)

    return run


async def join(page: Page, head: Head, **more: Any) -> None:
    await page.evaluate(JOIN, [head.url, more])


def events_of(message: m.FromDevice) -> list[tuple[int, str, str]]:
    assert isinstance(message, m.Send | m.Bootstrap)
    return [(number, name, bytes(payload).decode()) for number, name, payload in message.events]


# Sending.


def test_an_event_is_applied_and_its_outcome_awaited(play: Play) -> None:
    async def scenario(page: Page, head: Head) -> None:
        await join(page, head)
        assert await page.evaluate("() => [ada.connected, ada.version, ada.generation]") == [True, 0, 7]
        applied = {"status": "applied", "reason": "", "version": 1, "sequencer": 1, "applied": True}
        assert await page.evaluate("() => ada.send('add', { by: 1 })") == applied
        assert await page.evaluate("() => [ada.state, ada.version, ada.pending]") == [{"n": 1}, 1, []]
        refused = {"status": "rejected", "reason": "taken", "version": 2, "sequencer": 2, "applied": False}
        assert await page.evaluate("() => ada.send('add', 'no')") == refused

    play(scenario)


def test_what_one_turn_does_is_one_transaction_and_one_message(play: Play) -> None:
    async def scenario(page: Page, head: Head) -> None:
        await join(page, head, store="ada")
        # Each transaction and each message, in the order of the world outside.
        await page.evaluate(
            """() => {
                window.log = [];
                const begin = IDBDatabase.prototype.transaction;
                IDBDatabase.prototype.transaction = function (...rest) {
                    log.push(`begin ${rest[1]} ${rest[2].durability}`);
                    const made = begin.apply(this, rest);
                    made.addEventListener("complete", () => log.push("saved"));
                    return made;
                };
                const send = WebSocket.prototype.send;
                WebSocket.prototype.send = function (text) {
                    if (!text.includes("ping")) log.push(JSON.parse(text).type);
                    return send.call(this, text);
                };
            }"""
        )
        head.settles = False
        await page.evaluate("() => { for (let n = 0; n < 10; n += 1) ada.send('add', n); }")
        await head.until(lambda: bool(sends(head)))
        assert sends(head) == [list(range(1, 11))]
        assert await page.evaluate("() => log") == ["begin readwrite strict", "saved", "events"]

    play(scenario)


def test_the_payload_is_said_again_as_it_was(play: Play) -> None:
    async def scenario(page: Page, head: Head) -> None:
        text = '{"b": 1.0,"a":12345678901234567890, "é":"\\u00e9"}'
        head.live[3] = text.encode()
        head.settles = False
        await join(page, head, store="ada")
        assert await page.evaluate("() => ada.pending.map((event) => [event.sequencer, event.payload.b])") == [[3, 1]]
        head.connections[0].drop()
        await head.until(lambda: len(bootstraps(head)) == 2)
        assert events_of(bootstraps(head)[1]) == [(3, "add", text)]
        await page.evaluate("() => ada.close()")
        await join(page, head, store="ada")
        assert events_of(bootstraps(head)[2]) == [(3, "add", text)]

    play(scenario)


def test_what_can_never_be_an_event_is_thrown_at_once(play: Play) -> None:
    async def scenario(page: Page, head: Head) -> None:
        await join(page, head)
        faults = await page.evaluate(
            """() => {
                const circle = {};
                circle.circle = circle;
                const bad = [
                    ["", 1], ["@join", 1], ["x".repeat(65), 1], [7, 1], ["say", circle], ["say", 10n], ["say", () => 1],
                    ["say", "x".repeat(70_000)], ["say", "é".repeat(33_000)], ["say", "\\ud800"], ["\\udc00", 1],
                    ["say", JSON.parse("[".repeat(33) + "]".repeat(33))],
                ];
                return bad.map(([name, payload]) => {
                    try {
                        ada.send(name, payload);
                        return null;
                    } catch (error) {
                        return error.name;
                    }
                });
            }"""
        )
        assert faults == ["UsageError"] * 12
        assert await page.evaluate("() => ada.pending.length") == 0
        assert await page.evaluate("async () => (await ada.send('🐙'.repeat(64), 'é'.repeat(32_000))).applied")

    play(scenario)


def test_a_device_with_too_much_pending_is_full_and_says_so(play: Play) -> None:
    async def scenario(page: Page, head: Head) -> None:
        head.settles = False
        await join(page, head)
        fault = await page.evaluate(
            """() => {
                for (let n = 0; n < 256; n += 1) ada.send("add", n);
                try {
                    ada.send("add", 256);
                } catch (error) {
                    return [error instanceof Full, error instanceof UsageError, error.message];
                }
            }"""
        )
        assert fault[:2] == [True, True]
        assert "256 events" in fault[2]
        await head.until(lambda: len(head.live) == 256)
        head.settle()
        await page.evaluate("async () => { await ada.settled(); }")

    play(scenario)


# What cannot be saved is not said.


def test_a_device_that_cannot_save_ends_and_says_nothing(play: Play) -> None:
    async def scenario(page: Page, head: Head) -> None:
        await join(page, head, store="ada")
        await page.evaluate("() => ada.send('add', 1)")
        told = await page.evaluate(
            """async () => {
                IDBObjectStore.prototype.put = () => { throw new DOMException("full", "QuotaExceededError"); };
                const fault = await ada.send("add", 2).catch((error) => error);
                let again = null;
                try { ada.send("add", 3); } catch (error) { again = error; }
                const ended = await ada.settled().catch((error) => error);
                const same = [ada.error, again, ended].every((error) => error === fault);
                return [fault.name, fault.message, same, ada.connected];
            }"""
        )
        assert told[0] == "StoreError"
        assert "free some space" in told[1]
        assert told[2:] == [True, False]
        await head.until(lambda: not head.connections)
        assert sends(head) == [[1]]

    play(scenario)


def test_what_was_meant_for_a_lost_connection_is_not_said_on_the_next(play: Play) -> None:
    async def scenario(page: Page, head: Head) -> None:
        head.settles = False
        await page.evaluate(
            """() => {
                // Transactions end when the test says so.
                window.held = [];
                window.holding = false;
                const { set } = Object.getOwnPropertyDescriptor(IDBTransaction.prototype, "oncomplete");
                Object.defineProperty(IDBTransaction.prototype, "oncomplete", {
                    set(handler) {
                        set.call(this, () => (holding ? held.push(handler) : handler()));
                    },
                });
            }"""
        )
        await join(page, head, store="ada")
        await page.evaluate("() => { holding = true; ada.send('add', 1); }")
        await until(page, "() => held.length === 1")
        assert sends(head) == []
        head.connections[0].drop()
        await head.until(lambda: not head.connections)
        await head.until(lambda: bool(head.connections))
        await until(page, "() => !ada.connected")
        await page.evaluate("() => { holding = false; held.shift()(); }")
        await head.until(lambda: len(bootstraps(head)) == 2)
        assert events_of(bootstraps(head)[1]) == [(1, "add", "1")]
        await until(page, "() => ada.connected")
        assert sends(head) == []

    play(scenario)


# What a link may not say.


def test_each_bad_message_ends_its_connection_and_changes_nothing(play: Play) -> None:
    bad = [
        *BAD_TEXTS,
        '{"type":"change","since":1,"version":2,"patches":[{"n":9}],"kills":[[2,"eaten",""]]}',
        '{"type":"change","since":1,"version":2,"patches":[{"n":9}],"kills":[[2,"applied"]]}',
        '{"type":"change","since":1,"version":9007199254740992,"patches":[{"n":9}]}',
        '{"type":"welcome","generation":8,"epoch":1,"version":5}',
        '{"type":"welcome","generation":7,"epoch":1,"version":5,"state":{"n":9},"events":[[2,"add"]]}',
        '{"type":"change","since":1,"version":2,"patches":[' + "[" * 300 + "]" * 300 + "]}",
    ]

    async def scenario(page: Page, head: Head) -> None:
        await join(page, head, store="ada")
        await page.evaluate("() => ada.send('add', 1)")
        head.settles = False
        await page.evaluate("() => { ada.send('add', 2); }")
        await head.until(lambda: 2 in head.live)
        before = await page.evaluate("() => [ada.state, ada.version, ada.generation, ada.pending]")
        for text in bad:
            count, connection = len(bootstraps(head)), head.connections[0]
            connection.transport.send(WSMsgType.TEXT, text.encode())
            await head.until(lambda: len(bootstraps(head)) > count)  # noqa: B023 - awaited at once
            assert connection not in head.connections, text
            await until(page, "() => ada.connected")
            assert await page.evaluate("() => [ada.state, ada.version, ada.generation, ada.pending]") == before, text
        count = len(bootstraps(head))
        head.connections[0].transport.send(WSMsgType.BINARY, b'{"type":"pong"}')
        await head.until(lambda: len(bootstraps(head)) > count)
        await until(page, "() => ada.connected")
        head.settle()
        await page.evaluate("async () => { await ada.settled(); }")
        assert await page.evaluate("() => [ada.state, ada.error]") == [{"n": 2}, None]

    play(scenario)


def test_a_device_that_is_refused_for_good_stops(play: Play) -> None:
    async def scenario(page: Page, head: Head) -> None:
        await join(page, head)
        head.settles = False
        await page.evaluate("() => { window.sending = ada.send('add', 1); }")
        await head.until(lambda: bool(head.live))
        head.connections[0].say(m.Refused("fenced", "a newer connection"))
        told = await page.evaluate(
            """async () => {
                const error = await sending.catch((error) => error);
                const read = await ada.changes().next().catch((error) => error);
                return [error instanceof Refused, error.code, error.message, read === error, ada.error === error];
            }"""
        )
        assert told[:2] == [True, "fenced"]
        assert "give each client its own name" in told[2]
        assert told[3:] == [True, True]
        await head.until(lambda: not head.connections)
        assert len(bootstraps(head)) == 1

        head.refuses = m.Refused("forbidden", "no")
        fault = await page.evaluate(
            "(url) => Device.connect(url, { space: 'lobby', device: 'bob' }).catch((e) => `${e.name} ${e.code}`)",
            head.url,
        )
        assert fault == "Refused forbidden"

    play(scenario)


# Being asked to wait, and going elsewhere.


def test_a_busy_link_is_given_time_and_then_everything_again(play: Play) -> None:
    async def scenario(page: Page, head: Head) -> None:
        await join(page, head)
        head.answers = False
        await page.evaluate("() => { ada.send('add', 1); }")
        await head.until(lambda: sends(head) == [[1]])
        head.connections[0].say(m.Busy(1, 60, "slow"))
        await page.evaluate("() => new Promise((resolve) => setTimeout(resolve))")
        head.answers = True
        await page.evaluate("async () => { ada.send('add', 2); await ada.settled(); }")
        assert sends(head)[-1] == [1, 2]
        assert head.state == {"n": 2}

    play(scenario)


def test_a_redirect_is_followed_and_links_are_remembered(play: Play) -> None:
    async def scenario(page: Page, head: Head) -> None:
        async with serving() as other:
            head.refuses = m.Redirect(other.url)
            other.links = [other.url]
            await join(page, head)
            assert len(bootstraps(head)) == 1
            assert len(bootstraps(other)) == 1
            # The next call goes where the chain is, not where the page was sent first.
            other.connections[0].drop()
            await other.until(lambda: len(bootstraps(other)) == 2)
        head.refuses = None
        await until(page, "() => ada.connected")
        assert len(head.connections) == 1

    play(scenario)


def test_a_silent_link_is_left_for_another(play: Play) -> None:
    async def scenario(page: Page, head: Head) -> None:
        async with serving() as other:
            head.answers = False
            await page.evaluate(JOIN, [[head.url, other.url], {}])
            await until(page, "() => ada.connected")
            assert len(bootstraps(other)) == 1
            assert any(isinstance(message, m.Ping) for message in head.heard)

    play(scenario)


def test_a_page_that_was_asleep_does_not_blame_the_link(play: Play) -> None:
    async def scenario(page: Page, head: Head) -> None:
        # The page hangs right after it has pinged, for longer than it would wait for the pong. When it wakes, its
        # timers come before what was said meanwhile.
        await page.evaluate(
            """() => {
                window.slept = 0;
                const { set } = Object.getOwnPropertyDescriptor(WebSocket.prototype, "onmessage");
                Object.defineProperty(WebSocket.prototype, "onmessage", {
                    set(handler) {
                        set.call(this, handler && ((event) => setTimeout(() => handler(event), 20)));
                    },
                });
                const send = WebSocket.prototype.send;
                WebSocket.prototype.send = function (text) {
                    send.call(this, text);
                    if (!text.includes("ping")) return;
                    const end = performance.now() + 1_600;
                    while (performance.now() < end);
                    slept += 1;
                };
            }"""
        )
        await join(page, head)
        await until(page, "() => slept === 2")
        assert await page.evaluate("() => ada.send('add', 1).then((outcome) => outcome.applied)")
        assert len(bootstraps(head)) == 1

    play(scenario)


def test_a_page_that_comes_online_calls_at_once(play: Play) -> None:
    async def scenario(page: Page, head: Head) -> None:
        await join(page, head)
        # No pause ends by itself.
        await page.evaluate(
            """() => {
                const { setTimeout } = window;
                window.setTimeout = (work, ms) => (String(work).includes("dial") ? 0 : setTimeout(work, ms));
            }"""
        )
        head.connections[0].drop()
        await until(page, "() => !ada.connected")
        assert len(bootstraps(head)) == 1
        await page.evaluate("() => window.dispatchEvent(new Event('online'))")
        await until(page, "() => ada.connected")
        assert len(bootstraps(head)) == 2

    play(scenario)


# What the application is told.


def test_a_slow_reader_gets_the_newest_change_with_all_outcomes(play: Play) -> None:
    async def scenario(page: Page, head: Head) -> None:
        await join(page, head)
        told = await page.evaluate(
            """async () => {
                const changes = ada.changes();
                for (let n = 0; n < 5; n += 1) await ada.send("add", n);
                const first = (await changes.next()).value;
                const reading = changes.next();
                await ada.send("add", 5);
                const second = (await reading).value;
                await ada.close();
                return [first, second, (await changes.next()).done, (await ada.changes().next()).done];
            }"""
        )
        assert (told[0]["version"], [outcome["sequencer"] for outcome in told[0]["settled"]]) == (5, [1, 2, 3, 4, 5])
        assert (told[1]["version"], [outcome["sequencer"] for outcome in told[1]["settled"]]) == (6, [6])
        assert told[2:] == [True, True]

    play(scenario)


def test_unread_outcomes_are_bounded_and_a_loop_can_be_left(play: Play) -> None:
    async def scenario(page: Page, head: Head) -> None:
        await join(page, head)
        told = await page.evaluate(
            """async () => {
                const changes = ada.changes();
                for (let round = 0; round < 3; round += 1) {
                    for (let n = 0; n < 100; n += 1) ada.send("add", n);
                    await ada.settled();
                }
                let seen = [];
                for await (const change of changes) {
                    seen = change.settled.map((outcome) => outcome.sequencer);
                    break;
                }
                return [seen.length, seen.at(-1), (await changes.next()).done];
            }"""
        )
        assert told == [256, 300, True]

    play(scenario)


def test_a_listener_that_throws_harms_nobody(play: Play) -> None:
    async def scenario(page: Page, head: Head) -> None:
        await join(page, head)
        told = await page.evaluate(
            """async () => {
                const reported = [];
                window.addEventListener("error", (event) => {
                    event.preventDefault();
                    reported.push(event.error.message);
                });
                const heard = [];
                ada.onChange(() => { throw new Error("mine"); });
                const off = ada.onChange((change) => heard.push(change.version));
                ada.onUpdate(() => { throw new Error("too"); });
                await ada.send("add", 1);
                off();
                off();
                await ada.send("add", 2);
                return [heard, reported.includes("mine"), reported.includes("too"), ada.version];
            }"""
        )
        assert told == [[1], True, True, 2]

    play(scenario)


def test_updates_tell_of_all_that_can_be_shown(play: Play) -> None:
    async def scenario(page: Page, head: Head) -> None:
        await join(page, head)
        await page.evaluate(
            """() => {
                window.shown = [];
                ada.onUpdate(() => shown.push([ada.connected, ada.pending.length, ada.version, ada.closed].join()));
            }"""
        )
        head.settles = False
        await page.evaluate("() => { ada.send('add', 1); ada.send('add', 2); }")
        await head.until(lambda: len(head.live) == 2)
        head.settle()
        await until(page, "() => ada.version === 1")
        head.connections[0].drop()
        await until(page, "() => !ada.connected")
        await until(page, "() => ada.connected")
        await page.evaluate("async () => { await ada.close(); }")
        shown = await page.evaluate("() => shown")
        steps = ["true,2,0,false", "true,0,1,false", "false,0,1,false", "true,0,1,false", "false,0,1,true"]
        assert list(dict.fromkeys(shown)) == list(dict.fromkeys(steps))
        assert shown[0] == steps[0]
        assert shown[-1] == steps[-1]

    play(scenario)


def test_the_view_shows_what_is_pending_on_a_copy(play: Play) -> None:
    async def scenario(page: Page, head: Head) -> None:
        head.state["list"] = []
        head.settles = False
        await page.evaluate(
            """async (url) => {
                const preview = (state, events) => {
                    for (const { device, name, payload } of events) {
                        state.n += 1;
                        state.list.push(device, name, payload);
                        payload.seen = true;
                    }
                };
                window.ada = await Device.connect(url, { space: "lobby", device: "ada", preview });
                window.bob = await Device.connect(url, {
                    space: "lobby", device: "bob", preview: (state, events) => ({ count: events.length }),
                });
                ada.send("add", { by: 1 });
            }""",
            head.url,
        )
        view, state, pending, same, other = await page.evaluate(
            "() => [ada.view, ada.state, ada.pending, ada.view === ada.view, bob.view]"
        )
        assert view == {"n": 1, "list": ["ada", "add", {"by": 1, "seen": True}]}
        assert state == {"n": 0, "list": []}
        assert pending[0]["payload"] == {"by": 1}
        assert same
        assert other == {"count": 0}
        await head.until(lambda: bool(head.live))
        head.settle()
        await page.evaluate("async () => { await ada.settled(); }")
        assert await page.evaluate("() => ada.view") == {"n": 1, "list": []}

    play(scenario)


# Ending, and beginning again.


def test_what_is_not_settled_when_it_closes_goes_out_in_the_next_life(play: Play) -> None:
    async def scenario(page: Page, head: Head) -> None:
        head.settles = False
        await join(page, head, store="ada")
        # Nobody looks at the second one: that must not become an unhandled rejection.
        fault = await page.evaluate(
            """async () => {
                const sending = ada.send("add", 1);
                ada.send("add", 2);
                await ada.close();
                await ada.close();
                return [await sending.catch((error) => `${error.name}: ${error.message}`), ada.error, ada.closed];
            }"""
        )
        assert fault[0].startswith("UsageError: this connection was closed")
        assert fault[1:] == [None, True]
        await head.until(lambda: not head.connections)
        head.live.clear()
        head.settles = True
        settled = await page.evaluate(
            """async (url) => {
                window.ada = await Device.connect(url, { space: "lobby", device: "ada", store: "ada", waitMs: 0 });
                const changes = ada.changes();
                const pending = ada.pending.map((event) => event.payload);
                await ada.settled();
                return [pending, (await changes.next()).value.settled.map((outcome) => outcome.status)];
            }""",
            head.url,
        )
        assert settled == [[1, 2], ["applied", "applied"]]
        assert head.state == {"n": 2}

    play(scenario)


def test_an_observer_follows_and_has_no_name(play: Play) -> None:
    async def scenario(page: Page, head: Head) -> None:
        await page.evaluate(
            "async (url) => { window.lobby = await Observer.connect(url, { space: 'lobby' }); }", head.url
        )
        assert head.heard == [m.Observe("lobby", 0, 0)]
        head.state["n"] = 5
        head.change()
        await until(page, "() => lobby.state.n === 5 && lobby.version === 1")
        assert await page.evaluate("() => lobby.send") is None
        head.connections[0].drop()
        await head.until(lambda: len(head.heard) == 2)
        assert head.heard[1] == m.Observe("lobby", 7, 1)

    play(scenario)


@pytest.mark.parametrize(
    ("url", "options"),
    [
        ("http://x", {}), ([], {}), (None, {}), ("ws://x", {"space": ""}), ("ws://x", {"space": "@x"}),
        ("ws://x", {"space": "x" * 129}), ("ws://x", {"device": None}), ("ws://x", {"device": "@ada"}),
        ("ws://x", {"token": "x" * 5000}), ("ws://x", {"preview": 7}), ("ws://x", {"store": ""}),
        ("ws://x", {"store": 7}),
    ],
)  # fmt: skip
def test_a_wrong_call_is_told_what_is_wrong(chromium: Chromium, site: Site, url: Any, options: dict[str, Any]) -> None:
    async def scenario(context: Any) -> str:
        page = await blank_page(context, site.url)
        script = "([url, options]) => Device.connect(url, options).then(() => null, (error) => error.name)"
        return str(await page.evaluate(script, [url, {"space": "lobby", "device": "ada", **options}]))

    assert chromium.play(scenario) == "UsageError"


def test_a_new_history_is_told(play: Play) -> None:
    async def scenario(page: Page, head: Head) -> None:
        await join(page, head)
        await page.evaluate("async () => { await ada.send('add', 1); window.changes = ada.changes(); }")
        head.generation, head.version, head.state = 8, 0, {"n": 0}
        head.done.clear()
        head.connections[0].drop()
        change = await page.evaluate("async () => (await changes.next()).value")
        assert (change["reset"], change["version"]) == (True, 0)
        assert await page.evaluate("() => [ada.generation, ada.state]") == [8, {"n": 0}]

    play(scenario)
