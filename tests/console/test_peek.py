"""Bytes for people."""

from __future__ import annotations

import pytest

from octoloom.console.peek import HEADERS_MAX, TEXT_BYTES_MAX, Shown, shown, shown_record
from octoloom.wire.kafka.records import Record


@pytest.mark.parametrize(
    ("data", "seen"),
    [
        (None, Shown("none", "", 0)),
        (b"", Shown("text", "", 0)),
        (b"abc", Shown("text", "abc", 3)),
        (b"42", Shown("text", "42", 2)),
        (b'{"a": [1]}', Shown("json", '{"a": [1]}', 10)),
        (b'{"a": ', Shown("text", '{"a": ', 6)),
        (b"<script>alert(1)</script>", Shown("text", "<script>alert(1)</script>", 25)),
        (b"\x00\xff", Shown("hex", "00 ff", 2)),
        (b"\x1b[31m", Shown("hex", "1b 5b 33 31 6d", 5)),
        ("grüß\n".encode(), Shown("text", "grüß\n", 7)),
    ],
)
def test_what_is_text_is_shown_as_text(data: bytes | None, seen: Shown) -> None:
    assert shown(data) == seen


def test_what_is_long_is_cut_even_within_a_letter() -> None:
    found = shown("ü".encode() * TEXT_BYTES_MAX)
    assert (found.kind, found.size, found.cut) == ("text", 2 * TEXT_BYTES_MAX, True)
    assert len(found.text) == TEXT_BYTES_MAX // 2
    odd = shown(b"x" + "ü".encode() * TEXT_BYTES_MAX)
    assert odd.text == "x" + "ü" * (TEXT_BYTES_MAX // 2 - 1)
    binary = shown(b"\xff" * 100_000)
    assert (binary.kind, binary.cut, binary.size) == ("hex", True, 100_000)
    assert len(binary.text) < TEXT_BYTES_MAX


def test_json_that_was_cut_is_no_json() -> None:
    found = shown(b"[" + b"1," * TEXT_BYTES_MAX + b"1]")
    assert (found.kind, found.cut) == ("text", True)


def test_headers_are_bounded() -> None:
    record = Record(5, 7, b"k", None, tuple((f"h{number}", b"v") for number in range(HEADERS_MAX + 3)))
    found = shown_record(record)
    assert (len(found.headers), found.headers_left_out) == (HEADERS_MAX, 3)
    assert (found.offset, found.time_ms, found.value.kind) == (5, 7, "none")
