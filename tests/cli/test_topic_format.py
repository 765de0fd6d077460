"""Formats of records, there and back."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from octoloom.cli.topic_format import json_line, parse_json_line, parse_start, renderer
from octoloom.core.errors import UsageError
from octoloom.runtime.log_consumer import Last, Start, Timestamp
from octoloom.wire.kafka.records import Record

RECORD = Record(42, 1_760_000_000_123, b"key", b"value", (("a", b"1"), ("b", None)))


@pytest.mark.parametrize(
    ("template", "printed"),
    [
        ("%s\\n", b"value\n"),
        ("%t-%p@%o %T", b"topic-3@42 1760000000123"),
        ("%k=%s (%K, %S)", b"key=value (3, 5)"),
        ("%R%s", b"\x00\x00\x00\x05value"),
        ("%h", b"a=1,b="),
        ("100%% \\t\\r\\x41\\x00 \\q \\\\ é", b"100% \t\rA\x00 \\q \\ \xc3\xa9"),
        ("%", b"%"),
        ("\\", b"\\"),
        ("", b""),
    ],
)
def test_a_format_is_kcats(template: str, printed: bytes) -> None:
    assert renderer(template)("topic", 3, RECORD) == printed


def test_null_is_told_from_empty_by_its_length() -> None:
    render = renderer("%k|%K|%s|%S")
    assert render("t", 0, Record(0, 0, None, None)) == b"|-1||-1"
    assert render("t", 0, Record(0, 0, b"", b"")) == b"|0||0"


def test_an_unknown_field_is_refused() -> None:
    with pytest.raises(UsageError, match="%x means nothing in a format: use %s, "):
        renderer("%s %x")


contents = st.none() | st.binary(max_size=20) | st.text(max_size=20).map(str.encode)


@given(contents, contents, st.lists(st.tuples(st.text(max_size=5), contents), max_size=3).map(tuple))
def test_json_goes_there_and_back(
    key: bytes | None, value: bytes | None, headers: tuple[tuple[str, bytes | None], ...]
) -> None:
    record = Record(7, 1234, key, value, headers)
    line = json_line("topic", 3, record)
    assert line.count(b"\n") == 1
    assert parse_json_line(line) == (key, value, headers, 3, 1234)


def test_json_reads_well() -> None:
    assert json.loads(json_line("topic", 3, RECORD)) == {
        "topic": "topic",
        "partition": 3,
        "offset": 42,
        "timestamp": 1_760_000_000_123,
        "key": "key",
        "value": "value",
        "headers": [["a", "1"], ["b", None]],
    }
    assert json.loads(json_line("t", 0, Record(0, 0, None, b"\xff")))["value"] == {"base64": "/w=="}


@pytest.mark.parametrize(
    ("line", "read"),
    [
        (b'{"value": "v"}', (None, b"v", (), None, None)),
        (
            b'{"key": "k", "value": {"n": [1, 2]}, "headers": {"a": "1"}}',
            (b"k", b'{"n":[1,2]}', (("a", b"1"),), None, None),
        ),
        (b'{"key": 7, "partition": 2, "headers": [["a", null]]}', (b"7", None, (("a", None),), 2, None)),
        (b"{}", (None, None, (), None, None)),
    ],
)
def test_json_that_people_write(line: bytes, read: object) -> None:
    assert parse_json_line(line) == read


@pytest.mark.parametrize(
    "line", [b"", b"hello", b"[1]", b'{"headers": 5}', b'{"value": {"base64": "%"}}', b'{"partition": "x"}']
)
def test_what_is_no_record_is_refused(line: bytes) -> None:
    with pytest.raises(UsageError, match="not a record as JSON"):
        parse_json_line(line)


@pytest.mark.parametrize(
    ("text", "start"),
    [
        ("beginning", "beginning"),
        ("end", "end"),
        ("0", 0),
        ("12345", 12345),
        ("-10", Last(10)),
        ("@1760000000123", Timestamp(1_760_000_000_123)),
        ("s@5", Timestamp(5)),
        ("2026-01-31T12:00:00+00:00", Timestamp(1_769_860_800_000)),
        ("2026-01-31T12:00:00.5Z", Timestamp(1_769_860_800_500)),
    ],
)
def test_places_to_start(text: str, start: Start) -> None:
    assert parse_start(text) == start
    assert type(parse_start(text)) is type(start)


@pytest.mark.parametrize("text", ["", "start", "1.5", "--3", "@", "@x", "2026-13-01", "٣"])
def test_what_is_no_place_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="is no place to start: write beginning, end"):
        parse_start(text)
