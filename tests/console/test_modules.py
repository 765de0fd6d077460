"""The page's pure functions, in the browser that runs them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from playwright.async_api import BrowserContext

from octoloom.console.gatherer import Gatherer
from octoloom.console.server import Console
from tests.browser.chromium import Chromium
from tests.console.test_server import Served


@pytest.fixture(scope="module")
def served() -> Iterator[Served]:
    served = Served(lambda: Console(Gatherer(register="127.0.0.1:1"), port=0))
    yield served
    served.stop()


def told(chromium: Chromium, served: Served, module: str, expression: str) -> Any:
    """What an expression of the module `m` is, in a page of the console."""

    async def scenario(context: BrowserContext) -> Any:
        page = await context.new_page()
        await page.goto(f"{served.console.url}favicon.svg")
        script = f"async () => {{ const m = await import('/{module}'); return JSON.stringify({expression}); }}"
        return json.loads(await page.evaluate(script))

    return chromium.play(scenario)


def test_numbers_and_times_for_people(chromium: Chromium, served: Served) -> None:
    expression = """[
        [0, 12345, null].map(m.count), [m.plural(1, "link"), m.plural(3, "link"), m.plural(2, "process", "processes")],
        [null, 0, 0.04, 0.26, 9.96, 12.4].map(m.rate), [0, 4000, 200000, 8000000, 1e9].map(m.age),
        [m.nameOf("link1#17"), m.nameOf("a#b#3"), m.nameOf("x")], [m.shortened("abcdef", 4), m.shortened("abc", 4)],
        [m.setting("retention.ms", "604800000"), m.setting("retention.bytes", "-1"), m.setting("x", "<b>")],
        [m.sentence("the register is down"), m.sentence("link2 is down")],
    ]"""
    assert told(chromium, served, "format.js", expression) == [
        ["0", "12,345", "–"],
        ["1 link", "3 links", "2 processes"],
        ["–", "0", "0", "0.3", "10", "12"],
        ["now", "4 s", "3 min", "2 h", "12 days"],
        ["link1", "a#b", "x"],
        ["abc…", "abc"],
        ["7 days", "no limit", "<b>"],
        ["The register is down", "link2 is down"],
    ]


def test_rates_are_differences_and_a_counter_that_fell_has_begun_anew(chromium: Chromium, served: Served) -> None:
    picture = """((at, versions, whole) => ({
        at_ms: at, spaces: [], topics: [{name: "t", partitions: [{partition: 0, high: versions}]}],
        chains: [{chain: "c", whole: whole ? ["l#1"] : []}],
        links: [{id: "l#1", places: [{chain: "c", whole: true, versions}]}],
    }))"""
    expression = f"""(() => {{
        const rates = new m.Rates(), of = {picture}, seen = [];
        const story = [[1000, 10, 1], [2000, 30, 1], [4000, 50, 1], [5000, 0, 1], [6000, 900, 0]];
        for (const [at, versions, whole] of story) {{
            rates.push(of(at, versions, whole));
            seen.push([rates.now(m.linkKey("l#1", "c"), 1), rates.now(m.partitionKey("t", 0), 1)]);
        }}
        for (let at = 0; at < 500; at += 1) rates.push(of(10000 + at * 1000, at, 1));
        const isBounded = rates.history(m.linkKey("l#1", "c")).length === m.HISTORY_MAX;
        return [seen, isBounded, m.total([null, 1, 2]), m.total([null]),
            m.sparkPath([1], 10, 10), m.sparkPath([0, 10], 10, 12, 2)];
    }})()"""
    assert told(chromium, served, "rates.js", expression) == [
        [[None, None], [20, 20], [10, 10], [10, 10], [None, 900]],
        True, 3, None, "", "M0.0 11.0L10.0 2.7",
    ]  # fmt: skip


def test_lists_are_filtered_and_sorted(chromium: Chromium, served: Served) -> None:
    expression = """(() => {
        const spaces = [["Hall", 5, 1], ["attic", 9, 0], ["hut", 2, 7]].map(
            ([space, version, present]) => ({ space, version, present }));
        const busy = { Hall: 0, attic: 0, hut: 40 };
        const rateOf = (each) => busy[each.space];
        const of = (filter, order) => m.shownSpaces(spaces, filter, order, rateOf).map((each) => each.space);
        const chain = { chain: "c", links: ["a#1", "b#2"], whole: ["a#1"], learner: "d#1", replicas: 3 };
        const link = (id, state, chain) => ({ id, name: id.split("#")[0], state, places: chain ? [{ chain }] : [] });
        const links = [link("a#1", "up", "c"), link("b#1", "up", "c"), link("d#1", "up", "c"), link("e#1", "down"),
            link("f#1", "up", "c"), link("g#1", "up", "other")];
        return [of("", "activity"), of(" h", "space"), of("", "version"), of("", "present"), of("x", "activity"),
            m.cardsOf(chain, links).map((card) => [card.id, card.role, card.link?.state ?? "gone"]), m.isWhole(chain),
            m.isWhole({ ...chain, whole: ["a#1", "b#2"], replicas: 2 })];
    })()"""
    assert told(chromium, served, "lists.js", expression) == [
        ["hut", "Hall", "attic"], ["Hall", "hut"], ["attic", "Hall", "hut"], ["hut", "Hall", "attic"], [],
        [["a#1", "head", "up"], ["b#2", "tail", "gone"], ["d#1", "learner", "up"], ["e#1", "outside", "down"],
         ["f#1", "outside", "up"]],
        False, True,
    ]  # fmt: skip


def test_a_difference_brings_one_state_to_the_other(chromium: Chromium, served: Served) -> None:
    """Against the obvious: what is brought is what it should be, and the patch says no more than changed."""
    expression = """(() => {
        let seed = 7;
        const dice = (sides) => (seed = (seed * 48271) % 2147483647) % sides;
        const value = (depth) => {
            const kind = dice(depth > 3 ? 4 : 7);
            if (kind === 5) return Array.from({ length: dice(4) }, () => value(depth + 1));
            const member = () => [["a", "b", "__proto__"][dice(3)], value(depth + 1)];
            if (kind > 3) return Object.fromEntries(Array.from({ length: dice(4) }, member));
            return [null, 1, "x", true][kind];
        };
        const wrong = [];
        for (let round = 0; round < 500; round += 1) {
            const before = value(0), after = value(0), were = text(before), are = text(after);
            const diff = m.difference(before, after);
            const brought = text(m.brought(before, after, diff));
            if (brought !== are || (diff === null) !== (were === are)) wrong.push([were, are]);
        }
        function text(each) {
            if (Array.isArray(each)) return `[${each.map(text).join()}]`;
            if (typeof each !== "object" || each === null) return JSON.stringify(each);
            return `{${Object.keys(each).sort().map((key) => key + text(each[key])).join()}}`;
        }
        const after = { a: 1, b: { c: [1, 2], d: 2 }, e: 5 };
        const diff = m.difference({ a: 1, b: { c: [1], d: 2, x: 9 }, y: 0 }, after);
        return [wrong, m.patchOf(after, diff), m.difference({ a: [1, { b: 2 }] }, { a: [1, { b: 2 }] })];
    })()"""
    assert told(chromium, served, "diff.js", expression) == [
        [],
        {"b": {"c": [1, 2], "x": None}, "e": 5, "y": None},
        None,
    ]


def test_json_gets_lines_and_loses_nothing(chromium: Chromium, served: Served) -> None:
    text = json.dumps({"a": {"b": [1, 2], "c": {}}, "d": 'x{,}"\\', "n": 12345678901234567890}, separators=(",", ":"))
    made = told(chromium, served, "records.js", f"m.indented({json.dumps(text)})")
    assert json.loads(made) == json.loads(text)
    assert made.splitlines()[:3] == ["{", '  "a":{', '    "b":[1,2],']
    assert "12345678901234567890" in made


def test_routes_carry_any_name(chromium: Chromium, served: Served) -> None:
    names = ["lobby", "a/b", "<script>", "100%", "#", "ü"]
    expression = f"""{json.dumps(names)}.map((name) => m.routeOf(m.path("space", name)).name)
        .concat(["#/spaces", "", "#/nothing", "#/space/", "#/space/%"].map((hash) => m.routeOf(hash).view))"""
    assert told(chromium, served, "router.js", expression) == [
        *names,
        *("spaces", "overview", "overview", "overview", "space"),
    ]
