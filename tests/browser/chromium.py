"""A headless chromium for tests, in a thread of its own.

Playwright wants an event loop that runs for as long as the browser does, and other tests of the same process want to
start loops of theirs. So the browser's loop has its own thread, and a test hands its scenario over:

    def test_something(chromium: Chromium) -> None:
        async def scenario(context: BrowserContext) -> None:
            page = await context.new_page()
            ...

        chromium.play(scenario)
"""

from __future__ import annotations

import asyncio
import shutil
import threading
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

from playwright.async_api import Browser, BrowserContext, Error, Page, Playwright, async_playwright

T = TypeVar("T")
Scenario = Callable[[BrowserContext], Awaitable[T]]

EXECUTABLE = shutil.which("chromium")
MISSING = "no chromium on the PATH: apt-get install chromium"
ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
]
PATIENCE_S = 120.0


class Chromium:
    """Each scenario gets a context of its own, as empty as a new profile."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="chromium", daemon=True)
        self._thread.start()
        self._playwright, self._browser = self.run(self._start())

    async def _start(self) -> tuple[Playwright, Browser]:
        playwright = await async_playwright().start()
        return playwright, await playwright.chromium.launch(executable_path=EXECUTABLE, args=ARGUMENTS)

    def run(self, work: Coroutine[Any, Any, T], patience_s: float = PATIENCE_S) -> T:
        """Runs this on the browser's loop, and waits for it."""

        async def bounded() -> T:
            async with asyncio.timeout(patience_s):
                return await work

        return asyncio.run_coroutine_threadsafe(bounded(), self._loop).result()

    def play(self, scenario: Scenario[T], patience_s: float = PATIENCE_S) -> T:
        """Plays a scenario. What a page throws and nobody catches fails the test."""
        return self.run(self._play(scenario), patience_s)

    def new_context(self) -> BrowserContext:
        """A context that stays until the browser is closed."""
        return self.run(self._browser.new_context())

    async def _play(self, scenario: Scenario[T]) -> T:
        context = await self._browser.new_context()
        faults: list[str] = []
        context.on("weberror", lambda fault: faults.append(str(fault.error)))
        try:
            result = await scenario(context)
        finally:
            await context.close()
        assert faults == [], f"a page threw: {faults}"
        return result

    def close(self) -> None:
        self.run(self._stop())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _stop(self) -> None:
        await self._browser.close()
        await self._playwright.stop()


async def until(page: Page, condition: str, argument: Any = None, patience_s: float = 60.0) -> Any:
    """Waits until a JavaScript expression (of `argument`) is true in the page, and answers its value."""
    try:
        handle = await page.wait_for_function(condition, arg=argument, timeout=patience_s * 1000, polling=20)
    except Error as error:
        raise AssertionError(f"waited for {condition}: {error}") from None
    return await handle.json_value()


async def blank_page(context: BrowserContext, origin: str) -> Page:
    """An empty page with the client's names on its window: `Device`, `Observer` and the errors."""
    page = await context.new_page()
    await page.goto(f"{origin}/blank.html")
    await page.evaluate("""async () => { Object.assign(window, await import("/client/octoloom.js")); }""")
    return page
