"""Columns of a terminal, which are not characters."""

from __future__ import annotations

import pytest

from octoloom.runtime.text_rows import Row, cells, clip, width_of

ACCENTED = "e\N{COMBINING ACUTE ACCENT}a"


def test_wide_signs_take_two_columns_and_accents_none() -> None:
    assert cells("日a") == ["日", "", "a"]
    assert cells(ACCENTED) == ["e\N{COMBINING ACUTE ACCENT}", "a"]
    assert cells("\N{COMBINING ACUTE ACCENT}") == []
    assert width_of("日本") == 4


@pytest.mark.parametrize(
    ("text", "width", "clipped"),
    [
        ("lunch", 5, "lunch"),
        ("lunch?", 5, "lunc…"),
        ("日本語", 6, "日本語"),
        ("日本語", 5, "日本…"),
        ("日本語", 4, "日…"),
        ("ab", 1, "…"),
        ("ab", 0, ""),
        ("ab", -3, ""),
        ("", 0, ""),
    ],
)
def test_clip(text: str, width: int, clipped: str) -> None:
    assert clip(text, width) == clipped
    assert width_of(clipped) <= max(width, 0)


def test_later_signs_cover_earlier_ones_and_none_stands_beyond_the_end() -> None:
    row = Row(8)
    assert row.put(0, "│", "line") == 1
    assert row.put(2, "日本", "text") == 6
    assert row.put(6, "abc") == 9
    row.put(-1, "x")
    assert str(row) == "│ 日本ab"
    assert list(row.spans()) == [("│", "line"), (" ", ""), ("日本", "text"), ("ab", "")]


def test_spans_end_where_the_signs_do() -> None:
    row = Row(10)
    row.put(2, "ab ", "bold")
    assert list(row.spans()) == [("  ", ""), ("ab", "bold")]
    assert list(Row(3).spans()) == []


def test_a_line_passes_behind_what_stands_there() -> None:
    row = Row(8)
    row.put(3, "│", "line")
    row.fill(-2, 20, "┄", "flight")
    assert str(row) == "┄┄┄│┄┄┄┄"
    assert list(row.spans()) == [("┄┄┄", "flight"), ("│", "line"), ("┄┄┄┄", "flight")]
