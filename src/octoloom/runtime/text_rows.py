"""A row of text on a terminal: signs are put at columns, each with a style, and later ones cover earlier ones.

A column is not a character: East Asian signs take two, and accents none. Styles are words (`sent`, `held`); whoever
shows the row knows the colours.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator
from itertools import groupby


def cells(text: str) -> list[str]:
    """What stands in each column. The second of a wide sign's is empty."""
    if text.isascii():
        return list(text)
    found: list[str] = []
    for sign in text:
        if unicodedata.category(sign) in ("Mn", "Me", "Cf"):
            if found:
                found[-1] += sign
            continue
        found.append(sign)
        if unicodedata.east_asian_width(sign) in "WF":
            found.append("")
    return found


def width_of(text: str) -> int:
    return len(cells(text))


def clip(text: str, width: int) -> str:
    """The text, or so much of its beginning as fits before an ellipsis."""
    taken = cells(text)
    if len(taken) <= width:
        return text
    kept = taken[: max(width - 1, 0)]
    if kept and len(taken) > len(kept) and taken[len(kept)] == "":
        kept.pop()  # half of a wide sign
    return "".join(kept) + "…" if width > 0 else ""


class Row:
    def __init__(self, width: int) -> None:
        self._cells = [" "] * width
        self._styles = [""] * width

    def put(self, column: int, text: str, style: str = "") -> int:
        """Answers the column behind the text. What does not fit is cut off."""
        for sign in cells(text):
            if 0 <= column < len(self._cells):
                self._cells[column], self._styles[column] = sign, style
            column += 1
        return column

    def fill(self, begin: int, end: int, sign: str, style: str = "") -> None:
        """A line from one column up to another; it passes behind what stands there."""
        for column in range(max(begin, 0), min(end, len(self._cells))):
            if self._cells[column] == " ":
                self._cells[column], self._styles[column] = sign, style

    def spans(self) -> Iterator[tuple[str, str]]:
        """(text, style), without the blanks at the end."""
        end, column = len(str(self)), 0
        for style, signs in groupby(zip(self._cells, self._styles, strict=True), key=lambda cell: cell[1]):
            if column >= end:
                return
            text = "".join(sign for sign, _ in signs)
            yield text[: end - column], style
            column += len(text)

    def __str__(self) -> str:
        return "".join(self._cells).rstrip()
