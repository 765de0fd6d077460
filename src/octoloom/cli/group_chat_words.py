"""How a chat puts things: who said what, what it had to wait for, how long. Lines are made of parts with a style."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from typing import Any

import msgspec

TEXT_MAX = 4000
"""Characters of a message that are shown; a program may send more."""

Part = tuple[str, str]
"""Text, and the style that a terminal shows it in."""

COLOURS = ("green", "cyan", "blue", "bright_green", "bright_cyan", "bright_blue")
NOTE, MINE, CONCURRENT, HELD = "dim", "bold", "magenta", "yellow"
MARK = "‖"

HELP = (
    "what you type goes to all",
    "/to NAME TEXT    says it to one alone, past any order",
    "/who             who is here, and in which order messages come",
    "/order ORDER     has all messages come in another order, for everybody: none, fifo, causal or total",
    "/delay NAME MS   has what you say to all reach this one so much later",
    "/quit            leaves; so do Ctrl-D and Ctrl-C",
    "//TEXT           says /TEXT",
    f"{MARK} marks a message that was written without having seen all that stands above it",
)
HINT = f"{MARK} means: written without having seen all of the above"


def plain(text: str) -> str:
    """Without what would move a cursor or change colours: others have written it."""
    return "".join(letter if letter.isprintable() else "�" for letter in text.replace("\t", " "))


def body_text(body: Any) -> str:
    """What a message says. Programs may send what is no text."""
    if not isinstance(body, str):
        try:
            body = msgspec.json.encode(body).decode()
        except (TypeError, ValueError, RecursionError):
            body = repr(body)
    text = plain(body)
    return text if len(text) <= TEXT_MAX else text[: TEXT_MAX - 1] + "…"


def duration(ms: int) -> str:
    if ms < 1000:
        return f"{ms} ms"
    return f"{ms / 1000:.1f}".removesuffix(".0") + " s"


def names(members: Sequence[str]) -> str:
    """ada, bob and cathy"""
    shown = [plain(name) for name in members]
    return " and ".join([", ".join(shown[:-1]), shown[-1]] if len(shown) > 1 else shown)


def order(name: str) -> str:
    return "messages come in no order" if name == "none" else f"messages come in {name} order"


def note(text: str) -> list[Part]:
    return [(f"* {text}", NOTE)]


def said(sender: str, text: str, is_mine: bool = False, is_concurrent: bool = False, held_ms: int = 0) -> list[Part]:
    """A message to all."""
    parts = [(plain(sender), MINE if is_mine else _colour(sender)), (": ", "")]
    if is_concurrent:
        parts.append((f"{MARK} ", CONCURRENT))
    parts.append((text, ""))
    if held_ms:
        parts.append((f"  (held back for {duration(held_ms)})", HELD))
    return parts


def told(sender: str, receiver: str, text: str) -> list[Part]:
    """A message to one."""
    return [(f"{plain(sender)} → {plain(receiver)}", "italic"), (f": {text}", "")]


def _colour(name: str) -> str:
    return COLOURS[zlib.crc32(name.encode()) % len(COLOURS)]
