"""Reads a message by kio's schema of it, without trusting the message.

kio's own reader is fast and native, but it makes room for an array before it looks whether the array can be there: six
bytes that claim two billion elements end the whole process. So the schemas are kio's and the reading is ours, with
the bounds of `primitives`. It also skips tagged fields that the schema does not know, as the protocol asks for.

A schema is a frozen dataclass. Its fields say in their metadata what is on the wire (`kafka_type`, and `tag` for the
tagged ones) and in their annotations whether it may be null, and whether it is an array or a structure.
"""

from __future__ import annotations

import struct
from dataclasses import MISSING, Field, fields, is_dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from types import NoneType
from typing import Any, TypeVar, get_args, get_origin, get_type_hints
from uuid import UUID

from kio.schema.errors import ErrorCode

from octoloom.wire.kafka.primitives import CLASSIC, COMPACT, Form, Read, malformed, read_uvarint

T = TypeVar("T")

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_NOT_NULL = 1
_NO_UUID = UUID(int=0)


def _number(layout: struct.Struct) -> Read[Any]:
    def read(buffer: memoryview, at: int) -> tuple[Any, int]:
        return layout.unpack_from(buffer, at)[0], at + layout.size

    return read


_int8, _int16, _int32, _int64 = (_number(struct.Struct(f">{code}")) for code in "bhiq")


def _error_code(buffer: memoryview, at: int) -> tuple[ErrorCode, int]:
    number, at = _int16(buffer, at)
    return ErrorCode(number), at


def _uuid(buffer: memoryview, at: int) -> tuple[UUID | None, int]:
    uuid = UUID(bytes=bytes(buffer[at : at + 16]))
    return None if uuid == _NO_UUID else uuid, at + 16


def _milliseconds(read: Read[int], buffer: memoryview, at: int) -> tuple[timedelta, int]:
    number, at = read(buffer, at)
    return timedelta(milliseconds=number), at


def _time(buffer: memoryview, at: int) -> tuple[datetime | None, int]:
    number, at = _int64(buffer, at)
    return None if number == -1 else _EPOCH + timedelta(milliseconds=number), at


_FIXED: dict[str, Read[Any]] = {
    "int8": _int8,
    "int16": _int16,
    "int32": _int32,
    "int64": _int64,
    "uint16": _number(struct.Struct(">H")),
    "uint32": _number(struct.Struct(">I")),
    "float64": _number(struct.Struct(">d")),
    "bool": _number(struct.Struct(">?")),
    "error_code": _error_code,
    "uuid": _uuid,
    "timedelta_i32": partial(_milliseconds, _int32),
    "timedelta_i64": partial(_milliseconds, _int64),
    "datetime_i64": _time,
}


_readers: dict[type[Any], Read[Any]] = {}


def reader_of(schema: type[T]) -> Read[T]:
    """A function that reads one message (or one structure) of this schema."""
    read = _readers.get(schema)
    if read is None:
        read = _readers[schema] = _build(schema)
    return read


def _build(schema: Any) -> Read[Any]:
    form = COMPACT if schema.__flexible__ else CLASSIC
    hints = get_type_hints(schema)
    plain: list[tuple[str, Read[Any]]] = []
    tagged: dict[int, tuple[str, Read[Any]]] = {}
    for entry in fields(schema):
        read = _field_reader(entry, hints[entry.name], form)
        if "tag" in entry.metadata:
            tagged[entry.metadata["tag"]] = entry.name, read
        else:
            plain.append((entry.name, read))
    missing = {entry.name: _default(entry) for entry in fields(schema) if "tag" in entry.metadata}

    def read_entity(buffer: memoryview, at: int) -> tuple[Any, int]:
        values = dict(missing)
        for name, read in plain:
            values[name], at = read(buffer, at)
        if form is COMPACT:
            at = _read_tagged(tagged, values, buffer, at)
        return schema(**values), at

    return read_entity


def _read_tagged(tagged: dict[int, tuple[str, Read[Any]]], values: dict[str, Any], buffer: memoryview, at: int) -> int:
    count, at = read_uvarint(buffer, at)
    for _ in range(count):
        tag, at = read_uvarint(buffer, at)
        size, at = read_uvarint(buffer, at)
        end = at + size
        if end > len(buffer):
            raise malformed(f"a tagged field of {size} bytes at {at} in a message of {len(buffer)}")
        if tag in tagged:
            name, read = tagged[tag]
            values[name], at = read(buffer[:end], at)
            if at != end:
                raise malformed(f"tagged field {tag} ends at {at} instead of {end}")
        at = end
    return at


def _default(entry: Field[Any]) -> Any:
    """What a tagged field is when it does not come."""
    if entry.default is not MISSING:
        return entry.default
    return {"string": "", "bool": False}.get(entry.metadata["kafka_type"], 0)


def _field_reader(entry: Field[Any], hint: Any, form: Form) -> Read[Any]:
    is_nullable = NoneType in get_args(hint)
    if is_nullable:
        (hint,) = (choice for choice in get_args(hint) if choice is not NoneType)
    kafka_type = entry.metadata.get("kafka_type", "")
    if get_origin(hint) is tuple:
        element = get_args(hint)[0]
        is_element_nullable = NoneType in get_args(element)
        return _array(_value(element, kafka_type, form, is_element_nullable), form, is_nullable)
    return _value(hint, kafka_type, form, is_nullable)


def _value(hint: Any, kafka_type: str, form: Form, is_nullable: bool) -> Read[Any]:
    if is_dataclass(hint):
        read: Read[Any] = reader_of(hint)  # type: ignore[arg-type]  # it is a type, not an instance
        return partial(_nullable_entity, read) if is_nullable else read
    if kafka_type == "string":
        return form.nullable_string if is_nullable else form.string
    if kafka_type in ("bytes", "records"):
        return partial(_bytes, form, is_nullable)
    return _FIXED[kafka_type]


def _nullable_entity(read: Read[Any], buffer: memoryview, at: int) -> tuple[Any, int]:
    marker, at = _int8(buffer, at)
    return read(buffer, at) if marker == _NOT_NULL else (None, at)


def _bytes(form: Form, is_nullable: bool, buffer: memoryview, at: int) -> tuple[bytes | None, int]:
    view, at = form.view(buffer, at)
    if view is None:
        if not is_nullable:
            raise malformed(f"bytes are null at {at}")
        return None, at
    return bytes(view), at


def _array(read: Read[Any], form: Form, is_nullable: bool) -> Read[Any]:
    read_count = form.nullable_count if is_nullable else form.count

    def read_array(buffer: memoryview, at: int) -> tuple[tuple[Any, ...] | None, int]:
        count, at = read_count(buffer, at)
        if count is None:
            return None, at
        elements = []
        for _ in range(count):
            element, at = read(buffer, at)
            elements.append(element)
        return tuple(elements), at

    return read_array
