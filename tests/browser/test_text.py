"""The parts that work on text and values: cutting, counting, checking messages, merging, against Python's answers."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from typing import Any

import pytest
from playwright.async_api import Page

from octoloom.core import merge_patch
from octoloom.core.merge_patch import nests_deeper
from tests.browser.chromium import Chromium, blank_page
from tests.browser.histories import canonical
from tests.browser.site import Site
from tests.core.test_merge_patch import RFC_CASES

CALL = """async ([module, name, texts]) => {
    const { [name]: call } = await import(`/client/${module}`);
    return JSON.stringify(JSON.parse(texts).map((some) => {
        try {
            const result = call(...some);
            return [result instanceof Map ? [...result] : result];
        } catch (error) {
            return { error: error.name };
        }
    }));
}"""


class Modules:
    """Calls functions of the client's modules, with many arguments at once."""

    def __init__(self, chromium: Chromium, page: Page) -> None:
        self._chromium, self._page = chromium, page

    def call(self, module: str, function: str, arguments: list[Any]) -> list[Any]:
        """For each of `arguments` [result] or {"error": name}."""
        answers: list[Any] = json.loads(
            self._chromium.run(self._page.evaluate(CALL, [module, function, json.dumps(arguments)]))
        )
        return answers


@pytest.fixture(scope="module")
def page(chromium: Chromium, site: Site) -> Iterator[Page]:
    context = chromium.new_context()
    yield chromium.run(blank_page(context, site.url))
    chromium.run(context.close())


@pytest.fixture(scope="module")
def modules(chromium: Chromium, page: Page) -> Modules:
    return Modules(chromium, page)


# Values for all of these: random, with the characters that JSON treats in a special way.

KEYS = ["a", "b", "__proto__", "constructor", "toString", 'q"\\', "é🐙", "state", ""]
TEXTS = ["", "x", '"', "\\", '\\"', "]}", "{[", "é", "€", "🐙", "\n\t\x01", "\u2028", "a\\\\"]


def value(dice: random.Random, depth: int = 3, nulls: bool = True) -> Any:
    kind = dice.randrange(7 if depth else 4)
    if kind == 0:
        return dice.choice([0, 1, -1, 1.5, 2**53, 1e300, 10**25])
    if kind == 1:
        return dice.choice([True, False, *([None] if nulls else [])])
    if kind <= 3:
        return dice.choice(TEXTS)
    if kind == 4:
        return [value(dice, depth - 1) for _ in range(dice.randrange(4))]
    return {dice.choice(KEYS): value(dice, depth - 1, nulls) for _ in range(dice.randrange(4))}


def written(dice: random.Random, item: Any) -> str:
    separators = dice.choice([(",", ":"), (", ", ": "), (" ,\n", "\t: ")])
    return json.dumps(item, ensure_ascii=dice.random() < 0.5, separators=separators)


def test_parts_are_cut_out_as_they_were_written(modules: Modules) -> None:
    dice = random.Random(1)
    objects: list[dict[str, str]] = []
    lists: list[list[str]] = []
    for _ in range(500):
        objects.append({key: written(dice, value(dice)) for key in dice.sample(KEYS, dice.randrange(5))})
        lists.append([written(dice, value(dice)) for _ in range(dice.randrange(5))])
    space = [dice.choice(["", " ", "\r\n\t"]) for _ in objects]
    object_texts = [
        s + "{" + ",".join(f"{s}{json.dumps(k)}{s}:{s}{t}{s}" for k, t in members.items()) + s + "}" + s
        for s, members in zip(space, objects, strict=True)
    ]
    list_texts = [s + "[" + f"{s},{s}".join(items) + s + "]" for s, items in zip(space, lists, strict=True)]

    cut = modules.call("json_text.js", "membersOf", [[text] for text in object_texts])
    assert [dict(pairs) for (pairs,) in cut] == objects
    items = modules.call("json_text.js", "itemsOf", [[text] for text in list_texts])
    assert [found for (found,) in items] == lists


def test_the_last_one_of_a_name_counts_and_an_escaped_name_is_the_same_name(modules: Modules) -> None:
    (cut,) = modules.call("json_text.js", "membersOf", [['{"a": 1, "b": 2.0, "\\u0061": 3.0}']])
    assert dict(cut[0]) == {"a": "3.0", "b": "2.0"}


def test_sizes_are_those_of_the_wire(modules: Modules) -> None:
    dice = random.Random(2)
    texts = [
        "".join(dice.choices(["a", "é", "€", "🐙", "\x00", "\u07ff", "\u0800", "\uffff"], k=9)) for _ in range(300)
    ]
    assert modules.call("json_text.js", "bytesOf", [[text] for text in texts]) == [
        [len(text.encode())] for text in texts
    ]
    assert modules.call("json_text.js", "charactersOf", [[text] for text in texts]) == [[len(text)] for text in texts]


def test_depth_is_counted_as_python_counts_it(modules: Modules) -> None:
    dice = random.Random(3)
    texts = ["".join(dice.choices(["[", "]", "{", "}", '"', '\\"', "\\", "a", ","], k=30)) for _ in range(500)]
    # Without an end, a string is what remains; Python steps over an escape at the very end, and so does this.
    asked = [[text, depth] for text in texts for depth in (0, 1, 3)]
    expected = [[nests_deeper(str(text).encode(), int(str(depth)))] for text, depth in asked]
    assert modules.call("json_text.js", "nestsDeeper", asked) == expected


