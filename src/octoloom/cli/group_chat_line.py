"""The line that somebody types in a terminal, key by key.

The terminal would keep a line itself until Enter, but nobody can ask it what is in there: a message that arrives
meanwhile would tear it. So the chat keeps it, and can draw it again below whatever was printed. This is only the line:
keys in, finished lines out; who owns the terminal draws it.
"""

from __future__ import annotations

import codecs
from collections import deque

from rich.cells import cell_len

LINE_MAX = 2000
"""Characters of a line; more are not taken."""
HISTORY_MAX = 100
ESCAPE_MAX = 16
"""A sequence of the terminal that is longer is none."""

_ESCAPE, _END_OF_INPUT = "\x1b", "\x04"
_KEYS = {
    "[A": "up", "OA": "up", "\x10": "up",
    "[B": "down", "OB": "down", "\x0e": "down",
    "[C": "right", "OC": "right", "\x06": "right",
    "[D": "left", "OD": "left", "\x02": "left",
    "[H": "home", "OH": "home", "[1~": "home", "\x01": "home",
    "[F": "end", "OF": "end", "[4~": "end", "\x05": "end",
    "[3~": "delete",
    "\x7f": "backspace", "\x08": "backspace",
    "\x17": "no word", "\x15": "no line", "\x0b": "no rest",
}  # fmt: skip
"""What terminals send for a key, without the escape in front, and the control keys of a shell."""


class TypedLine:
    def __init__(self) -> None:
        self.text = ""
        self.cursor = 0
        self.ended = False
        """Ctrl-D on an empty line: there is nothing more to come."""
        self._history: deque[str] = deque(maxlen=HISTORY_MAX)
        self._back = 0
        """How many lines back in the history; 0 is the one that is new."""
        self._draft = ""
        self._escape: str | None = None
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def feed(self, data: bytes) -> list[str]:
        """Takes what the keyboard sent, perhaps many keys, perhaps half of one; answers the lines it finished."""
        lines: list[str] = []
        for key in self._decoder.decode(data):
            if self._escape is not None:
                self._go_on_escaping(key)
            elif key in "\r\n":
                lines.append(self._finish())
            elif key == _ESCAPE:
                self._escape = ""
            elif key == _END_OF_INPUT:
                self.ended = self.ended or not self.text
                self._do("delete")
            elif key in _KEYS:
                self._do(_KEYS[key])
            elif key == "\t":
                self._insert(" ")
            elif key.isprintable():
                self._insert(key)
        return lines

    def shown(self, width: int) -> tuple[str, int]:
        """The part around the cursor that fits into so many columns, and the cursor's column in it."""
        start = 0
        while cell_len(self.text[start : self.cursor]) > max(width - 1, 0):
            start += 1
        end = len(self.text)
        while end > self.cursor and cell_len(self.text[start:end]) > width:
            end -= 1
        return self.text[start:end], cell_len(self.text[start : self.cursor])

    def _go_on_escaping(self, key: str) -> None:
        """A sequence is `[` or `O` and what follows, up to a letter or a tilde; or one key alone, with Alt."""
        assert self._escape is not None
        self._escape += key
        is_open = self._escape in ("[", "O") or not (key.isalpha() or key == "~")
        if self._escape[0] in "[O" and is_open and len(self._escape) < ESCAPE_MAX:
            return
        sequence, self._escape = self._escape, None
        if sequence in _KEYS:
            self._do(_KEYS[sequence])

    def _insert(self, key: str) -> None:
        if len(self.text) < LINE_MAX:
            self.text = self.text[: self.cursor] + key + self.text[self.cursor :]
            self.cursor += 1

    def _finish(self) -> str:
        line = self.text
        if line.strip() and (not self._history or self._history[-1] != line):
            self._history.append(line)
        self._replace("")
        self._back, self._draft = 0, ""
        return line

    def _do(self, what: str) -> None:
        before, behind = self.text[: self.cursor], self.text[self.cursor :]
        match what:
            case "left" | "right":
                self.cursor = max(self.cursor - 1, 0) if what == "left" else min(self.cursor + 1, len(self.text))
            case "home" | "end":
                self.cursor = 0 if what == "home" else len(self.text)
            case "up" | "down":
                self._leaf(1 if what == "up" else -1)
            case "delete":
                self.text = before + behind[1:]
            case "no rest":
                self.text = before
            case "backspace":
                self._keep(before[:-1], behind)
            case "no word":
                self._keep(before.rstrip().rpartition(" ")[0] + " " if " " in before.rstrip() else "", behind)
            case "no line":
                self._keep("", behind)

    def _keep(self, before: str, behind: str) -> None:
        self.text, self.cursor = before + behind, len(before)

    def _replace(self, text: str) -> None:
        self._keep(text, "")

    def _leaf(self, by: int) -> None:
        if not 0 <= self._back + by <= len(self._history):
            return
        if not self._back:
            self._draft = self.text
        self._back += by
        self._replace(self._history[-self._back] if self._back else self._draft)
