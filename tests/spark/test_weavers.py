"""The operators without Spark: rows in, rows out, equal to the cores in a plain loop, whole or cut into batches."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import msgspec
import pyarrow as pa
import pytest

from octoloom.core.causal import Causal
from octoloom.core.errors import UsageError
from octoloom.core.event import Event
from octoloom.core.filters import OrderContext
from octoloom.core.fold import Fold
from octoloom.core.group_messages import Cast
from octoloom.core.tags import Tags
from octoloom.spark.agreement_rows import AgreementRows
from octoloom.spark.causal_rows import READER, CausalRows
from octoloom.spark.deduping import Dedupe
from octoloom.spark.folding import BadEvent, Folding
from octoloom.spark.keyed import Weaver
from tests.core.test_compute import make_app

Row = dict[str, Any]


def woven(make: Callable[[], Weaver], rows: Sequence[Row], schema: pa.Schema, cuts: Sequence[int] = ()) -> list[Row]:
    """What comes out; at each cut the weaver is saved, and another goes on from what was saved so far."""
    saved: dict[str, bytes] = {}
    out: list[Row] = []
    weaver = make()
    ends = [*sorted(cuts), len(rows)]
    start = 0
    for end in ends:
        for batch in batches(rows[start:end], schema):
            out += listed(weaver.take(batch))
        start = end
        out += listed(weaver.end(last=end == len(rows)))
        saved |= weaver.changed()
        weaver = make()
        weaver.load(saved)
    return out


def batches(rows: Sequence[Row], schema: pa.Schema, size: int = 7) -> Iterator[pa.RecordBatch]:
    for start in range(0, len(rows), size):
        yield pa.RecordBatch.from_pylist(rows[start : start + size], schema=schema)


def listed(batch: pa.RecordBatch | None) -> list[Row]:
    return batch.to_pylist() if batch is not None else []


# Dedupe.

TAGGED = pa.schema([("space", pa.string()), ("device", pa.string()), ("sequencer", pa.int64()), ("at", pa.int32())])


@pytest.mark.parametrize("seed", range(10))
def test_repeats_are_dropped_as_tags_drop_them(seed: int) -> None:
    dice = random.Random(seed)
    rows: list[Row] = [
        {"space": dice.choice("xy"), "device": dice.choice("ab"), "sequencer": dice.randint(1, 30), "at": at}
        for at in range(200)
    ]
    tags: Tags[tuple[str, str]] = Tags()
    kept = [row for row in rows if tags.add((row["space"], row["device"]), row["sequencer"])]
    cuts = [dice.randrange(200) for _ in range(3)]
    assert woven(lambda: Dedupe("space", "device", "sequencer"), rows, TAGGED, cuts) == kept


def test_a_row_without_a_tag_is_refused() -> None:
    for bad in ({"device": None}, {"sequencer": None}, {"sequencer": 0}, {"space": None}):
        row = {"space": "x", "device": "a", "sequencer": 1, "at": 0, **bad}
        with pytest.raises(UsageError, match="a row has no tag"):
            woven(lambda: Dedupe("space", "device", "sequencer"), [row], TAGGED)


# Fold.

RECORD = pa.schema([
    ("key", pa.binary()), ("value", pa.binary()), ("topic", pa.string()), ("partition", pa.int32()),
    ("offset", pa.int64()),
])  # fmt: skip


def record(offset: int, space: str, name: str, payload: Any, device: str = "ada") -> Row:
    event = {"device": device, "sequencer": offset + 1, "name": name, "payload": payload, "time_ms": offset, "dice": 7}
    value = msgspec.json.encode(event)
    return {"key": space.encode(), "value": value, "topic": "moves", "partition": 3, "offset": offset}


def history(seed: int, count: int = 300) -> list[Row]:
    dice = random.Random(seed)
    names = ["move", "turn", "refuse", "null", "throw", "fuse", "unknown"]
    return [record(at, dice.choice("xyz"), dice.choice(names), dice.randint(0, 9)) for at in range(count)]


def plainly_folded(rows: list[Row]) -> dict[str, Fold]:
    folds: dict[str, Fold] = {}
    for row in rows:
        told = msgspec.json.decode(row["value"])
        payload = msgspec.json.encode(told["payload"])
        event = Event(0, told["device"], told["sequencer"], told["name"], payload, told["time_ms"], told["dice"])
        folds.setdefault(row["key"].decode(), Fold(make_app())).take(event)
    return folds


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("columns", [False, True])
def test_states_are_those_of_a_plain_loop(seed: int, columns: bool) -> None:
    rows = history(seed)
    expected = plainly_folded(rows)
    schema = RECORD
    if columns:
        rows, schema = in_columns(rows)
    cuts = [random.Random(seed).randrange(len(rows)) for _ in range(3)]
    out = woven(lambda: Folding(make_app, fails=True), rows, schema, cuts)
    last = {row["space"]: row for row in out}
    assert last.keys() == expected.keys()
    for space, fold in expected.items():
        row = last[space]
        assert msgspec.json.decode(row["state"]) == fold.state
        found = row["applied"], row["rejected"], row["deferred"], row["events"]
        assert found == (fold.applied, fold.rejected, len(fold.deferred), fold.applied + fold.rejected)


def in_columns(rows: list[Row]) -> tuple[list[Row], pa.Schema]:
    told = [(row, msgspec.json.decode(row["value"])) for row in rows]
    events = [
        {
            "space": row["key"].decode(),
            **{name: event[name] for name in ("device", "sequencer", "name", "time_ms")},
            "payload": msgspec.json.encode(event["payload"]).decode(),
            "dice": event["dice"],
        }
        for row, event in told
    ]
    schema = pa.schema([
        ("space", pa.string()), ("device", pa.string()), ("sequencer", pa.int64()), ("name", pa.string()),
        ("time_ms", pa.int64()), ("payload", pa.string()), ("dice", pa.decimal128(20, 0)),
    ])  # fmt: skip
    return events, schema


BAD = [
    ({"value": b"{not json"}, "the value is no event"),
    ({"value": b'{"device": "ada", "name": "move"}'}, "missing required field `sequencer`"),
    ({"value": b'{"device": 7, "sequencer": 1, "name": "move"}'}, "Expected `str`"),
    ({"value": None}, "no value"),
    ({"key": None}, "no key"),
    ({"key": b"\xff\xfe"}, "the key is no text"),
    ({"value": msgspec.json.encode({"device": "a", "sequencer": 9, "name": "fail"})}, "ValueError: oops"),
]


@pytest.mark.parametrize(("bad", "reason"), BAD)
def test_a_bad_row_comes_out_with_its_place_and_changes_nothing(bad: Row, reason: str) -> None:
    rows = history(1, 20)
    clean = woven(lambda: Folding(make_app, fails=False), rows, RECORD)
    out = woven(
        lambda: Folding(make_app, fails=False), [*rows[:9], {**rows[9], "offset": 99, **bad}, *rows[9:]], RECORD
    )
    errors = [row for row in out if row["error"] is not None]
    assert len(errors) == 1
    assert (errors[0]["topic"], errors[0]["partition"], errors[0]["offset"]) == ("moves", 3, 99)
    assert reason in errors[0]["error"]
    states = {row["space"]: row["state"] for row in out if row["error"] is None}
    assert states == {row["space"]: row["state"] for row in clean}


@pytest.mark.parametrize(("bad", "reason"), BAD)
def test_a_bad_row_ends_the_query_if_it_shall(bad: Row, reason: str) -> None:
    rows = [{**record(5, "x", "move", 1), **bad}]
    with pytest.raises(BadEvent, match=r"moves-3 at offset 5: .*"):
        woven(lambda: Folding(make_app, fails=True), rows, RECORD)


# Causal order.

MESSAGE = pa.schema([
    ("group", pa.string()), ("sender", pa.string()), ("number", pa.int64()),
    ("stamp", pa.map_(pa.string(), pa.int64())),
    ("text", pa.string()),
])  # fmt: skip
MEMBERS = ("ada", "bob", "cy")


def talk(seed: int, group: str, count: int = 60) -> list[Row]:
    """Members that say something now and then, and hear each other late, in a shuffled order of arrival."""
    dice = random.Random(seed)
    vectors = {member: dict.fromkeys(MEMBERS, 0) for member in MEMBERS}
    said: list[Row] = []
    for _ in range(count):
        sender = dice.choice(MEMBERS)
        for earlier in said[-dice.randint(0, 6) or len(said) :]:
            vectors[sender] = {name: max(own, earlier["stamp"][name]) for name, own in vectors[sender].items()}
        vectors[sender][sender] += 1
        number = vectors[sender][sender]
        row = {
            "group": group,
            "sender": sender,
            "number": number,
            "stamp": dict(vectors[sender]),
            "text": f"{sender}{number}",
        }
        said.append(row)
    dice.shuffle(said)
    return said


def plainly_ordered(rows: list[Row]) -> list[tuple[str, int, Any]]:
    order = Causal(OrderContext(READER, [*MEMBERS, READER], {}))
    out: list[Any] = []
    order.receive.processor = out.append
    for row in rows:
        stamp = [*(row["stamp"][name] for name in MEMBERS), 0]
        order.receive.filter(Cast(0, row["sender"], row["number"], [], stamp))
    return [(each.cast.sender, each.cast.number, list(each.concurrent)) for each in out]


@pytest.mark.parametrize("seed", range(10))
def test_rows_come_in_the_order_of_the_live_filter(seed: int) -> None:
    talks = {group: talk(seed * 2 + place, group) for place, group in enumerate(("one", "two"))}
    dice = random.Random(seed)
    left = {group: list(rows) for group, rows in talks.items()}
    rows: list[Row] = []
    while any(left.values()):
        rows.append(left[dice.choice([group for group, talk in left.items() if talk])].pop(0))
    cuts = [dice.randrange(len(rows)) for _ in range(4)]
    out = woven(lambda: CausalRows("group"), rows, MESSAGE, cuts)
    for group, talk_rows in talks.items():
        found = [row for row in out if row["group"] == group]
        assert [row["turn"] for row in found] == list(range(1, len(talk_rows) + 1))
        ranges = [[(each["member"], each["first"], each["last"]) for each in row["concurrent"]] for row in found]
        told = [(row["sender"], row["number"], each) for row, each in zip(found, ranges, strict=True)]
        assert told == plainly_ordered(talk_rows)
        assert all(row["text"] == f"{row['sender']}{row['number']}" and row["error"] is None for row in found)


def test_what_cannot_be_and_what_waits_in_vain_is_told() -> None:
    rows = sorted(talk(3, "one"), key=lambda row: sum(row["stamp"].values()))
    lost, rows = rows[5], rows[:5] + rows[6:]
    rows.insert(3, rows[2])
    rows.insert(8, {**rows[8], "stamp": {"ada": 1}})
    rows.insert(9, {**rows[9], "sender": None})
    out = woven(lambda: CausalRows("group"), rows, MESSAGE)
    assert len(out) == len(rows)
    errors = [row["error"] for row in out if row["error"]]
    assert [error.split(":")[0] for error in errors[:3]] == ["old-number", "bad-stamp", "no-stamp"]
    waits = (
        f"never-came: cast {lost['number'] + 1} of {lost['sender']} waits for cast {lost['number']} of {lost['sender']}"
    )
    assert waits in errors


def test_a_view_that_does_not_begin_with_nothing() -> None:
    schema = MESSAGE.append(pa.field("begin", pa.map_(pa.string(), pa.int64())))
    begin = {"ada": 4, "bob": 9}
    rows: list[Row] = [
        {"group": "g", "sender": "bob", "number": 10, "stamp": {"ada": 5, "bob": 10}, "text": "", "begin": begin},
        {"group": "g", "sender": "ada", "number": 5, "stamp": {"ada": 5, "bob": 9}, "text": "", "begin": begin},
    ]
    out = woven(lambda: CausalRows("group"), rows, schema, cuts=[1])
    assert [(row["turn"], row["sender"]) for row in out] == [(1, "ada"), (2, "bob")]


def test_more_held_rows_than_there_is_room_for_are_told() -> None:
    rows = [row for row in sorted(talk(3, "one"), key=lambda row: -row["number"]) if row["number"] > 1]
    out = woven(lambda: CausalRows("group", held_max=5), rows, MESSAGE)
    assert len(out) == len(rows)
    assert any("5 casts are held back" in row["error"] for row in out)


# Agreement.

DELIVERY = pa.schema([("view", pa.string()), ("member", pa.string()), ("sender", pa.string()), ("number", pa.int64())])


def deliveries(view: str, orders: dict[str, list[int]]) -> list[Row]:
    return [
        {"view": view, "member": member, "sender": "ada", "number": number}
        for member, numbers in orders.items()
        for number in numbers
    ]


def test_members_that_disagree_are_named() -> None:
    rows = deliveries("room 1", {"ada": [1, 2, 3, 4], "bob": [1, 2], "cy": [1, 3, 2, 4]})
    rows += deliveries("room 2", {"ada": [5, 6], "bob": [5, 6]})
    for cuts in ([], [3], [2, 5, 9]):
        last = {(row["view"], row["member"]): row for row in woven(lambda: AgreementRows("view"), rows, DELIVERY, cuts)}
        assert [key for key, row in last.items() if row["disagreements"]] == [("room 1", "cy")]
        wrong = last["room 1", "cy"]
        assert (wrong["delivered"], wrong["disagreements"], wrong["place"]) == (4, 2, 1)
        assert (wrong["found"], wrong["expected"]) == ("ada:3", "ada:2")
        assert last["room 2", "bob"]["delivered"] == 2


def test_a_delivery_of_nobody_is_refused() -> None:
    with pytest.raises(UsageError, match="says whose it is"):
        woven(lambda: AgreementRows("view"), [{"view": "v", "member": None, "sender": "a", "number": 1}], DELIVERY)
