"""The browser's core does exactly what the Python core does: the same effects, snapshots and deadlines at each step."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from playwright.async_api import Page

from tests.browser.chromium import Chromium, blank_page
from tests.browser.histories import History, Trace, make, read_trace
from tests.browser.site import Bug, Site

HISTORIES = 400
BATCH = 100

BUGS = [
    # The book.
    Bug("book.js", "size <= this.#limits.pendingBytesMax", "size < this.#limits.pendingBytesMax"),
    Bug("book.js", "count >= this.#limits.pendingMax", "count > this.#limits.pendingMax"),
    Bug("book.js", "Math.max(this.next, sequencer, this.#highest() + 1)", "Math.max(this.next, sequencer)"),
    Bug("book.js", "Math.max(this.next, sequencer, this.#highest() + 1)", "Math.max(this.next, this.#highest() + 1)"),
    Bug("book.js", 'this.kill(draft, [[sequencer, "superseded", "another event took this number"]]);', ""),
    Bug("book.js", "own.name === name && own.payload === payload", "own.name === name"),
    Bug("book.js", "      this.#pendingBytes -= event.size;\n", ""),
    Bug("book.js", "if (draft.adopted.length > 0) this.pending = new Map", "if (false) this.pending = new Map"),
    # The core.
    Bug("core.js", "if (this.#ready && !this.#patience.waiting) this", "if (this.#ready) this"),
    Bug("core.js", "    this.#askedVersion = this.version;\n    this.#patience.onAsked", "    this.#patience.onAsked"),
    Bug("core.js", "if (welcome.next > book.next) book.doubtQueue", "if (welcome.next >= book.next) book.doubtQueue"),
    Bug("core.js", "change.version < this.version", "change.version <= this.version"),
    Bug("core.js", "if (change.since !== this.version)", "if (change.since > this.version)"),
    Bug("core.js", "event.sequencer >= expected", "event.sequencer > expected"),
    Bug("core.js", "return this.#patience.waiting ? [] : this", "return this"),
    Bug("core.js", "this.#redirects > this.#limits.redirectsMax", "this.#redirects >= this.#limits.redirectsMax"),
    Bug("core.js", "> book.version || book.version === 0", "> book.version"),
    Bug("core.js", "const lost = fresh && book.generation !== 0", "const lost = fresh"),
    Bug("core.js", "if (sequencer !== 0 && this.#ready) return [];", ""),
    Bug("core.js", "checkKills(change.kills);", ""),
    # Time.
    Bug("patience.js", "now >= this.#askedAt + this", "now > this.#askedAt + this"),
    Bug("patience.js", "this.#pingedAt !== null && now >= this.#silentAt()", "now >= this.#silentAt()"),
    Bug("patience.js", "Math.max(1, Math.min(retryMs, this.#limits.retryMsMax))", "Math.max(1, retryMs)"),
    # Text.
    Bug("messages.js", "itemsOf(text)[2]", "JSON.stringify(value[2])"),
    Bug("json_text.js", "code < 0x800 || (code >= 0xd800 && code < 0xe000) ? 1 : 2", "1"),
    Bug("merge_patch.js", 'if (key === "__proto__")', "if (false)"),
    Bug("merge_patch.js", "Object.hasOwn(merged, key) && isObject", "isObject"),
]  # fmt: skip

KILL_FIRST = Bug(
    "core.js",
    "    if (moves) book.assume(draft, welcome.state, welcome.patches, welcome.version);\n",
    "    book.kill(draft, welcome.kills);\n"
    "    if (moves) book.assume(draft, welcome.state, welcome.patches, welcome.version);\n",
)
"""Kills before their state: their events end at the version before."""


RUN = """async ([base, histories]) => {
    const { run } = await import("/tests/twin.js");
    return JSON.stringify(await run(base, JSON.parse(histories)));
}"""


@pytest.fixture(scope="module")
def page(chromium: Chromium, site: Site) -> Iterator[Page]:
    context = chromium.new_context()
    yield chromium.run(blank_page(context, site.url))
    chromium.run(context.close())


async def traces_of(page: Page, base: str, histories: list[History]) -> list[Trace]:
    traces: list[Trace] = []
    for start in range(0, len(histories), BATCH):
        some = [history.for_browser() for history in histories[start : start + BATCH]]
        told = await page.evaluate(RUN, [base, json.dumps(some)])
        traces += [read_trace(trace) for trace in json.loads(told)]
    return traces


def first_difference(history: History, trace: Trace) -> dict[str, Any] | None:
    for at, (ours, theirs) in enumerate(zip(history.trace, trace, strict=True)):
        differ = {
            key: (ours.get(key), theirs.get(key)) for key in {**ours, **theirs} if ours.get(key) != theirs.get(key)
        }
        if differ:
            return {"seed": history.seed, "step": at, "did": history.steps[at], "python, browser": differ}
    return None


def differences(chromium: Chromium, page: Page, base: str, histories: list[History]) -> list[dict[str, Any]]:
    traces = chromium.run(traces_of(page, base, histories))
    found = [first_difference(history, trace) for history, trace in zip(histories, traces, strict=True)]
    return [difference for difference in found if difference is not None]


@pytest.fixture(scope="module")
def histories() -> list[History]:
    return [make(seed) for seed in range(HISTORIES)]


def test_hundreds_of_histories_end_alike_in_both(
    chromium: Chromium, page: Page, site: Site, histories: list[History]
) -> None:
    found = differences(chromium, page, f"{site.url}/client/", histories)
    assert not found, f"{len(found)} of {HISTORIES}; the first: {json.dumps(found[0])}"


def test_the_histories_go_everywhere(histories: list[History]) -> None:
    """A comparison proves nothing about what never happens."""
    told = [step for history in histories for step in history.trace]
    kinds = {effect["kind"] for step in told for effect in step.get("effects", [])}
    assert kinds == {"persist", "send", "settled", "advanced", "dial", "hangup", "reset", "stopped"}
    said = {e["message"] for step in told for e in step.get("effects", []) if e["kind"] == "send"}
    assert said == {"Bootstrap", "Observe", "Send", "Ping"}
    assert {step["error"] for step in told if "error" in step} == {"UsageError", "Full", "ProtocolError"}
    outcomes = {e["outcome"] for step in told for e in step.get("effects", []) if e["kind"] == "settled"}
    assert outcomes == {"applied", "rejected", "superseded", "quarantined", "forgotten"}
    hangups = {e["detail"] for step in told for e in step.get("effects", []) if e["kind"] == "hangup"}
    assert {"the link is silent", "the link does not answer the bootstrap", "too many redirects"} <= hangups


@pytest.mark.parametrize(
    "bug", [*BUGS, KILL_FIRST], ids=lambda bug: f"{bug.file}: {bug.wrong.strip() or bug.right.strip()}"
)
def test_a_planted_bug_is_found(chromium: Chromium, page: Page, site: Site, histories: list[History], bug: Bug) -> None:
    base = site.plant(bug)
    # Most show in the first histories; the rare ones get all of them.
    stages = [histories[:10], histories[10:BATCH], histories[BATCH:]]
    assert any(differences(chromium, page, base, stage) for stage in stages)
