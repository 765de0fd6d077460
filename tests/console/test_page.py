"""The page in a real browser, beside a real cluster: what is killed is seen to heal, and names are never markup.

All tests share one cluster. Each waits until it is whole again before it ends.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import BrowserContext, Page

from octoloom import Device, Group
from octoloom.runtime.log_client import LogClient
from octoloom.runtime.log_producer import Producer
from octoloom.runtime.step_topic import StepTopic
from tests.browser.chromium import Chromium
from tests.cli.test_cluster import Up, is_whole

PATIENCE_S = 60.0
EVIL = "<script>window.evil = 1</script><img src=x onerror='window.evil = 1'>"

NOTES = """
from octoloom import App

app = App("notes", state={"notes": {}, "count": 0})

@app.on("write")
def write(state, event):
    state["notes"][event.payload["name"]] = event.payload["text"]
    state["count"] += 1

@app.on("erase")
def erase(state, event):
    del state["notes"][event.payload["name"]]
"""


@pytest.fixture(scope="module")
def up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    folder = tmp_path_factory.mktemp("cluster")
    (folder / "notes.py").write_text(NOTES)
    up = Up(folder / "data", f"{folder / 'notes.py'}:app", "--replicas", "3", "--sync", "os")
    # What it says has to be read, or it waits for a reader.
    assert up.process.stdout is not None
    reader = threading.Thread(target=up.said.extend, args=(up.process.stdout,), daemon=True)
    reader.start()
    yield up
    if up.process.poll() is None:
        up.process.send_signal(signal.SIGINT)
    code = up.process.wait(PATIENCE_S)
    reader.join(PATIENCE_S)
    assert code == 0
    assert "Traceback" not in "".join(up.said)


class Beside:
    """What a test does beside the browser, in a loop of its own."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()

    async def run(self, work: Coroutine[Any, Any, Any]) -> Any:
        """Called from the browser's loop."""
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, self._loop))

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(PATIENCE_S)
        self._loop.close()


@pytest.fixture(scope="module")
def beside() -> Iterator[Beside]:
    made = Beside()
    yield made
    made.close()


def text_is(selector: str, text: str) -> str:
    return f"[...document.querySelectorAll({selector!r})].some((each) => each.innerText.includes({text!r}))"


async def opened(context: BrowserContext, url: str) -> Page:
    page = await context.new_page()
    await page.goto(url)
    return page


async def until(page: Page, condition: str) -> None:
    """Waits until an expression is true. Playwright's own way needs `eval`, which the page's policy forbids."""
    deadline = time.monotonic() + PATIENCE_S
    while not await page.evaluate(condition):
        if time.monotonic() > deadline:
            shown = await page.evaluate("document.body.innerText")
            raise AssertionError(f"waited for {condition}, and saw {shown[:3000]}")
        await asyncio.sleep(0.02)


@contextlib.contextmanager
def stopped(pid: int) -> Iterator[None]:
    """A process hangs meanwhile: long enough for the page to show it, and not for ever if a test fails."""
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGCONT)


async def until_whole(page: Page) -> None:
    await until(page, text_is(".verdict", "Everything is whole"))


def played(chromium: Chromium, scenario: Callable[[BrowserContext], Coroutine[Any, Any, None]]) -> None:
    chromium.play(scenario, 2 * PATIENCE_S)


def test_the_address_is_said_and_noted(up: Up) -> None:
    url = up.status()["console"]
    deadline = time.monotonic() + PATIENCE_S
    while f"console at {url}" not in "".join(up.said):
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_three_links_are_shown_and_a_killed_head_is_seen_to_heal(up: Up, chromium: Chromium) -> None:
    status = up.until(is_whole)
    names = {process["role"]: process["name"] for process in status["processes"]}
    head = next(process for process in status["processes"] if process["role"] == "head")

    async def scenario(context: BrowserContext) -> None:
        page = await opened(context, status["console"])
        await until_whole(page)
        await until(page, "document.querySelectorAll('.link-place').length === 3")
        order = await page.locator(".link-name").all_inner_texts()
        assert order == [names["head"], names["middle"], names["tail"]]
        assert await page.locator(".role").all_inner_texts() == ["head", "middle", "tail"]
        assert await page.locator(".processes").inner_text() == "7 of 7 processes up"
        assert await page.locator(".process-name").all_inner_texts() == ["register", "broker1", "broker2", "broker3"]
        # It hangs first, so that the page has time to show it; then it ends as after a crash.
        with stopped(head["pid"]):
            await until(page, text_is(".verdict", f"{head['name']} does not answer"))
            await until(page, text_is(".link-place[data-state=silent] .link-name", head["name"]))
            await until(page, text_is(".pill", "2 of 3 links"))
            os.kill(head["pid"], signal.SIGKILL)
        await until_whole(page)
        await until(page, text_is(".news-text", f"{head['name']} went, {names['middle']} is head now"))
        await until(page, text_is(".news-text", f"{head['name']} ended by SIGKILL"))
        await until(page, text_is(".news-text", "chain1 is whole"))
        order = await page.locator(".link-name").all_inner_texts()
        assert order == [names["middle"], names["tail"], names["head"]]
        assert "1 restart" in await page.locator(".link-place").last.inner_text()

    played(chromium, scenario)


