"""The text of the device protocol."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from octoloom.core import device_messages as m
from octoloom.core.errors import ProtocolError
from octoloom.wire.device import (
    close_changed,
    decode_from_device,
    decode_to_device,
    encode,
    encode_changed_open,
)


def raw(text: bytes) -> msgspec.Raw:
    return msgspec.Raw(text)


FROM_DEVICE: list[m.FromDevice] = [
    m.Bootstrap("lobby", "ada"),
    m.Bootstrap("lobby", "ada", 4, [(2, "a", raw(b'{"x": [1,  2]}')), (3, "b", raw(b"null"))], 7, 12, "secret"),
    m.Observe("lobby", 7, 12),
    m.Send([(1, "claim", raw('"ü"'.encode()))]),
    m.Ping(),
]
TO_DEVICE: list[m.ToDevice] = [
    m.Welcome(7, 1, 12, 4, [(2, "rejected", "taken")], [(3, "b", raw(b"1"))], raw(b'{"a":null}'), [], ["ws://h:1"]),
    m.Welcome(7, 1, 12, 4, patches=[raw(b'{"a":1}')]),
    m.Changed(11, 12, raw(b"{}")),
    m.Changed(11, 13, patches=[raw(b'{"a":1}'), raw(b'{"b":2}')], kills=[(1, "applied", "")]),
    m.Gap(4),
    m.Busy(4, 50, "slow down"),
    m.Redirect("ws://other:1"),
    m.Redirect("", 100),
    m.Refused("too-deep", "flatten it", 4),
    m.Pong(),
]


@pytest.mark.parametrize("message", FROM_DEVICE)
def test_what_devices_say_comes_back_as_it_was(message: m.FromDevice) -> None:
    assert decode_from_device(encode(message)) == message


@pytest.mark.parametrize("message", TO_DEVICE)
def test_what_links_say_comes_back_as_it_was(message: m.ToDevice) -> None:
    assert decode_to_device(encode(message)) == message


def test_a_payload_keeps_its_very_text() -> None:
    message = decode_from_device(b'{"type":"events","events":[[1,"a", {"x":  1.0, "x": [ ]} ]]}')
    assert isinstance(message, m.Send)
    assert bytes(message.events[0][2]) == b'{"x":  1.0, "x": [ ]}'


def test_fields_that_a_later_version_adds_are_ignored() -> None:
    assert decode_from_device(b'{"type":"ping","mood":"fine"}') == m.Ping()


@pytest.mark.parametrize(
    ("text", "code"),
    [
        (b"", "malformed"),
        (b"{", "malformed"),
        (b'{"type":"events","events":[[1,"a","\xff"]]}', "malformed"),
        (b'{"type":"events","events":[[1,"a",' + b"[" * 100_000 + b"]" * 100_000 + b"]]}", "malformed"),
        (b"{}", "unknown-message"),
        (b'{"type":"dance"}', "unknown-message"),
        (b'{"type":"welcome","generation":1,"epoch":1,"version":1}', "unknown-message"),
        (b"[1]", "bad-field"),
        (b'{"type":"bootstrap","space":"a"}', "bad-field"),
        (b'{"type":"events","events":[[1,"a"]]}', "bad-field"),
        (b'{"type":"events","events":[["1","a",1]]}', "bad-field"),
        (b'{"type":"events","events":[[0,"a",1]]}', "bad-number"),
        (b'{"type":"events","events":[[2,"a",1],[2,"a",1]]}', "bad-number"),
        (b'{"type":"events","events":[[9007199254740992,"a",1]]}', "bad-number"),
        (b'{"type":"bootstrap","space":"a","device":"d","next":0}', "bad-number"),
        (b'{"type":"observe","space":"a","version":-1}', "bad-number"),
        (b'{"type":"bootstrap","space":"","device":"d"}', "bad-name"),
        (b'{"type":"bootstrap","space":"a","device":"@timer"}', "bad-name"),
        (b'{"type":"observe","space":"' + b"x" * 129 + b'"}', "bad-name"),
        (b'{"type":"ping"}' + b" " * (1 << 20), "message-too-large"),
        (b'{"type":"bootstrap","space":"a","device":"d","token":"' + b"t" * 4097 + b'"}', "bad-field"),
    ],
)
def test_what_a_device_may_not_say_is_named(text: bytes, code: str) -> None:
    with pytest.raises(ProtocolError) as caught:
        decode_from_device(text)
    assert caught.value.code == code
    assert caught.value.detail


def test_too_many_events_in_one_message_are_refused() -> None:
    with pytest.raises(ProtocolError, match="too-many"):
        decode_from_device(encode(m.Send([(n, "a", raw(b"1")) for n in range(1, 258)])))


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**40), 2**40) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
notes = st.tuples(st.integers(1, 99), st.sampled_from(["applied", "rejected"]), st.text())


@given(st.lists(json_values, max_size=3), st.none() | json_values, st.booleans(), st.lists(notes, max_size=3))
def test_the_shared_text_says_what_each_receivers_own_message_would(
    patches: list[Any], state: Any, replaces: bool, kills: list[m.KillNote]
) -> None:
    texts = [msgspec.json.encode(patch) for patch in patches]
    state_text = msgspec.json.encode(state) if replaces else None
    shared = encode_changed_open(3, 9, texts, state_text)
    own = m.Changed(
        3,
        9,
        msgspec.UNSET if state_text is None else raw(state_text),
        [raw(text) for text in texts],
        kills,
    )
    assert decode_to_device(close_changed(shared, kills)) == own


@given(st.binary(max_size=60))
def test_any_bytes_are_a_message_or_a_protocol_error(text: bytes) -> None:
    with suppress(ProtocolError):
        decode_from_device(text)
