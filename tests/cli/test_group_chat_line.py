"""Keys in, lines out."""

from __future__ import annotations

import pytest

from octoloom.cli.group_chat_line import HISTORY_MAX, LINE_MAX, TypedLine

UP, DOWN, RIGHT, LEFT, HOME, END, DELETE = (f"\x1b{keys}" for keys in ("[A", "[B", "[C", "[D", "[H", "[F", "[3~"))
BACKSPACE, NO_WORD, NO_LINE, NO_REST, CTRL_D = "\x7f", "\x17", "\x15", "\x0b", "\x04"


def typed(keys: str) -> TypedLine:
    line = TypedLine()
    line.feed(keys.encode())
    return line


@pytest.mark.parametrize(
    ("keys", "text"),
    [
        ("Lunch?", "Lunch?|"),
        (f"Lunhc{BACKSPACE * 2}ch?", "Lunch?|"),
        (f"unch{HOME}L", "L|unch"),
        (f"Lnch{LEFT * 3}u{END}?", "Lunch?|"),
        (f"{LEFT}a{RIGHT * 3}b", "ab|"),
        (f"Lxunch{HOME}{RIGHT}{DELETE}", "L|unch"),
        (f"Lxunch{HOME}{RIGHT}{CTRL_D}", "L|unch"),
        (f"one two  three{NO_WORD}", "one two  |"),
        (f"one two  {NO_WORD}", "one |"),
        (f"one{NO_WORD}{NO_WORD}", "|"),
        (f"one two{LEFT}{NO_LINE}", "|o"),
        (f"one two{LEFT * 3}{NO_REST}", "one |"),
        (f"{BACKSPACE}{DELETE}{UP}{DOWN}a", "a|"),
        ("tab\there", "tab here|"),
        ("a\x07\x00b", "ab|"),
        ("a\x1b[200~b\x1b[15;5~c\x1bxd", "abcd|"),
        ("Grüße 🍜", "Grüße 🍜|"),
    ],
)
def test_a_line_is_edited(keys: str, text: str) -> None:
    line = typed(keys)
    assert f"{line.text[: line.cursor]}|{line.text[line.cursor :]}" == text
    assert not line.ended
    byte_by_byte = TypedLine()
    for each in keys.encode():
        byte_by_byte.feed(bytes([each]))
    assert (byte_by_byte.text, byte_by_byte.cursor) == (line.text, line.cursor)


def test_many_lines_may_come_at_once() -> None:
    line = TypedLine()
    assert line.feed(b"one\rtwo\n\nthr") == ["one", "two", ""]
    assert line.text == "thr"


def test_the_end_is_ctrl_d_on_an_empty_line() -> None:
    assert typed(f"x{BACKSPACE}{CTRL_D}").ended
    assert not typed(f"x{CTRL_D}").ended


def test_earlier_lines_come_back_and_the_new_one_is_kept() -> None:
    line = typed("one\rtwo\rtwo\r \rthr")
    seen = []
    for key in (UP, UP, UP, DOWN, DOWN, DOWN):
        line.feed(key.encode())
        seen.append(line.text)
    assert seen == ["two", "one", "one", "two", "thr", "thr"]
    line.feed(f"{UP}{UP}!\r{UP}".encode())
    assert line.text == "one!"


def test_everything_is_bounded() -> None:
    line = typed("x" * (LINE_MAX + 5))
    assert len(line.text) == LINE_MAX
    assert line.feed(b"".join(b"%d\r" % number for number in range(HISTORY_MAX + 5)))[-1] == str(HISTORY_MAX + 4)
    line.feed((UP * (HISTORY_MAX + 5)).encode())
    assert line.text == "5"
    line.feed(b"\x1b[" + b"1" * 100)
    line.feed(b"x")
    assert line.text.endswith("x")


def test_a_window_follows_the_cursor() -> None:
    line = typed("0123456789")
    assert line.shown(20) == ("0123456789", 10)
    assert line.shown(5) == ("6789", 4)
    line.feed((LEFT * 6).encode())
    assert line.shown(5) == ("01234", 4)
    line.feed(HOME.encode())
    assert line.shown(5) == ("01234", 0)


def test_wide_letters_take_two_columns() -> None:
    assert typed("麺麺麺").shown(5) == ("麺麺", 4)
    assert typed("麺麺麺").shown(80) == ("麺麺麺", 6)