@pytest.mark.parametrize(
    ("item", "torn"),
    [
        ("é🐙", False),
        ("\\ud800", False),
        ("\\\\ud800", False),
        ("\ud800", True),
        ({"\udc00": 1}, True),
        (["\udc19\ud83d"], True),
    ],
)
def test_half_characters_are_noticed(modules: Modules, item: Any, torn: bool) -> None:
    assert modules.call("json_text.js", "isTorn", [[item]]) == [[torn]]


# Merge patches.


@pytest.mark.parametrize(("before", "patch", "after"), RFC_CASES)
def test_the_cases_of_the_standard(modules: Modules, before: str, patch: str, after: str) -> None:
    (result,) = modules.call("merge_patch.js", "apply", [[json.loads(before), json.loads(patch)]])
    assert canonical(result[0]) == canonical(json.loads(after))


def test_random_patches_do_what_they_do_in_python(modules: Modules) -> None:
    dice = random.Random(4)
    pairs = [[value(dice), value(dice)] for _ in range(1_000)]
    results = modules.call("merge_patch.js", "apply", pairs)
    expected = [merge_patch.apply(merge_patch.copied(target), patch) for target, patch in pairs]
    assert [canonical(result) for (result,) in results] == [canonical(item) for item in expected]


def test_every_name_is_data(chromium: Chromium, page: Page) -> None:
    script = """async () => {
        const { apply, copied } = await import("/client/merge_patch.js");
        const patch = JSON.parse('{"__proto__":{"polluted":1},"a":{"__proto__":{"polluted":2},"constructor":{"x":1}}}');
        const state = apply({}, patch);
        const again = apply(copied(state), patch);
        const gone = apply(copied(state), JSON.parse('{"__proto__":null,"a":{"__proto__":{"polluted":null}}}'));
        return [
            ({}).polluted === undefined && Object.prototype.polluted === undefined && Object.x === undefined,
            Object.getPrototypeOf(state) === Object.prototype && Object.getPrototypeOf(state.a) === Object.prototype,
            JSON.stringify(state) === JSON.stringify(patch) && JSON.stringify(again) === JSON.stringify(patch),
            Object.keys(gone).join() + JSON.stringify(gone.a),
            state.a !== patch.a && state.a.constructor !== patch.a.constructor,
        ];
    }"""
    assert chromium.run(page.evaluate(script)) == [True, True, True, 'a{"__proto__":{},"constructor":{"x":1}}', True]


# Messages.

WELCOME = '{"type":"welcome","generation":1,"epoch":1,"version":%s}'
CHANGE = '{"type":"change","since":0,"version":1,%s}'


@pytest.mark.parametrize(
    "text",
    [
        WELCOME % "9007199254740992", WELCOME % "-1", WELCOME % "1e999", WELCOME % "1.5", WELCOME % '"1"',
        CHANGE % '"kills":[[9007199254740993,"applied",""]]', CHANGE % '"kills":[[1,"applied",null]]',
        CHANGE % ('"state":' + "[" * 300 + "]" * 300), CHANGE % ('"patches":[' + '{"a":' * 300 + "1" + "}" * 300 + "]"),
        '{"type":"busy","expected":1,"retry_ms":-5,"detail":""}', '{"type":"error","code":"x"}',
        '{"__proto__":{"type":"pong"}}',
    ],
)  # fmt: skip
def test_a_message_that_is_not_as_documented_is_refused(modules: Modules, text: str) -> None:
    assert modules.call("messages.js", "decode", [[text]]) == [{"error": "ProtocolError"}]


def test_numbers_up_to_the_largest_and_states_of_any_kind_are_read(modules: Modules) -> None:
    (welcome,) = modules.call("messages.js", "decode", [[WELCOME % "9007199254740991"]])
    assert welcome[0]["version"] == 2**53 - 1
    assert welcome[0]["state"] is None
    (change,) = modules.call("messages.js", "decode", [[CHANGE % '"state": null ,"patches":[ {"a": 1.0} ,2.50]']])
    assert change[0]["state"] == {"text": "null", "value": None}
    assert [patch["text"] for patch in change[0]["patches"]] == ['{"a": 1.0}', "2.50"]


def test_sends_that_follow_each_other_become_one_message(modules: Modules) -> None:
    def events(*numbers: int) -> dict[str, Any]:
        return {"type": "events", "events": [[number, "a", "1"] for number in numbers]}

    ping, many, more = {"type": "ping"}, events(*range(1, 201)), events(*range(201, 300))
    cases = {
        "joined": ([events(1), events(2, 3)], [events(1, 2, 3)]),
        "a resend stands alone": ([events(1, 2), events(2)], [events(1, 2), events(2)]),
        "others between": ([events(1), ping, events(2)], [events(1), ping, events(2)]),
        "bounded": ([many, more], [many, more]),
    }
    answers = modules.call("messages.js", "joined", [[given] for given, _ in cases.values()])
    assert dict(zip(cases, [answer[0] for answer in answers], strict=True)) == {
        name: expected for name, (_, expected) in cases.items()
    }
