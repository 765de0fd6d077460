"""The two forms against kio's readers and writers of single values."""

from __future__ import annotations

from collections.abc import Callable
from io import BytesIO
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kio.serial import writers

from octoloom.core.errors import ProtocolError
from octoloom.wire.kafka import primitives
from octoloom.wire.kafka.primitives import (
    CLASSIC,
    COMPACT,
    NAME_BYTES_MAX,
    NAMES_MAX,
    UNREADABLE,
    Form,
    name_of,
    read_uvarint,
    skip_tags,
    write_uvarint,
)

forms = pytest.mark.parametrize("form", [CLASSIC, COMPACT], ids=["classic", "compact"])
around = st.tuples(st.binary(max_size=3), st.binary(max_size=3))


def kio(write: Callable[[Any, Any], None], value: Any) -> bytes:
    buffer = BytesIO()
    write(buffer, value)
    return buffer.getvalue()


def between(raw: bytes, before_and_after: tuple[bytes, bytes]) -> tuple[memoryview, int, int]:
    """(a buffer with the bytes somewhere inside, where they begin, where they end)"""
    before, after = before_and_after
    return memoryview(before + raw + after), len(before), len(before) + len(raw)


@given(st.integers(0, 2**32 - 1), around)
def test_uvarints(value: int, place: tuple[bytes, bytes]) -> None:
    raw = kio(writers.write_unsigned_varint, value)
    assert write_uvarint(value) == raw
    buffer, begin, end = between(raw, place)
    assert read_uvarint(buffer, begin) == (value, end)


@forms
@given(text=st.none() | st.text(max_size=300), place=around)
def test_strings(form: Form, text: str | None, place: tuple[bytes, bytes]) -> None:
    nullable = writers.write_nullable_compact_string if form is COMPACT else writers.write_nullable_legacy_string
    raw = kio(nullable, text)
    assert form.write_string(text) == raw
    buffer, begin, end = between(raw, place)
    assert form.nullable_string(buffer, begin) == (text, end)
    if text is None:
        with pytest.raises(ProtocolError, match="malformed"):
            form.string(buffer, begin)
    else:
        assert form.string(buffer, begin) == (text, end)
        assert form.write_name(text) == form.write_name(text) == raw


@forms
@given(raw=st.none() | st.binary(max_size=300), place=around)
def test_views(form: Form, raw: bytes | None, place: tuple[bytes, bytes]) -> None:
    nullable = writers.write_nullable_compact_string if form is COMPACT else writers.write_nullable_legacy_bytes
    buffer, begin, end = between(kio(nullable, raw), place)
    view, after = form.view(buffer, begin)
    assert (None if view is None else bytes(view), after) == (raw, end)
    assert form.write_long(-1 if raw is None else len(raw)) + (raw or b"") == buffer[begin:end]


@forms
@given(count=st.none() | st.integers(0, 300))
def test_counts(form: Form, count: int | None) -> None:
    raw = form.write_long(-1 if count is None else count)
    if count is None:
        assert form.nullable_count(memoryview(raw), 0) == (None, len(raw))
        with pytest.raises(ProtocolError, match="malformed"):
            form.count(memoryview(raw), 0)
        return
    buffer = memoryview(raw + bytes(count))
    assert form.count(buffer, 0) == form.nullable_count(buffer, 0) == (count, len(raw))
    # An array that says it has more elements than there are bytes is refused before it is begun.
    if count:
        with pytest.raises(ProtocolError, match=f"an array of {count} "):
            form.count(buffer[:-1], 0)


def test_what_does_not_fit_is_refused() -> None:
    for text in ("x" * 32_768, "\ud800"):
        with pytest.raises(ProtocolError, match="unwritable"):
            CLASSIC.write_string(text)
    assert CLASSIC.string(memoryview(CLASSIC.write_string("x" * 32_767)), 0)[0] == "x" * 32_767
    assert COMPACT.string(memoryview(COMPACT.write_string("x" * 32_768)), 0)[0] == "x" * 32_768


def test_tags_are_skipped() -> None:
    tags = memoryview(b"\x02\x00\x03abc\x85\x01\x00rest")
    assert skip_tags(tags, 0) == len(tags) - 4
    assert skip_tags(memoryview(b"\x00rest"), 0) == 1
    with pytest.raises(ProtocolError, match="a tagged field of 9 bytes"):
        skip_tags(memoryview(b"\x01\x00\x09abc"), 0)
    assert CLASSIC.skip_tags(tags, 3) == 3


@forms
@given(raw=st.binary(max_size=12), at=st.integers(0, 12))
def test_garbage_is_refused_or_read_within_the_buffer(form: Form, raw: bytes, at: int) -> None:
    buffer = memoryview(raw)
    for read in (form.count, form.nullable_count, form.string, form.nullable_string, form.view):
        try:
            _, after = read(buffer, at)
        except (ProtocolError, *UNREADABLE):
            continue
        assert at < after <= len(raw)


def test_remembered_names_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    remembered: dict[bytes, str] = {}
    monkeypatch.setattr(primitives, "_names", remembered)
    for number in range(NAMES_MAX + 5):
        assert name_of(b"topic-%d" % number) == f"topic-{number}"
        assert CLASSIC.write_name(f"topic-{number}")[2:] == b"topic-%d" % number
    assert len(remembered) == 5
    assert 5 <= len(CLASSIC.written_names) <= NAMES_MAX
    long = "x" * (NAME_BYTES_MAX + 1)
    assert name_of(long.encode()) == long
    assert CLASSIC.write_name(long) == CLASSIC.write_string(long)
    assert len(remembered) == 5
    assert long not in CLASSIC.written_names
