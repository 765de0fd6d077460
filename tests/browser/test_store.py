"""What a page keeps: all of a step or nothing of it, in one tab at a time."""

from __future__ import annotations

import json
from typing import Any

import pytest
from playwright.async_api import BrowserContext, Page

from tests.browser.chromium import Chromium, blank_page
from tests.browser.histories import make
from tests.browser.site import Bug, Site

SMALL = Bug("store.js", "64 * 1024", "40")
"""Folds patches after every few steps."""
NOWHERE = "ws://127.0.0.1:9"


async def stores_page(context: BrowserContext, site: Site, base: str = "/client/") -> Page:
    """A page with `stores` (stores.js), its `modules`, and `opened(name)`, a loaded store, on its window."""
    page = await blank_page(context, site.url)
    await page.evaluate(
        """async (base) => {
            window.stores = await import("/tests/stores.js");
            window.modules = await stores.load(base);
            window.opened = async (name, takeOver = false) => {
                const store = new modules.DeviceStore(name);
                store.saved = await store.load("lobby", "ada", takeOver);
                return store;
            };
            window.failed = (promise) => promise.then(() => null, (error) => [error.name, error.message]);
        }""",
        base,
    )
    return page


def replayed(chromium: Chromium, site: Site, base: str) -> Any:
    """How many batches were saved and found again, or the first that was not."""
    histories = [make(seed) for seed in range(1_000, 1_025)]
    given = [{**history.for_browser(), "seed": history.seed} for history in histories if history.device]

    async def scenario(context: BrowserContext) -> Any:
        page = await stores_page(context, site, base)
        return await page.evaluate("(text) => stores.replay(modules, JSON.parse(text))", json.dumps(given))

    return chromium.play(scenario)


@pytest.mark.parametrize("folding", ["as usual", "often"])
def test_what_is_loaded_is_what_memory_holds(chromium: Chromium, site: Site, folding: str) -> None:
    told = replayed(chromium, site, "/client/" if folding == "as usual" else site.plant(SMALL))
    assert told.get("batches", 0) > 100, told


@pytest.mark.parametrize(
    "bug",
    [
        Bug("store.js", "    rows.patches.clear();\n", ""),
        Bug("store.js", "for (const ticket of step.unqueued) rows.queue.delete(ticket);", ""),
        Bug("store.js", "for (const sequencer of step.removed) rows.events.delete(sequencer);", ""),
        Bug("store.js", "    if (step.state !== null) this.#replace(rows, step.state);\n", ""),
        Bug("store.js", "put({ next, version, generation }, ONLY)", "put({ next, version, generation: 1 }, ONLY)"),
    ],
    ids=lambda bug: bug.right.strip(),
)
def test_a_planted_bug_of_the_store_is_found(chromium: Chromium, site: Site, bug: Bug) -> None:
    assert "batches" not in replayed(chromium, site, site.plant(bug))


def test_a_page_that_dies_leaves_a_prefix_of_its_steps(chromium: Chromium, site: Site) -> None:
    base = site.plant(SMALL)
    # All steps are under way at once, and the page ends in the middle of them.
    begin = """async (first) => {
        const store = await opened("dying");
        window.under = [];
        for (let n = first; n < first + 200; n += 1) under.push(store.commit([stores.step(n)]));
        await under[12];
    }"""

    async def scenario(context: BrowserContext) -> None:
        first = 1
        for _ in range(3):
            page = await stores_page(context, site, base)
            await page.evaluate(begin, first)
            await page.close()
            page = await stores_page(context, site, base)
            saved = await page.evaluate("async () => (await opened('dying')).saved")
            version = saved["version"]
            assert version >= first + 12
            last = {f"at{number % 5}": number for number in range(version - 4, version + 1)}
            assert saved["state"] == {"n": version, **last}
            event = {"sequencer": version, "name": "add", "payload": str(version)}
            assert (saved["next"], saved["pending"]) == (version + 1, [event])
            await page.close()
            first = version + 1

    chromium.play(scenario)


