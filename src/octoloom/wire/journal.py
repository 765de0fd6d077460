"""The records of the journal: one change of one space each, as JSON that every Kafka client and Spark can read.

The key is the space, so that one partition has all of a space, in order. The headers say what a reader needs in order
to drop a record unopened: `generation`, `version`, `epoch` and `kind`, numbers as decimal text. The value says it all
again, by itself: `docs/journal.md` explains every field.

A *mark* is a record without a key. It changes nothing: a link writes one to each partition before it reads them, since
whoever acknowledges it is the true leader and has all that was acknowledged before.

Payloads, patches and states are JSON text already; they are put into the value, and taken out of it, as they are. A
record that is not as documented raises `ProtocolError`, whatever its bytes are.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import msgspec

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
from octoloom.wire.journal_values import (
    CHANGE,
    START,
    ChangeValue,
    DeviceValue,
    EventValue,
    KillValue,
    PresenceValue,
    SettledValue,
    StartValue,
    TimerValue,
)

TOPIC = "journal"
MARK = "mark"

Headers = tuple[tuple[str, bytes | None], ...]
"""As `wire.kafka.records` has them."""
MARK_HEADERS: Headers = (("kind", b"mark"),)


class JournalRecord(NamedTuple):
    """An entry, and where it comes from. `at_ms` is when the head published it; a change has an epoch of its own."""

    space: str
    chain: str
    generation: int
    epoch: int
    at_ms: int
    entry: JournalEntry


class Tag(NamedTuple):
    """What the headers say. Of two records with the same space, generation and version, readers drop the second."""

    generation: int
    version: int
    epoch: int
    kind: str


_encode = msgspec.json.Encoder().encode
_decoder = msgspec.json.Decoder[ChangeValue | StartValue](ChangeValue | StartValue)
_OUTCOMES = {outcome.word: outcome for outcome in Outcome}
_Raw = msgspec.Raw


# Writing.


def encode(record: JournalRecord) -> tuple[bytes, bytes, Headers]:
    """The key, the value and the headers of an entry's record."""
    entry = record.entry
    if entry.change is not None:
        value: ChangeValue | StartValue = _change_value(record, entry.change)
    else:
        value = _start_value(record)
    headers = (
        ("version", b"%d" % value.version),
        ("epoch", b"%d" % value.epoch),
        ("generation", b"%d" % value.generation),
        ("kind", _kind_of(value).encode()),
    )
    return record.space.encode(), _encode(value), headers


def _change_value(record: JournalRecord, change: Change) -> ChangeValue:
    entry = record.entry
    return ChangeValue(
        record.space,
        record.chain,
        record.generation,
        change.epoch,
        change.version,
        record.at_ms,
        change.replace,
        _Raw(change.merge),
        [KillValue(k.device, k.sequencer, k.outcome.word, k.reason, k.chain_sequencer, k.digest) for k in change.kills],
        _event_values(entry.events),
        _event_values(entry.waiting),
        _timer_values(change.timers),
        change.cancelled,
        [PresenceValue(device, present) for device, present in change.presence],
        change.rule,
    )


def _start_value(record: JournalRecord) -> StartValue:
    start = record.entry.start
    assert start is not None
    return StartValue(
        record.space,
        record.chain,
        record.generation,
        record.epoch,
        start.version,
        record.at_ms,
        _Raw(start.state),
        start.next_chain_sequencer,
        _event_values(start.events),
        [
            DeviceValue(
                device.device,
                device.watermark,
                device.done,
                [SettledValue(s.sequencer, s.outcome.word, s.reason, s.digest) for s in device.recent],
            )
            for device in start.devices
        ],
        _timer_values(start.timers),
        start.next_timer,
        start.present,
        start.time_ms,
    )


def _event_values(events: list[Event]) -> list[EventValue]:
    return [
        EventValue(e.chain_sequencer, e.device, e.sequencer, e.name, _Raw(e.payload), e.time_ms, e.dice) for e in events
    ]


def _timer_values(timers: list[Timer]) -> list[TimerValue]:
    return [TimerValue(t.timer, t.due_ms, t.name, _Raw(t.payload)) for t in timers]


def encode_mark(beginning: Mapping[str, int], at_ms: int) -> tuple[bytes, Headers]:
    """The value and the headers of a mark: these chains begin these generations."""
    return _encode({"kind": MARK, "beginning": beginning, "at_ms": at_ms}), MARK_HEADERS


# Reading.


def is_mark(key: bytes | None, headers: Headers) -> bool:
    return key is None and MARK_HEADERS[0] in headers