def test_a_broker_and_the_register_die_and_the_page_says_so(up: Up, chromium: Chromium) -> None:
    status = up.until(is_whole)
    pids = {process["name"]: process["pid"] for process in status["processes"]}

    async def scenario(context: BrowserContext) -> None:
        page = await opened(context, status["console"])
        await until_whole(page)
        with stopped(pids["broker2"]):
            await until(page, text_is(".process[data-state=silent] .process-name", "broker2"))
            await until(page, text_is(".news-text", "broker2 is not in sync any more in journal 0–7"))
            os.kill(pids["broker2"], signal.SIGKILL)
        await until(page, text_is(".news-text", "broker2 is in sync in journal 0–7"))
        await until_whole(page)
        with stopped(pids["register"]):
            await until(page, text_is(".verdict", "does not answer"))
            # What is known is still shown, and how old it is.
            await until(page, text_is(".process[data-role=register]", "it answered"))
            assert await page.locator(".link-place").count() == 3
        await until_whole(page)

    played(chromium, scenario)


def test_a_space_is_followed_live(up: Up, chromium: Chromium, beside: Beside) -> None:
    status = up.until(is_whole)
    urls = [process["address"] for process in status["processes"] if process["address"].startswith("ws://")]
    board: list[Device] = []

    async def write(name: str, text: Any) -> None:
        if not board:
            board.append(await Device.connect(urls, "board", "ada", wait_ms=10_000).__aenter__())
        assert await board[0].send("write", {"name": name, "text": text})

    async def erase(name: str) -> None:
        assert await board[0].send("erase", {"name": name})

    async def scenario(context: BrowserContext) -> None:
        await beside.run(write("first", "hello"))
        page = await opened(context, f"{status['console']}#/spaces")
        await page.get_by_role("link", name="board", exact=True).click()
        await until(page, text_is(".title .pill", "live"))
        await until(page, text_is(".tree-line", 'first: "hello"'))
        # A node that somebody closed stays closed, and what changes lights up.
        await until(page, text_is(".tree-line", "count: 1"))
        await beside.run(write("second", {"deep": [1, 2, {"x": EVIL}]}))
        await until(page, text_is(".tree-line", "second"))
        await until(page, text_is(".tree-line.changed", "count: 2"))
        await until(page, text_is(".change", '"second":{"deep"'))
        await page.locator(".tree-line", has_text="notes").first.click()
        await beside.run(write("third", "closed"))
        await until(page, text_is(".tree-line", "count: 3"))
        assert not await page.locator(".tree-line", has_text="third").is_visible()
        await page.locator(".tree-line", has_text="notes").first.click()
        await until(page, text_is(".tree-line", 'third: "closed"'))
        await beside.run(erase("first"))
        await until(page, f"!{text_is('.tree-line', 'hello')}")
        await until(page, text_is(".change", '{"notes":{"first":null}}'))
        version = await page.locator(".big").inner_text()
        assert int(version) >= 4
        await beside.run(board[0].__aexit__(None, None, None))

    played(chromium, scenario)