@pytest.mark.parametrize(
    "fault",
    [
        # A value that no database takes, in the middle of a step.
        "store.commit([stores.step(2), stores.step(3, { numbered: [{ sequencer: 3, name: () => 1, payload: '3' }] })])",
        # The browser gives up on the last write.
        """(() => {
            const put = IDBObjectStore.prototype.put;
            let left = 3;
            IDBObjectStore.prototype.put = function (...rest) {
                left -= 1;
                if (left < 0) throw new DOMException("full", "QuotaExceededError");
                return put.apply(this, rest);
            };
            return store.commit([stores.step(2), stores.step(3)]).finally(() => (IDBObjectStore.prototype.put = put));
        })()""",
        # The transaction fails after all was asked for.
        """(() => {
            const transaction = IDBDatabase.prototype.transaction;
            IDBDatabase.prototype.transaction = function (...rest) {
                IDBDatabase.prototype.transaction = transaction;
                const made = transaction.apply(this, rest);
                queueMicrotask(() => made.abort());
                return made;
            };
            return store.commit([stores.step(2), stores.step(3)]);
        })()""",
    ],
    ids=["a bad value", "quota", "abort"],
)
def test_a_step_that_fails_changes_nothing(chromium: Chromium, site: Site, fault: str) -> None:
    async def scenario(context: BrowserContext) -> None:
        page = await stores_page(context, site)
        await page.evaluate("async () => { window.store = await opened('ada'); await store.commit([stores.step(1)]); }")
        name, text = await page.evaluate(f"async () => failed({fault})")
        assert name == "StoreError"
        assert ": " in text.partition("):")[2] or "connect" in text or "free" in text
        await page.evaluate("() => store.close()")
        saved = await page.evaluate("async () => stores.shown((await opened('ada')).saved)")
        one = {"next": 2, "version": 1, "generation": 1, "state": {"at1": 1, "n": 1}, "queue": []}
        event = {"sequencer": 1, "name": "add", "payload": "1", "ticket": 0}
        assert json.loads(saved) == {**one, "pending": [event]}

    chromium.play(scenario)


def test_a_small_change_writes_little_however_large_the_state_is(chromium: Chromium, site: Site) -> None:
    async def scenario(context: BrowserContext) -> None:
        page = await stores_page(context, site)
        written = await page.evaluate(
            """async () => {
                const store = await opened("large");
                const state = JSON.stringify({ text: "x".repeat(2_000_000) });
                await store.commit([stores.step(1, { state, patches: [] })]);
                let written = 0;
                for (const name of ["put", "add"]) {
                    const write = IDBObjectStore.prototype[name];
                    IDBObjectStore.prototype[name] = function (value, ...rest) {
                        written += JSON.stringify(value).length;
                        return write.call(this, value, ...rest);
                    };
                }
                for (let n = 2; n < 102; n += 1) await store.commit([stores.step(n)]);
                store.close();
                const { saved } = await opened("large");
                return [written, saved.state.n, saved.state.text.length];
            }"""
        )
        assert written[0] < 30_000
        assert written[1:] == [101, 2_000_000]

    chromium.play(scenario)


# Whose it is.


def test_a_store_belongs_to_one_device_of_one_space(chromium: Chromium, site: Site) -> None:
    async def scenario(context: BrowserContext) -> None:
        page = await stores_page(context, site)
        await page.evaluate("async () => (await opened('ada')).close()")
        name, text = await page.evaluate(
            "(url) => failed(Device.connect(url, { space: 'lobby', device: 'bob', store: 'ada' }))", NOWHERE
        )
        assert name == "StoreError"
        assert 'belongs to device "ada" of space "lobby", not to "bob"' in text
        assert "a store of its own" in text

    chromium.play(scenario)


@pytest.mark.parametrize(("version", "advice"), [(1, "not a device's store"), (7, "choose another name")])
def test_a_foreign_database_is_left_alone(chromium: Chromium, site: Site, version: int, advice: str) -> None:
    async def scenario(context: BrowserContext) -> None:
        page = await stores_page(context, site)
        name, text, stores = await page.evaluate(
            """async (version) => {
                const open = () => new Promise((resolve, reject) => {
                    const request = indexedDB.open("theirs", version);
                    request.onupgradeneeded = () => request.result.createObjectStore("songs");
                    request.onsuccess = () => resolve(request.result);
                });
                (await open()).close();
                const fault = await failed(opened("theirs"));
                return [...fault, [...(await open()).objectStoreNames].join()];
            }""",
            version,
        )
        assert (name, stores) == ("StoreError", "songs")
        assert advice in text

    chromium.play(scenario)


@pytest.mark.parametrize("name", ["InvalidStateError", "SecurityError"])
def test_a_browser_that_keeps_nothing_says_what_to_do(chromium: Chromium, site: Site, name: str) -> None:
    async def scenario(context: BrowserContext) -> None:
        page = await stores_page(context, site)
        kind, text = await page.evaluate(
            """(name) => {
                IDBFactory.prototype.open = () => { throw new DOMException("not here", name); };
                return failed(Device.connect("ws://127.0.0.1:9", { space: "lobby", device: "ada", store: "ada" }));
            }""",
            name,
        )
        assert kind == "StoreError"
        assert "connect without `store`" in text

    chromium.play(scenario)


