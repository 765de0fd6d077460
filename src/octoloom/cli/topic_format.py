"""Records as text: the formats of `octoloom topic consume`, and the lines that `octoloom topic produce` reads.

The format string is kcat's. JSON lines go both ways: what `consume --json` prints, `produce --json` writes. Keys and
values are text where they are UTF-8, and ``{"base64": "..."}`` where they are not.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable
from datetime import datetime
from typing import Any

import msgspec

from octoloom.core.errors import UsageError
from octoloom.runtime.log_consumer import Last, Start, Timestamp
from octoloom.wire.kafka.records import Headers, Record

Render = Callable[[str, int, Record], bytes]
"""(topic, partition, record) → what is printed."""

_TOKEN = re.compile(rb"%(.)|\\(x[0-9a-fA-F]{2}|.)|([^%\\]+|[%\\])", re.DOTALL)
_ESCAPES = {b"n": b"\n", b"r": b"\r", b"t": b"\t", b"0": b"\0", b"\\": b"\\"}

_FIELDS: dict[bytes, Render] = {
    b"s": lambda _topic, _partition, record: record.value or b"",
    b"S": lambda _topic, _partition, record: b"%d" % (-1 if record.value is None else len(record.value)),
    b"R": lambda _topic, _partition, record: len(record.value or b"").to_bytes(4, "big"),
    b"k": lambda _topic, _partition, record: record.key or b"",
    b"K": lambda _topic, _partition, record: b"%d" % (-1 if record.key is None else len(record.key)),
    b"T": lambda _topic, _partition, record: b"%d" % record.timestamp,
    b"h": lambda _topic, _partition, record: b",".join(b"%b=%b" % (k.encode(), v or b"") for k, v in record.headers),
    b"t": lambda topic, _partition, _record: topic.encode(),
    b"p": lambda _topic, partition, _record: b"%d" % partition,
    b"o": lambda _topic, _partition, record: b"%d" % record.offset,
}


def renderer(template: str) -> Render:
    """What a format string prints of a record."""
    pieces: list[Render] = []
    for field, escape, plain in _TOKEN.findall(template.encode(errors="surrogateescape")):
        if field and field != b"%":
            if field not in _FIELDS:
                known = ", ".join(f"%{name.decode()}" for name in _FIELDS)
                raise UsageError(f"%{field.decode(errors='replace')} means nothing in a format: use {known} or %%")
            pieces.append(_FIELDS[field])
        else:
            pieces.append(_constant(b"%" if field else _unescape(escape) if escape else plain))
    return lambda topic, partition, record: b"".join([piece(topic, partition, record) for piece in pieces])


def _unescape(escape: bytes) -> bytes:
    if escape.startswith(b"x") and len(escape) == 3:
        return bytes.fromhex(escape[1:].decode())
    return _ESCAPES.get(escape, b"\\" + escape)


def _constant(text: bytes) -> Render:
    return lambda _topic, _partition, _record: text


def json_line(topic: str, partition: int, record: Record) -> bytes:
    told = {
        "topic": topic,
        "partition": partition,
        "offset": record.offset,
        "timestamp": record.timestamp,
        "key": _told(record.key),
        "value": _told(record.value),
        "headers": [[name, _told(value)] for name, value in record.headers],
    }
    return msgspec.json.encode(told) + b"\n"


def _told(content: bytes | None) -> str | dict[str, str] | None:
    if content is None:
        return None
    try:
        return content.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(content).decode()}


class JsonRecord(msgspec.Struct, frozen=True):
    """A line for `produce --json`. Fields that belong to a place in the log are read over."""

    value: Any = None
    key: Any = None
    headers: dict[str, Any] | list[tuple[str, Any]] = []
    partition: int | None = None
    timestamp: int | None = None


Line = tuple[bytes | None, bytes | None, Headers, int | None, int | None]
"""(key, value, headers, partition, timestamp)"""


def parse_json_line(line: bytes) -> Line:
    try:
        read = msgspec.json.decode(line, type=JsonRecord)
        pairs = read.headers.items() if isinstance(read.headers, dict) else read.headers
        headers = tuple((name, _content(value)) for name, value in pairs)
        return _content(read.key), _content(read.value), headers, read.partition, read.timestamp
    except (msgspec.MsgspecError, binascii.Error, ValueError) as error:
        raise UsageError(f"not a record as JSON ({error}): write {{'key': ..., 'value': ...}}") from error


def _content(told: Any) -> bytes | None:
    """Text as UTF-8, ``{"base64": ...}`` as the bytes it stands for, and any other JSON as JSON."""
    if told is None:
        return None
    if isinstance(told, str):
        return told.encode()
    if isinstance(told, dict) and list(told) == ["base64"]:
        return base64.b64decode(told["base64"], validate=True)
    return msgspec.json.encode(told)


def parse_start(text: str) -> Start:
    """beginning, end, an offset, -N for the last N, an ISO time, or @MILLISECONDS."""
    if text in ("beginning", "end"):
        return "beginning" if text == "beginning" else "end"
    if re.fullmatch(r"-\d+", text):
        return Last(int(text[1:]))
    if text.isascii() and text.isdigit():
        return int(text)
    if re.fullmatch(r"(s?@)\d+", text):
        return Timestamp(int(text.partition("@")[2]))
    try:
        return Timestamp(int(datetime.fromisoformat(text).timestamp() * 1000))
    except (ValueError, OverflowError):
        known = "beginning, end, an offset, -N for the last N, a time like 2026-01-31T12:00, or @MILLISECONDS"
        raise UsageError(f"{text!r} is no place to start: write {known}") from None