def test_a_large_state_is_not_drawn_at_once(up: Up, chromium: Chromium, beside: Beside) -> None:
    status = up.until(is_whole)
    urls = [process["address"] for process in status["processes"] if process["address"].startswith("ws://")]

    async def fill() -> None:
        async with Device.connect(urls, "large", "ada", wait_ms=10_000) as ada:
            for first in range(0, 450, 150):
                notes = [{"name": f"n{at}", "text": {"at": at}} for at in range(first, first + 150)]
                await asyncio.gather(*(ada.send("write", note) for note in notes))

    async def scenario(context: BrowserContext) -> None:
        await beside.run(fill())
        page = await opened(context, f"{status['console']}#/space/large")
        await until(page, text_is(".tree-summary", "450 members"))
        assert await page.locator(".tree-node").count() < 10
        await page.locator(".tree-line", has_text="notes").click()
        await until(page, text_is(".tree-more", "350 are not shown"))
        assert await page.locator(".tree-node").count() < 250
        await page.locator(".tree-more", has_text="Show more").click()
        await until(page, text_is(".tree-more", "250 are not shown"))

    played(chromium, scenario)


def test_records_of_a_topic_and_who_reads_it(up: Up, chromium: Chromium, beside: Beside) -> None:
    status = up.until(is_whole)
    brokers = [process["address"] for process in status["processes"] if process["role"] == "broker"]

    async def produce() -> None:
        async with LogClient(brokers) as client:
            await client.create_topic("orders", 1)
            producer = Producer(client)
            for number in range(50):
                producer.send("orders", b'{"order":%d}' % number, key=b"ada", headers=(("shop", EVIL.encode()),))
            producer.send("orders", EVIL.encode(), key=EVIL.encode())
            producer.send("orders", b"\x00\xff\x10", key=None)
            await producer.close()

    async def scenario(context: BrowserContext) -> None:
        await beside.run(produce())
        page = await opened(context, f"{status['console']}#/topics")
        await page.get_by_role("link", name="orders", exact=True).click()
        await until(page, text_is(".record", "00 ff 10"))
        assert await page.locator(".record .value").nth(1).inner_text() == EVIL
        assert await page.locator(".record .key").nth(1).inner_text() == EVIL
        assert await page.locator(".record").count() == 20
        await until(page, text_is(".settings", "min.insync.replicas"))
        assert await page.locator(".replica").count() == 3
        await page.get_by_role("button", name="Older").click()
        await until(page, text_is(".record", '{"order":30}'))
        await until(page, text_is(".note", "Offsets 12 to 31 of 0 to 51; 20 newer"))
        await page.get_by_role("button", name="Newer").click()
        await until(page, text_is(".record", "00 ff 10"))
        await page.goto(f"{status['console']}#/topic/nothing")
        await until(page, text_is(".empty", "There is no such topic now"))
        command = [sys.executable, "-m", "octoloom", "topic", "consume", "orders", "--group", "billing", "-e"]
        subprocess.run([*command, "-b", brokers[0]], capture_output=True, timeout=PATIENCE_S, check=True)
        await page.goto(f"{status['console']}#/topics")
        await until(page, text_is(".fold", "billing"))
        await until(page, text_is(".fold", "lag 0"))
        assert await page.evaluate("window.evil") is None

    played(chromium, scenario)


def test_a_group_with_its_trace(up: Up, chromium: Chromium, beside: Beside) -> None:
    status = up.until(is_whole)
    brokers = [process["address"] for process in status["processes"] if process["role"] == "broker"]
    left = asyncio.Event()

    async def lunch() -> None:
        async with LogClient(brokers) as client:
            await client.create_topic("lunch-steps", 1)
        async with (
            StepTopic(status["register"], "lunch-steps") as steps,
            Group.join("lunch", name="ada", register=status["register"], order="causal", trace=steps) as ada,
            Group.join("lunch", name="bob", register=status["register"], trace=steps) as bob,
        ):
            while len(ada.view.members) < 2:
                await asyncio.sleep(0.01)
            await ada.to_others(EVIL)
            async for _ in bob:
                break
            await left.wait()

    async def leave() -> None:
        left.set()

    async def scenario(context: BrowserContext) -> None:
        eating = asyncio.ensure_future(beside.run(lunch()))
        page = await opened(context, f"{status['console']}#/groups")
        await until(page, text_is(".member[data-coordinates]", "coordinator"))
        await until(page, "document.querySelectorAll('.member').length === 2")
        await page.get_by_role("link", name="lunch", exact=True).click()
        await until(page, "document.querySelector('.trace')?.naturalWidth > 300")
        # The picture by itself runs nothing either.
        response = await page.goto(f"{status['console']}api/groups/lunch/trace.svg?last=40")
        assert response is not None
        assert "sandbox" in response.headers["content-security-policy"]
        assert "window.evil" in await response.text()
        assert await page.evaluate("document.querySelectorAll('script').length") == 0
        await page.goto(f"{status['console']}#/")
        await beside.run(leave())
        await eating
        await until(page, text_is(".news-text", "nobody is in the group lunch any more".capitalize()))

    played(chromium, scenario)


