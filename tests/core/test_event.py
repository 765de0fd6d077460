"""The words of the chain: what crosses a wire comes back as it was, and a digest tells one event from another."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from octoloom.core.event import (
    Change,
    DeviceRecord,
    Event,
    Kill,
    Outcome,
    Settled,
    SpaceSnapshot,
    Timer,
    digest_of,
)

EVENT = Event(4, "ada", 2, "put", b'{"cell":"b4"}', 1000, 1 << 63)
KILL = Kill(4, "ada", 2, Outcome.REJECTED, "taken", EVENT.digest)
TIMER = Timer(1, 1500, "ring", b"null")
CHANGE = Change(3, 7, False, b'{"a":1}', [KILL], [TIMER], [9], [("ada", True)])
SNAPSHOT = SpaceSnapshot(
    space="lobby",
    version=7,
    state=b"{}",
    next_chain_sequencer=5,
    events=[EVENT],
    devices=[DeviceRecord("ada", 1, [3], [Settled(1, Outcome.APPLIED, "", 77)])],
    timers=[TIMER],
    next_timer=2,
    present=["ada"],
    time_ms=1000,
)


@pytest.mark.parametrize("value", [EVENT, KILL, TIMER, CHANGE, SNAPSHOT])
def test_what_crosses_a_wire_comes_back_as_it_was(value: msgspec.Struct) -> None:
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(value), type=type(value)) == value


def test_values_do_not_change() -> None:
    with pytest.raises(AttributeError):
        EVENT.sequencer = 5  # type: ignore[misc]


def test_changes_made_without_extras_do_not_share_them() -> None:
    one, other = (Change(1, version, False, b"{}", []) for version in (1, 2))
    assert one.timers is not other.timers


def test_outcomes_are_numbered_for_links_and_named_for_devices() -> None:
    assert [(outcome.value, outcome.word) for outcome in Outcome] == [
        (0, "applied"),
        (1, "rejected"),
        (2, "superseded"),
        (3, "quarantined"),
        (4, "forgotten"),
    ]


@given(st.text(), st.binary(), st.text(), st.binary())
def test_a_digest_depends_on_the_name_and_the_text_of_the_payload(
    name: str, payload: bytes, other_name: str, other_payload: bytes
) -> None:
    if (name, payload) == (other_name, other_payload):
        assert digest_of(name, payload) == digest_of(other_name, other_payload)
    assert 0 <= digest_of(name, payload) < 1 << 32
    assert EVENT.digest == digest_of("put", b'{"cell":"b4"}')


def test_a_digest_tells_neighbours_apart() -> None:
    digests = [digest_of(name, payload) for name in ("put", "pu", "take") for payload in (b"1", b"2", b'"1"')]
    assert len(dict.fromkeys(digests)) == len(digests)


def test_the_size_of_a_change_grows_with_its_patch_and_its_kills() -> None:
    small = Change(1, 1, False, b"{}", [])
    assert small.size < CHANGE.size < Change(1, 1, False, b"x" * 500, [KILL]).size