# Two tabs.

CONNECT = """async ([url, takeOver]) => {
    try {
        window.ada = await Device.connect(url, { space: "lobby", device: "ada", store: "ada", waitMs: 0, takeOver });
        return "connected";
    } catch (error) {
        return `${error.name}: ${error.message}`;
    }
}"""


def test_a_second_tab_is_told_what_to_do(chromium: Chromium, site: Site) -> None:
    async def scenario(context: BrowserContext) -> None:
        one, two = await stores_page(context, site), await stores_page(context, site)
        assert await one.evaluate(CONNECT, [NOWHERE, False]) == "connected"
        text = await two.evaluate(CONNECT, [NOWHERE, False])
        assert text.startswith("UsageError: ")
        assert "in use by another tab" in text
        assert "takeOver: true" in text
        assert await one.evaluate("() => { ada.send('say', 'mine'); return ada.error; }") is None

        # A reloaded page, and one that comes after the first has gone, get in at once.
        await one.evaluate("async () => { await ada.close(); }")
        assert await two.evaluate(CONNECT, [NOWHERE, False]) == "connected"
        assert await two.evaluate("() => ada.pending.map((event) => event.payload)") == ["mine"]
        await two.reload()
        await two.evaluate("""async () => { Object.assign(window, await import("/client/octoloom.js")); }""")
        assert await two.evaluate(CONNECT, [NOWHERE, False]) == "connected"

    chromium.play(scenario)


def test_a_tab_that_is_taken_over_ends_and_writes_no_more(chromium: Chromium, site: Site) -> None:
    async def scenario(context: BrowserContext) -> None:
        one, two = await stores_page(context, site), await stores_page(context, site)
        assert await one.evaluate(CONNECT, [NOWHERE, False]) == "connected"
        await one.evaluate(
            """() => {
                window.told = [];
                ada.onUpdate(() => told.push(ada.error?.message ?? ""));
                window.sending = ada.send("say", "before");
            }"""
        )
        await one.wait_for_function("() => ada.pending.length === 1")
        assert await two.evaluate(CONNECT, [NOWHERE, True]) == "connected"
        await one.wait_for_function("() => ada.error !== null")
        name, text = await one.evaluate("() => failed(sending)")
        assert name == "UsageError"
        assert 'another tab took over the store "ada"' in text
        assert await one.evaluate("() => told.at(-1)") == text
        thrown = await one.evaluate("() => { try { ada.send('say', 'x'); } catch (error) { return error.message; } }")
        assert thrown == text
        await two.evaluate("() => { ada.send('say', 'after'); }")
        assert await two.evaluate("() => ada.pending.map((event) => event.payload)") == ["before", "after"]

    chromium.play(scenario)


def test_without_locks_the_newest_tab_wins_and_the_older_changes_nothing(chromium: Chromium, site: Site) -> None:
    async def scenario(context: BrowserContext) -> None:
        # As on a page that came over plain http from another machine.
        await context.add_init_script("Object.defineProperty(Navigator.prototype, 'locks', { value: undefined })")
        one, two = await stores_page(context, site), await stores_page(context, site)
        await one.evaluate("async () => { window.store = await opened('ada'); await store.commit([stores.step(1)]); }")
        assert await two.evaluate("async () => (window.store = await opened('ada')).saved.version") == 1
        name, text = await one.evaluate("() => failed(store.commit([stores.step(2)]))")
        assert name == "UsageError"
        assert "another tab took over" in text
        await two.evaluate("async () => { await store.commit([stores.step(2, { patches: ['{\"mine\":true}'] })]); }")
        await two.evaluate("() => store.close()")
        state = await two.evaluate("async () => (await opened('ada')).saved.state")
        assert state == {"n": 1, "at1": 1, "mine": True}

    chromium.play(scenario)


def test_a_store_that_is_deleted_ends_its_device(chromium: Chromium, site: Site) -> None:
    async def scenario(context: BrowserContext) -> None:
        one, two = await stores_page(context, site), await stores_page(context, site)
        assert await one.evaluate(CONNECT, [NOWHERE, False]) == "connected"
        await two.evaluate(
            """() => new Promise((resolve, reject) => {
                const request = indexedDB.deleteDatabase("ada");
                request.onsuccess = () => resolve();
                request.onerror = () => reject(request.error);
            })"""
        )
        await one.wait_for_function("() => ada.error !== null")
        assert "deleted by another page" in await one.evaluate("() => ada.error.message")
        # All is gone, and another life may begin.
        assert await two.evaluate(CONNECT, [NOWHERE, False]) == "connected"

    chromium.play(scenario)
