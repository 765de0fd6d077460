"""What a chat puts on the screen."""

from __future__ import annotations

import datetime
from typing import Any

import pytest

from octoloom.cli.group_chat_words import TEXT_MAX, Part, body_text, duration, names, said, told


def text_of(parts: list[Part]) -> str:
    return "".join(text for text, _ in parts)


def test_lines() -> None:
    assert text_of(said("ada", "Done?")) == "ada: Done?"
    assert text_of(said("bob", "Now!", is_concurrent=True, held_ms=1230)) == "bob: ‖ Now!  (held back for 1.2 s)"
    assert text_of(told("ada", "you", "psst")) == "ada → you: psst"


@pytest.mark.parametrize(
    ("ms", "text"), [(0, "0 ms"), (999, "999 ms"), (2000, "2 s"), (2340, "2.3 s"), (60000, "60 s")]
)
def test_durations(ms: int, text: str) -> None:
    assert duration(ms) == text


def test_names() -> None:
    assert [names(each) for each in (["ada"], ["ada", "bob"], ["ada", "bob", "cathy"])] == [
        "ada",
        "ada and bob",
        "ada, bob and cathy",
    ]


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ("Done?", "Done?"),
        ("a\x1b[2Jb\nc\td", "a�[2Jb�c d"),
        ({"say": ["Done?"]}, '{"say":["Done?"]}'),
        (b"\x00\x01", '"AAE="'),
        (datetime.date(2026, 1, 31), '"2026-01-31"'),
        (object, "<class 'object'>"),
        ("x" * 10_000, "x" * (TEXT_MAX - 1) + "…"),
    ],
)
def test_whatever_others_send_is_one_harmless_line(body: Any, text: str) -> None:
    assert body_text(body) == text


def test_a_name_moves_no_cursor_either() -> None:
    assert text_of(said("a\x1bb", "hi")) == "a�b: hi"
    assert text_of(told("a\rb", "you", "hi")) == "a�b → you: hi"
