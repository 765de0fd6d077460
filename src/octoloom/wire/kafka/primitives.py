"""The protocol's two forms of strings, arrays and structures.

Older versions of a request write a string's length in two bytes and an array's in four (classic). From a version of
its own on, each API writes both as a varint, one more than they are so that 0 says null, and ends every structure
with tagged fields that a reader may skip (compact, or "flexible"). The numbers between them are the same in both.
A parser picks a `Form` once and then reads every version with the same lines.

A read takes the buffer and a position and answers (value, the position after it). Bytes that lie are never believed:
a length beyond the buffer's end is refused before anything is allocated for it.

Parsers may let `struct.error`, `IndexError` and `ValueError` (bad UTF-8) come up and turn them into one `ProtocolError`
at their own edge; `UNREADABLE` names them.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

from octoloom.core.errors import ProtocolError

T = TypeVar("T")
Read = Callable[[memoryview, int], tuple[T, int]]

UNREADABLE = (struct.error, IndexError, ValueError, OverflowError)

NAMES_MAX = 4096
"""How many names are remembered, decoded or encoded; at the limit all are forgotten."""
NAME_BYTES_MAX = 255

I16 = struct.Struct(">h")
I32 = struct.Struct(">i")

_names: dict[bytes, str] = {}


def malformed(detail: str) -> ProtocolError:
    return ProtocolError("malformed", detail)


def name_of(raw: bytes) -> str:
    """The string of these bytes. Topics and clients come again and again: a short one is decoded once."""
    name = _names.get(raw)
    if name is None:
        name = raw.decode()
        if len(raw) <= NAME_BYTES_MAX:
            if len(_names) >= NAMES_MAX:
                _names.clear()
            _names[raw] = name
    return name


def read_uvarint(buffer: memoryview, at: int) -> tuple[int, int]:
    byte = buffer[at]
    if byte < 0x80:
        return byte, at + 1
    value = byte & 0x7F
    for shift in (7, 14, 21, 28):
        at += 1
        byte = buffer[at]
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at + 1
    raise malformed(f"a varint of more than five bytes ends at {at}")


def write_uvarint(value: int) -> bytes:
    if value < 0x80:
        return value.to_bytes(1, "big")
    written = bytearray()
    while value >= 0x80:
        written.append(value & 0x7F | 0x80)
        value >>= 7
    written.append(value)
    return bytes(written)


# A length of -1 is null. Reading a length, a count, a string or a view is one flat function in each form, however alike
# they look: they are called several times for every request, and a call costs more than what it does.


def _classic_count(buffer: memoryview, at: int) -> tuple[int, int]:
    count = I32.unpack_from(buffer, at)[0]
    at += 4
    if count < 0 or count > len(buffer) - at:
        raise malformed(f"an array of {count} at {at} in a message of {len(buffer)} bytes")
    return count, at


def _compact_count(buffer: memoryview, at: int) -> tuple[int, int]:
    count, at = read_uvarint(buffer, at)
    count -= 1
    if count < 0 or count > len(buffer) - at:
        raise malformed(f"an array of {count} at {at} in a message of {len(buffer)} bytes")
    return count, at


def _classic_string(buffer: memoryview, at: int) -> tuple[str, int]:
    size = I16.unpack_from(buffer, at)[0]
    at += 2
    end = at + size
    if size < 0 or end > len(buffer):
        raise malformed(f"a string of {size} bytes at {at} in a message of {len(buffer)}")
    return name_of(bytes(buffer[at:end])), end


def _compact_string(buffer: memoryview, at: int) -> tuple[str, int]:
    size, at = read_uvarint(buffer, at)
    end = at + size - 1
    if size < 1 or end > len(buffer):
        raise malformed(f"a string of {size - 1} bytes at {at} in a message of {len(buffer)}")
    return name_of(bytes(buffer[at:end])), end


def _classic_view(buffer: memoryview, at: int) -> tuple[memoryview | None, int]:
    size = I32.unpack_from(buffer, at)[0]
    at += 4
    if size == -1:
        return None, at
    end = at + size
    if size < 0 or end > len(buffer):
        raise malformed(f"{size} bytes at {at} in a message of {len(buffer)}")
    return buffer[at:end], end


def _compact_view(buffer: memoryview, at: int) -> tuple[memoryview | None, int]:
    size, at = read_uvarint(buffer, at)
    if size == 0:
        return None, at
    end = at + size - 1
    if end > len(buffer):
        raise malformed(f"{size - 1} bytes at {at} in a message of {len(buffer)}")
    return buffer[at:end], end


def _classic_null_short(buffer: memoryview, at: int) -> tuple[bool, int]:
    return I16.unpack_from(buffer, at)[0] == -1, at + 2


def _classic_null_long(buffer: memoryview, at: int) -> tuple[bool, int]:
    return I32.unpack_from(buffer, at)[0] == -1, at + 4


def _compact_null(buffer: memoryview, at: int) -> tuple[bool, int]:
    return buffer[at] == 0, at + 1


def _skip_no_tags(buffer: memoryview, at: int) -> int:  # noqa: ARG001
    return at


def skip_tags(buffer: memoryview, at: int) -> int:
    if buffer[at] == 0:
        return at + 1
    count, at = read_uvarint(buffer, at)
    for _ in range(count):
        _, at = read_uvarint(buffer, at)
        size, at = read_uvarint(buffer, at)
        at += size
        if at > len(buffer):
            raise malformed(f"a tagged field of {size} bytes ends at {at} in a message of {len(buffer)}")
    return at


def _write_compact(size: int) -> bytes:
    return write_uvarint(size + 1)


@dataclass(frozen=True, slots=True)
class Form:
    """How one family of versions writes what has a length. What is read may not be null, unless its name says so."""

    count: Read[int]
    """The length of an array."""
    string: Read[str]
    view: Read[memoryview | None]
    """Bytes where they lie, or null."""
    null_short: Read[bool]
    """Whether a null string stands here, and where it ends."""
    null_long: Read[bool]
    """Whether a null array stands here, and where it ends."""
    skip_tags: Callable[[memoryview, int], int]
    no_tags: bytes
    """What a structure without tagged fields ends with."""
    write_short: Callable[[int], bytes]
    """The length of a string."""
    write_long: Callable[[int], bytes]
    """The length of an array or of bytes."""
    written_names: dict[str, bytes] = field(default_factory=dict)

    def nullable_string(self, buffer: memoryview, at: int) -> tuple[str | None, int]:
        is_null, after = self.null_short(buffer, at)
        return (None, after) if is_null else self.string(buffer, at)

    def nullable_count(self, buffer: memoryview, at: int) -> tuple[int | None, int]:
        is_null, after = self.null_long(buffer, at)
        return (None, after) if is_null else self.count(buffer, at)

    def write_string(self, text: str | None) -> bytes:
        if text is None:
            return self.write_short(-1)
        try:
            raw = text.encode()
            return self.write_short(len(raw)) + raw
        except (struct.error, ValueError) as error:
            raise ProtocolError("unwritable", f"a string of {len(text)} characters: {error}") from error

    def write_name(self, name: str) -> bytes:
        """As `write_string`, for names that come again and again."""
        written = self.written_names.get(name)
        if written is None:
            written = self.write_string(name)
            if len(written) <= NAME_BYTES_MAX:
                if len(self.written_names) >= NAMES_MAX:
                    self.written_names.clear()
                self.written_names[name] = written
        return written


CLASSIC = Form(
    _classic_count,
    _classic_string,
    _classic_view,
    _classic_null_short,
    _classic_null_long,
    _skip_no_tags,
    no_tags=b"",
    write_short=I16.pack,
    write_long=I32.pack,
)
COMPACT = Form(
    _compact_count,
    _compact_string,
    _compact_view,
    _compact_null,
    _compact_null,
    skip_tags,
    no_tags=b"\x00",
    write_short=_write_compact,
    write_long=_write_compact,
)