def read_space(key: bytes | None) -> str:
    """The space that a record is about."""
    if not key:
        raise ProtocolError("no-key", "a record of the journal has its space as its key")
    try:
        return key.decode()
    except UnicodeDecodeError:
        raise ProtocolError("bad-key", f"the key {key[:64]!r} is no space's name") from None


def read_tag(headers: Headers) -> Tag:
    """What is known of a record without opening it."""
    found = dict(headers)
    kind = found.get("kind")
    if kind not in (b"change", b"start"):
        raise ProtocolError("bad-header", f"the header `kind` is `change` or `start`, not {kind!r}")
    return Tag(_number(found, "generation"), _number(found, "version"), _number(found, "epoch"), kind.decode())


def _number(headers: dict[str, bytes | None], name: str) -> int:
    text = headers.get(name)
    if text is None or not (text.isdigit() and len(text) < 20):
        raise ProtocolError("bad-header", f"the header `{name}` is a decimal number, not {text and text[:64]!r}")
    return int(text)


def decode(key: bytes | None, value: bytes | None, headers: Headers) -> JournalRecord:
    """A record as it was published. Key, headers and value have to agree."""
    return decode_value(read_space(key), read_tag(headers), value)


def decode_value(space: str, tag: Tag, value: bytes | None) -> JournalRecord:
    """A record whose key and headers were read before."""
    found = _open(value)
    told = (found.space, found.generation, found.version, found.epoch, _kind_of(found))
    if told != (space, *tag):
        raise ProtocolError("contradiction", f"key and headers say {(space, *tag)}, the value says {told}")
    entry = _change_entry(found) if isinstance(found, ChangeValue) else _start_entry(found)
    return JournalRecord(found.space, found.chain, found.generation, found.epoch, found.at_ms, entry)


def _kind_of(value: ChangeValue | StartValue) -> str:
    return CHANGE if isinstance(value, ChangeValue) else START


def _open(value: bytes | None) -> ChangeValue | StartValue:
    if value is None:
        raise ProtocolError("no-value", "the journal has no tombstones: every record has a value")
    try:
        # What is handed on unopened is not looked at below; it must not be the next reader's surprise.
        if not value.isascii():
            value.decode()
        found: ChangeValue | StartValue = _decoder.decode(value)
        return found
    except msgspec.ValidationError as error:
        raise ProtocolError("bad-field", str(error)) from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ProtocolError("malformed", f"this is not JSON: {error}") from None


def _change_entry(value: ChangeValue) -> JournalEntry:
    change = Change(
        value.epoch,
        value.version,
        value.replace,
        _object(value.merge, "merge"),
        [Kill(k.chain_sequencer, k.device, k.sequencer, _outcome(k.outcome), k.reason, k.digest) for k in value.kills],
        _timers(value.timers),
        value.cancelled,
        [(one.device, one.present) for one in value.presence],
        value.rule,
    )
    return JournalEntry(value.version, change, _events(value.events), _events(value.waiting))


def _start_entry(value: StartValue) -> JournalEntry:
    snapshot = SpaceSnapshot(
        space=value.space,
        version=value.version,
        state=_object(value.state, "state"),
        next_chain_sequencer=value.next_chain_sequencer,
        events=_events(value.events),
        devices=[
            DeviceRecord(
                d.device,
                d.watermark,
                d.done,
                [Settled(s.sequencer, _outcome(s.outcome), s.reason, s.digest) for s in d.recent],
            )
            for d in value.devices
        ],
        timers=_timers(value.timers),
        next_timer=value.next_timer,
        present=value.present,
        time_ms=value.time_ms,
    )
    return JournalEntry(value.version, None, [], start=snapshot)


def _object(raw: msgspec.Raw, field: str) -> bytes:
    text = bytes(raw)
    if not text.startswith(b"{"):
        raise ProtocolError("bad-field", f"`{field}` is a JSON object, as every state is")
    return text


def _outcome(word: str) -> Outcome:
    outcome = _OUTCOMES.get(word)
    if outcome is None:
        raise ProtocolError("bad-field", f"an event ends as one of {', '.join(_OUTCOMES)}, not as {word[:64]!r}")
    return outcome


def _events(values: list[EventValue]) -> list[Event]:
    return [
        Event(v.chain_sequencer, v.device, v.sequencer, v.name, bytes(v.payload), v.time_ms, v.dice) for v in values
    ]


def _timers(values: list[TimerValue]) -> list[Timer]:
    return [Timer(v.timer, v.due_ms, v.name, bytes(v.payload)) for v in values]