def test_names_are_text_wherever_they_are_shown(up: Up, chromium: Chromium, beside: Beside) -> None:
    status = up.until(is_whole)
    urls = [process["address"] for process in status["processes"] if process["address"].startswith("ws://")]

    async def write() -> None:
        async with Device.connect(urls, EVIL, "<b>ada</b>", wait_ms=10_000) as ada:
            assert await ada.send("write", {"name": EVIL, "text": EVIL})

    async def scenario(context: BrowserContext) -> None:
        await beside.run(write())
        page = await opened(context, status["console"])
        await until(page, text_is("tbody th a", EVIL))
        await page.get_by_role("link", name=EVIL, exact=True).click()
        await until(page, text_is(".tree-line", f'"{EVIL}"'))
        assert await page.locator("h1").inner_text() == EVIL
        await beside.run(write())
        assert await page.locator("main img, main script").count() == 0
        assert await page.evaluate("window.evil") is None

    played(chromium, scenario)


def test_focus_scroll_and_filters_stay(up: Up, chromium: Chromium, beside: Beside) -> None:
    status = up.until(is_whole)
    urls = [process["address"] for process in status["processes"] if process["address"].startswith("ws://")]

    async def fill() -> None:
        for at in range(40):
            async with Device.connect(urls, f"room{at}", "ada", wait_ms=10_000) as ada:
                assert await ada.send("write", {"name": "x", "text": at})

    async def scenario(context: BrowserContext) -> None:
        await beside.run(fill())
        page = await opened(context, f"{status['console']}#/spaces")
        await until(page, "document.querySelectorAll('tbody tr').length >= 40")
        await page.get_by_role("searchbox").fill("room1")
        await until(page, "document.querySelectorAll('tbody tr').length === 11")
        await page.get_by_role("button", name="Space").click()
        await until(page, "document.querySelector('tbody th').innerText === 'room1'")
        await page.get_by_role("searchbox").fill("")
        await page.get_by_role("link", name="room9", exact=True).focus()
        await page.evaluate("window.scrollTo(0, 300); window.row = document.activeElement.closest('tr')")
        before = await page.evaluate("scrollY")
        # Two more pictures: each is drawn in the same elements.
        await page.evaluate("""() => new Promise((resolve) => {
            const source = new EventSource("/api/pictures");
            let left = 3;
            source.addEventListener("picture", () => (left -= 1) || (source.close(), resolve()));
        })""")
        assert await page.evaluate("[document.activeElement.innerText, window.row.isConnected]") == ["room9", True]
        assert await page.evaluate("scrollY") == before > 0

    played(chromium, scenario)


def test_a_page_without_its_console_says_how_old_it_is(up: Up, chromium: Chromium, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "octoloom", "console", "--port", "0", "--data", str(up.data)]
    alone = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert alone.stdout is not None
        url = alone.stdout.readline().removeprefix("console at ").strip()

        async def scenario(context: BrowserContext) -> None:
            page = await opened(context, url)
            await until_whole(page)
            await until(page, text_is(".live", "live"))
            alone.terminate()
            await until(page, text_is(".live", "the console does not answer, last picture"))
            assert await page.locator(".link-place").count() == 3
            assert await page.evaluate("document.body.classList.contains('stale')")

        played(chromium, scenario)
        assert alone.wait(PATIENCE_S) == 0
    finally:
        alone.kill()
        alone.wait()


def test_a_console_without_a_register_says_so(chromium: Chromium) -> None:
    command = [sys.executable, "-m", "octoloom", "console", "--port", "0", "--register", "127.0.0.1:1"]
    alone = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert alone.stdout is not None
        url = alone.stdout.readline().removeprefix("console at ").strip()

        async def scenario(context: BrowserContext) -> None:
            page = await opened(context, url)
            await until(page, text_is(".verdict", "The register at 127.0.0.1:1 does not answer"))
            await until(page, text_is(".empty", "nobody knows the chains"))
            await until(page, text_is(".process", "it never answered"))

        played(chromium, scenario)
    finally:
        alone.send_signal(signal.SIGINT)
        assert alone.wait(PATIENCE_S) == 0
