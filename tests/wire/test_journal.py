"""The records of the journal."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from octoloom.core.errors import ProtocolError
from octoloom.core.event import (
    Change,
    DeviceRecord,
    Event,
    JournalEntry,
    Kill,
    Outcome,
    Settled,
    SpaceSnapshot,
    Timer,
)
from octoloom.core.journal import JournalReader
from octoloom.wire.journal import JournalRecord, Tag, decode, encode, encode_mark, is_mark, read_space, read_tag

EVENT = Event(7, "ada", 3, "claim", b'{"cell": "b4"}', 1_700_000_000_000, 2**64 - 1)
CHANGE = Change(
    epoch=4,
    version=12,
    replace=False,
    merge=b'{"cells":{"b4":"ada"}}',
    kills=[Kill(7, "ada", 3, Outcome.APPLIED, "", 99), Kill(8, "bob", 1, Outcome.REJECTED, "taken", 5)],
    timers=[Timer(2, 1_700_000_005_000, "tick", b"null")],
    cancelled=[1],
    presence=[("ada", True), ("eve", False)],
    rule=2,
)
RECORD = JournalRecord("lobby", "chain-1", 2, 4, 1_700_000_000_001, JournalEntry(12, CHANGE, [EVENT], [EVENT]))
START = SpaceSnapshot(
    space="lobby",
    version=12,
    state=b'{"cells": {"b4": "ada"}}',
    next_chain_sequencer=9,
    events=[EVENT],
    devices=[DeviceRecord("ada", 2, [4, 6], [Settled(2, Outcome.QUARANTINED, "deadly", 7)])],
    timers=[Timer(2, 5, "tick", b"[1]")],
    next_timer=3,
    present=["ada"],
    time_ms=77,
)


def started(start: SpaceSnapshot) -> JournalRecord:
    return JournalRecord("lobby", "chain-1", 3, 9, 5, JournalEntry(start.version, None, [], start=start))


def test_a_change_is_json_that_others_can_read() -> None:
    key, value, headers = encode(RECORD)
    assert key == b"lobby"
    assert headers == (("version", b"12"), ("epoch", b"4"), ("generation", b"2"), ("kind", b"change"))
    event = {
        "chain_sequencer": 7,
        "device": "ada",
        "sequencer": 3,
        "name": "claim",
        "payload": {"cell": "b4"},
        "time_ms": 1_700_000_000_000,
        "dice": 2**64 - 1,
    }
    kill = {"device": "ada", "sequencer": 3, "outcome": "applied", "reason": "", "chain_sequencer": 7, "digest": 99}
    assert json.loads(value) == {
        "kind": "change",
        "space": "lobby",
        "chain": "chain-1",
        "generation": 2,
        "epoch": 4,
        "version": 12,
        "at_ms": 1_700_000_000_001,
        "replace": False,
        "merge": {"cells": {"b4": "ada"}},
        "kills": [
            kill,
            {**kill, "device": "bob", "sequencer": 1, "outcome": "rejected", "reason": "taken"}
            | {"chain_sequencer": 8, "digest": 5},
        ],
        "events": [event],
        "waiting": [event],
        "timers": [{"timer": 2, "due_ms": 1_700_000_005_000, "name": "tick", "payload": None}],
        "cancelled": [1],
        "presence": [{"device": "ada", "present": True}, {"device": "eve", "present": False}],
        "rule": 2,
    }
    assert decode(key, value, headers) == RECORD


def test_a_change_that_does_not_say_by_which_rule_is_one_of_the_first() -> None:
    key, value, headers = encode(RECORD)
    written_before = value.replace(b',"rule":2', b"")
    assert written_before != value
    entry = decode(key, written_before, headers).entry
    assert entry.change == msgspec.structs.replace(CHANGE, rule=1)


def test_a_start_is_all_of_the_space() -> None:
    key, value, headers = encode(started(START))
    assert headers == (("version", b"12"), ("epoch", b"9"), ("generation", b"3"), ("kind", b"start"))
    told = json.loads(value)
    assert told["kind"] == "start"
    assert told["state"] == {"cells": {"b4": "ada"}}
    assert told["devices"] == [
        {
            "device": "ada",
            "watermark": 2,
            "done": [4, 6],
            "recent": [{"sequencer": 2, "outcome": "quarantined", "reason": "deadly", "digest": 7}],
        }
    ]
    assert decode(key, value, headers) == started(START)


def test_what_a_reader_takes_over_can_be_published_and_read_again() -> None:
    reader = JournalReader("lobby")
    changes = [
        Change(1, 1, True, b'{"n":1}', [Kill(1, "ada", 1, Outcome.APPLIED)], presence=[("ada", True)]),
        Change(1, 2, False, b'{"n":2}', [Kill(3, "ada", 3, Outcome.REJECTED, "no")], [Timer(1, 9, "tick", b"{}")]),
    ]
    held = Event(2, "ada", 2, "wait", b"0", 5, 6)
    for change in changes:
        consumed = Event(change.kills[0].chain_sequencer, "ada", change.kills[0].sequencer, "go", b"1", 9, 6)
        waiting = [held] if change.version == 2 else []
        sent = JournalRecord("lobby", "c", 1, 1, 0, JournalEntry(change.version, change, [consumed], waiting))
        reader.read(1, decode(*encode(sent)).entry)
    [entry] = reader.start().backlog
    assert entry.start is not None
    assert entry.start.events == [held]
    again = JournalReader("lobby")
    assert again.read(2, decode(*encode(JournalRecord("lobby", "c", 2, 3, 0, entry))).entry)
    assert again.start() == reader.start()


def test_texts_keep_their_very_text() -> None:
    payload, merge = b'{"x":  1.0, "x": [ ]}', b'{ "a":\n1e2 }'
    change = Change(1, 1, False, merge, [], [Timer(1, 1, "t", payload)])
    entry = JournalEntry(1, change, [Event(1, "ada", 1, "a", payload, 0, 0)])
    found = decode(*encode(JournalRecord("s", "c", 1, 1, 0, entry))).entry
    assert found == entry
    state = msgspec.structs.replace(START, state=merge)
    assert decode(*encode(started(state))) == started(state)


def test_a_tag_is_read_without_opening_the_value() -> None:
    key, _, headers = encode(RECORD)
    assert read_tag(headers) == Tag(2, 12, 4, "change")
    assert read_tag((("trace", None), *headers)) == Tag(2, 12, 4, "change")
    assert read_space(key) == "lobby"


def test_a_mark_has_no_key_and_is_known_by_its_header() -> None:
    value, headers = encode_mark({"chain-1": 3}, 77)
    assert json.loads(value) == {"kind": "mark", "beginning": {"chain-1": 3}, "at_ms": 77}
    assert headers == (("kind", b"mark"),)
    assert is_mark(None, headers)
    assert not is_mark(b"lobby", headers)
    assert not is_mark(None, ())
    with pytest.raises(ProtocolError):
        decode(None, value, headers)


def test_fields_that_a_later_version_adds_are_ignored() -> None:
    key, value, headers = encode(RECORD)
    assert decode(key, value[:-1] + b',"mood":"fine"}', headers) == RECORD


# Anything that an app may do.

names = st.text(min_size=1, max_size=20)
documents = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=10),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
texts = documents.map(lambda value: json.dumps(value, ensure_ascii=False).encode())
objects = st.dictionaries(st.text(max_size=5), documents, max_size=3).map(lambda value: json.dumps(value).encode())
ordinals, counts = st.integers(1, 2**53), st.integers(0, 2**53)
outcomes = st.sampled_from(Outcome)
events = st.builds(Event, ordinals, names, ordinals, names, texts, counts, st.integers(0, 2**64 - 1))
kills = st.builds(Kill, ordinals, names, ordinals, outcomes, st.text(max_size=20), st.integers(0, 2**32 - 1))
timers = st.builds(Timer, ordinals, counts, names, texts)
settled = st.builds(Settled, ordinals, outcomes, st.text(max_size=20), st.integers(0, 2**32 - 1))
devices = st.builds(DeviceRecord, names, counts, st.lists(ordinals, max_size=3), st.lists(settled, max_size=3))


def some(of: st.SearchStrategy[Any]) -> st.SearchStrategy[list[Any]]:
    return st.lists(of, max_size=3)


@st.composite
def changes(draw: st.DrawFn) -> JournalRecord:
    presence = some(st.tuples(names, st.booleans()))
    change = draw(
        st.builds(Change, counts, ordinals, st.booleans(), objects, some(kills), some(timers), some(ordinals), presence)
    )
    entry = JournalEntry(change.version, change, draw(some(events)), draw(some(events)))
    return JournalRecord(draw(names), draw(names), draw(ordinals), change.epoch, draw(counts), entry)


@st.composite
def starts(draw: st.DrawFn) -> JournalRecord:
    space, version = draw(names), draw(counts)
    listed = (some(events), some(devices), some(timers), ordinals, some(names), counts)
    snapshot = draw(st.builds(SpaceSnapshot, st.just(space), st.just(version), objects, ordinals, *listed))
    entry = JournalEntry(version, None, [], start=snapshot)
    return JournalRecord(space, draw(names), draw(ordinals), draw(counts), draw(counts), entry)


@given(changes() | starts())
def test_every_record_comes_back_as_it_was(record: JournalRecord) -> None:
    key, value, headers = encode(record)
    assert decode(key, value, headers) == record
    assert read_tag(headers)[:2] == (record.generation, record.entry.version)
    json.loads(value)


# Anything else.


def altered(**fields: Any) -> bytes:
    value = json.loads(encode(RECORD)[1]) | fields
    return json.dumps({name: content for name, content in value.items() if content is not ...}).encode()


VALUE = json.loads(encode(RECORD)[1])


@pytest.mark.parametrize(
    ("value", "code"),
    [
        (None, "no-value"),
        (b"", "malformed"),
        (b"{", "malformed"),
        (encode(RECORD)[1] + b"x", "malformed"),
        (encode(RECORD)[1].replace(b"b4", b"\xff\xff"), "malformed"),
        (altered(merge=...)[:-1] + b',"merge":{"a":' + b"[" * 100_000 + b"]" * 100_000 + b"}}", "malformed"),
        (b"[]", "bad-field"),
        (b"{}", "bad-field"),
        (altered(kind="dance"), "bad-field"),
        (altered(kind=...), "bad-field"),
        (altered(merge=...), "bad-field"),
        (altered(merge=3), "bad-field"),
        (altered(replace=True, merge=None), "bad-field"),
        (altered(version=0), "bad-field"),
        (altered(version="12"), "bad-field"),
        (altered(generation=-1), "bad-field"),
        (altered(cancelled=[None]), "bad-field"),
        (altered(kills=[VALUE["kills"][0] | {"outcome": "great"}]), "bad-field"),
        (altered(events=[VALUE["events"][0] | {"sequencer": -3}]), "bad-field"),
        (altered(space="other"), "contradiction"),
        (altered(generation=3), "contradiction"),
        (altered(version=13), "contradiction"),
        (altered(epoch=5), "contradiction"),
        (encode(started(START))[1], "contradiction"),
    ],
)
def test_a_bad_value_is_refused(value: bytes | None, code: str) -> None:
    key, _, headers = encode(RECORD)
    with pytest.raises(ProtocolError) as caught:
        decode(key, value, headers)
    assert caught.value.code == code


@pytest.mark.parametrize(
    ("headers", "code"),
    [
        ((), "bad-header"),
        ((("kind", b"change"),), "bad-header"),
        ((("version", b"12"), ("epoch", b"4"), ("generation", b"2")), "bad-header"),
        ((("version", b"12"), ("epoch", b"4"), ("generation", b"2"), ("kind", b"dance")), "bad-header"),
        ((("version", b"-1"), ("epoch", b"4"), ("generation", b"2"), ("kind", b"change")), "bad-header"),
        ((("version", None), ("epoch", b"4"), ("generation", b"2"), ("kind", b"change")), "bad-header"),
        ((("version", b"9" * 5000), ("epoch", b"4"), ("generation", b"2"), ("kind", b"change")), "bad-header"),
        ((("version", "²".encode()), ("epoch", b"4"), ("generation", b"2"), ("kind", b"change")), "bad-header"),
    ],
)
def test_bad_headers_are_refused(headers: Any, code: str) -> None:
    key, value, _ = encode(RECORD)
    with pytest.raises(ProtocolError) as caught:
        decode(key, value, headers)
    assert caught.value.code == code


@pytest.mark.parametrize(("key", "code"), [(None, "no-key"), (b"", "no-key"), (b"\xff", "bad-key")])
def test_a_bad_key_is_refused(key: bytes | None, code: str) -> None:
    _, value, headers = encode(RECORD)
    with pytest.raises(ProtocolError) as caught:
        decode(key, value, headers)
    assert caught.value.code == code


@given(st.integers(0, len(encode(RECORD)[1]) - 1), st.integers(0, 255))
def test_one_wrong_byte_is_a_record_or_refused(at: int, byte: int) -> None:
    key, value, headers = encode(RECORD)
    with suppress(ProtocolError):
        decode(key, value[:at] + bytes([byte]) + value[at + 1 :], headers)


@given(st.binary(max_size=60))
def test_any_bytes_are_refused(value: bytes) -> None:
    key, _, headers = encode(RECORD)
    with pytest.raises(ProtocolError):
        decode(key, value, headers)
