"""The text of the device protocol: JSON objects with a `type`, one per WebSocket message.

Payloads, patches and states pass through as the JSON text they are (`msgspec.Raw`): nobody opens what it only hands on,
and a resent event keeps its text. A change that goes to a thousand devices is encoded once: `encode_changed_open` makes
the shared text without its end, `close_changed` adds the kills of one receiver.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import msgspec

from octoloom.core.device_messages import Bootstrap, DeviceEvent, FromDevice, KillNote, Observe, Send, ToDevice
from octoloom.core.errors import ProtocolError
from octoloom.core.event import SYSTEM

FROM_DEVICE_BYTES_MAX = 1 << 20
TO_DEVICE_BYTES_MAX = 64 << 20
"""A welcome carries a whole state."""
NAME_MAX = 128
TOKEN_MAX = 4096
EVENTS_MAX = 256
SEQUENCER_MAX = (1 << 53) - 1
"""The largest whole number that every JSON reader keeps exactly."""

T = TypeVar("T")

_decode_from_device = msgspec.json.Decoder[FromDevice](FromDevice)
_decode_to_device = msgspec.json.Decoder[ToDevice](ToDevice)
_encode = msgspec.json.Encoder().encode


def encode(message: FromDevice | ToDevice) -> bytes:
    return _encode(message)


def decode_from_device(text: bytes) -> FromDevice:
    """What a device said; raises ProtocolError if a device may not say that."""
    message: FromDevice = _decode(_decode_from_device, text, FROM_DEVICE_BYTES_MAX)
    if isinstance(message, Bootstrap):
        _check_name("space", message.space)
        _check_name("device", message.device)
        _check_bootstrap(message)
    elif isinstance(message, Observe):
        _check_name("space", message.space)
        _check_place(message)
    elif isinstance(message, Send):
        _check_events(message.events)
    return message


def decode_to_device(text: bytes) -> ToDevice:
    """What a link said; raises ProtocolError if it is not a message of this protocol."""
    message: ToDevice = _decode(_decode_to_device, text, TO_DEVICE_BYTES_MAX)
    return message


def encode_changed_open(since: int, version: int, patches: Sequence[bytes] = (), state: bytes | None = None) -> bytes:
    """The part of a change that all receivers share, for `close_changed` to finish."""
    text = b'{"type":"change","since":%d,"version":%d' % (since, version)
    if state is not None:
        text += b',"state":' + state
    if patches:
        text += b',"patches":[' + b",".join(patches) + b"]"
    return text


def close_changed(prefix: bytes, kills: Sequence[KillNote] = ()) -> bytes:
    """The whole change for a receiver with these kills."""
    return prefix + b',"kills":' + _encode(kills) + b"}" if kills else prefix + b"}"


def _decode(decoder: msgspec.json.Decoder[T], text: bytes, bytes_max: int) -> T:
    if len(text) > bytes_max:
        raise ProtocolError("message-too-large", f"a message has at most {bytes_max} bytes, this one {len(text)}")
    try:
        # What is handed on unopened is not looked at below; it must not be the next reader's surprise.
        if not text.isascii():
            text.decode()
        return decoder.decode(text)
    except msgspec.ValidationError as error:
        # The text is JSON. Either its type is none of ours, or one of its fields is not as documented.
        unknown = str(error).endswith("`$.type`") or "`type`" in str(error)
        raise ProtocolError("unknown-message" if unknown else "bad-field", str(error)) from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ProtocolError("malformed", f"this is not JSON: {error}") from None


def _check_name(kind: str, name: str) -> None:
    if not name or len(name) > NAME_MAX:
        raise ProtocolError("bad-name", f"the name of a {kind} has 1 to {NAME_MAX} characters, this one {len(name)}")
    if name.startswith(SYSTEM):
        raise ProtocolError("bad-name", f"the name of a {kind} may not start with {SYSTEM!r}")


def _check_bootstrap(message: Bootstrap) -> None:
    if len(message.token) > TOKEN_MAX:
        raise ProtocolError("bad-field", f"a token has at most {TOKEN_MAX} characters")
    if not 1 <= message.next <= SEQUENCER_MAX:
        raise ProtocolError("bad-number", f"`next` is at least 1 and at most {SEQUENCER_MAX}")
    _check_place(message)
    _check_events(message.events)


def _check_place(message: Bootstrap | Observe) -> None:
    if not (0 <= message.generation <= SEQUENCER_MAX and 0 <= message.version <= SEQUENCER_MAX):
        raise ProtocolError("bad-number", f"`generation` and `version` are 0 to {SEQUENCER_MAX}")


def _check_events(events: list[DeviceEvent]) -> None:
    if len(events) > EVENTS_MAX:
        raise ProtocolError("too-many", f"a message has at most {EVENTS_MAX} events, this one {len(events)}")
    last = 0
    for sequencer, _, _ in events:
        if not last < sequencer <= SEQUENCER_MAX:
            raise ProtocolError("bad-number", f"sequencers rise from 1 to {SEQUENCER_MAX}; {sequencer} follows {last}")
        last = sequencer
