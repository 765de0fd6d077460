"""A space-time diagram as text: a column for each member, time downward.

Few members have wide columns, with the words beside each mark. Many have narrow ones, with the words at the right. A
dotted line leads from the lifeline of who sent a message to where it arrives. While a member holds messages back its
lifeline is thick.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from octoloom.core.errors import UsageError
from octoloom.runtime.mark_words import LEGEND, SIGNS, VECTOR_MAX, Words, sign_of, style_of, view_text, words_of
from octoloom.runtime.space_time import Key, Kind, Mark, SpaceTime
from octoloom.runtime.text_rows import Row, clip, width_of

WIDTH_MIN = 60
WIDE_MIN, WIDE_MAX = 24, 48
"""How wide a column with words is."""
NARROW_MIN, NARROW_MAX = 2, 6
"""How wide a column without words is."""
WORDS_MIN = 36
"""How wide the words at the right of narrow columns are."""
TIME_WIDTH = 10
NAME_MAX = 14
"""Longer names are cut in the diagram; a legend has them whole."""
BEGINNINGS = (Kind.COUNTED, Kind.SENT, Kind.FORWARDED)
"""A story begins: there is some space before these."""
HEADER_EVERY = 60
"""After how many rows the names stand again."""


def text_rows(diagram: SpaceTime, width: int = 100) -> list[Row]:
    """The diagram in so many columns."""
    return _Page(diagram, max(width, WIDTH_MIN)).rows()


class _Page:
    def __init__(self, diagram: SpaceTime, width: int) -> None:
        self._whole = diagram.names
        self._width = width
        self._left = TIME_WIDTH if diagram.is_timed else 1
        count = max(len(diagram.members), 1)
        space = width - self._left
        self._is_wide = space // count >= WIDE_MIN
        if self._is_wide:
            self._column = min(space // count, WIDE_MAX)
        else:
            self._column = min((space - WORDS_MIN) // count, NARROW_MAX)
        if self._column < NARROW_MIN:
            text = f"{count} members do not fit into {width} columns"
            raise UsageError(f"{text}: name some of them with --members, or draw a picture with --svg")
        name_max = NAME_MAX if self._is_wide else self._column - 1
        self._diagram = replace(diagram, names=_short_names(diagram, name_max))
        self._places = {member: self._left + self._column * k for k, member in enumerate(diagram.members)}
        self._held: dict[str, list[Key]] = {member: [] for member in diagram.members}
        self._alive = self._first_alive()
        self._view: Sequence[str] | None = None
        self._rows: list[Row] = []
        self._header_at = 0

    def rows(self) -> list[Row]:
        marks = self._diagram.marks
        if self._diagram.left_out:
            self._note(f"… {self._diagram.left_out:,} earlier marks are left out (--last shows more)")
        self._header()
        last: Mark | None = None
        for mark in marks:
            if len(self._rows) - self._header_at > HEADER_EVERY:
                self._header()
            if mark.kind is Kind.VIEW:
                self._draw_view(mark)
            else:
                if mark.kind in BEGINNINGS and last is not None and last.kind not in BEGINNINGS:
                    self._row()
                self._draw(mark)
            last = mark
        self._row()
        self._legend()
        return self._rows

    # Lifelines.

    def _first_alive(self) -> set[str]:
        """Who is there before the first view of the diagram: nobody can know, unless the trace begins with one."""
        marks = self._diagram.marks
        if marks and marks[0].kind is Kind.VIEW and not self._diagram.left_out:
            return set()
        return set(self._diagram.members)

    def _row(self) -> Row:
        row = Row(self._width)
        for member, place in self._places.items():
            if member in self._alive:
                row.put(place, "┃" if self._held[member] else "│", "held" if self._held[member] else "line")
        self._rows.append(row)
        return row

    def _note(self, text: str) -> None:
        row = Row(self._width)
        row.put(1, clip(text, self._width - 1), "note")
        self._rows.append(row)

    def _header(self) -> None:
        self._header_at = len(self._rows)
        row = Row(self._width)
        if self._diagram.is_timed:
            row.put(self._left - 5, "s", "note")
        for member, place in self._places.items():
            row.put(place, self._diagram.names[member], "name")
        self._rows.append(row)

    # Marks.

    def _draw_view(self, mark: Mark) -> None:
        row = self._row()
        members = mark.step.members
        self._alive = set(members) or self._alive
        for member in self._places:
            if member not in self._alive:
                self._held[member].clear()
        row.put(self._left, "═" * (self._width - self._left), "view")
        for member, place in self._places.items():
            if member in self._alive:
                row.put(place, "╪", "view")
        self._put_time(row, mark)
        text = view_text(self._diagram, mark, self._view)
        row.put(self._left + 3, f" {clip(text, self._width - self._left - 6)} ", "view")
        self._view = members

    def _draw(self, mark: Mark) -> None:
        self._alive.add(mark.member)
        self._hold(mark)
        row, place = self._row(), self._places[mark.member]
        self._put_time(row, mark)
        words = words_of(self._diagram, mark)
        comes_from_right = self._places.get(mark.source, -1) > place
        if self._is_wide:
            end = self._put_words(row, place, words, mark)
        else:
            self._put_words_at_right(row, words, mark)
            end = place + 1
        self._put_flight(row, mark, place, end)
        sign = {"▶": "◀", "▷": "◁"}.get(sign_of(mark), sign_of(mark)) if comes_from_right else sign_of(mark)
        row.put(place, sign, style_of(mark))

    def _hold(self, mark: Mark) -> None:
        held = self._held[mark.member]
        if mark.kind is Kind.HELD and mark.key not in held:
            held.append(mark.key)
        elif mark.kind is Kind.DELIVERED and mark.key in held:
            held.remove(mark.key)

    def _put_time(self, row: Row, mark: Mark) -> None:
        if self._diagram.is_timed:
            since_s = (mark.step.at_ms - self._diagram.begin_ms) / 1000
            row.put(0, f"{since_s:{TIME_WIDTH - 2}.3f}"[: TIME_WIDTH - 2], "time")

    def _put_words(self, row: Row, place: int, words: Words, mark: Mark) -> int:
        """Beside the mark, in as many rows as it takes; answers where the first one ends."""
        room = self._column - 3
        text = clip(words.text, max(room - width_of(words.head) - 1, 8))
        parts = [(words.head, style_of(mark)), (text, ""), (words.vector, "vector"), *words.notes]
        column, end = place + 2, 0
        for part, style in parts:
            if not part:
                continue
            if column > place + 2 and column + width_of(part) > place + 2 + room:
                end = end or column
                row, column = self._row(), place + 4
            column = row.put(column, clip(part, place + 2 + room - column), style) + 1
        return end or column

    def _put_words_at_right(self, row: Row, words: Words, mark: Mark) -> None:
        column = self._left + self._column * len(self._places) + 1
        room = self._width - column
        others = sum(width_of(part) + 1 for part, _ in [*words.notes, (words.vector, "")] if part)
        text = clip(words.text, max(room - width_of(words.head) - 1 - others, 10))
        for part, style in [(words.head, style_of(mark)), (text, ""), *words.notes, (words.vector, "vector")]:
            if part and column < self._width:
                column = row.put(column, clip(part, self._width - column), style) + 1

    def _put_flight(self, row: Row, mark: Mark, place: int, end: int) -> None:
        if not mark.source:
            return
        source = self._places.get(mark.source)
        if source is None:  # its lifeline is not drawn
            begin, stop = max(place - 2, self._left), place
        elif source < place:
            begin, stop = source + 1, place
            row.put(source, "├", "flight")
        else:
            begin, stop = end, source
            row.put(source, "┤", "flight")
        row.fill(begin, stop, "┄", "flight")

    # What the signs mean.

    def _legend(self) -> None:
        kinds = {mark.kind for mark in self._diagram.marks}
        parts = [f"{SIGNS[kind]} {text}" for kind, text in LEGEND.items() if kind in kinds]
        parts = [part.replace("▶", "▶ ◀").replace("▷", "▷ ◁") for part in parts]
        if Kind.HELD in kinds:
            parts.append("┃ holds messages back")
        if Kind.CONCURRENT not in kinds and any(mark.concurrent is not None for mark in self._diagram.marks):
            parts.append("‖ concurrent with")
        vector = max((mark.step.vector for mark in self._diagram.marks), key=len, default={})
        if vector:
            users = ",".join(self._diagram.names[user] for user in vector) if len(vector) <= VECTOR_MAX else "A:3 B:1"
            parts.append(f"({users}) messages known of each")
        if self._diagram.is_timed:
            parts.append("times in seconds, by each member's own clock")
        self._wrapped(parts)
        short = self._diagram.names
        self._wrapped([f"{short[key]} = {name}" for key, name in self._whole.items() if short[key] != name])

    def _wrapped(self, parts: Sequence[str]) -> None:
        line = ""
        for part in parts:
            if line and 1 + width_of(line) + 3 + width_of(part) > self._width:
                self._note(line)
                line = ""
            line += ("   " if line else "") + part
        if line:
            self._note(line)


def _short_names(diagram: SpaceTime, width: int) -> dict[str, str]:
    """Names that fit into so many columns: as they are, or cut, or letters if that is not enough to tell them apart."""
    names = diagram.names
    if all(width_of(name) <= width for name in names.values()):
        return names
    cut = {member: clip(name, width) for member, name in names.items()}
    if width >= 5 and len(set(cut.values())) == len(cut):
        return cut
    return {member: _letters(number) for number, member in enumerate(names)}


def _letters(number: int) -> str:
    """A, B, … Z, AA, AB, …"""
    text = ""
    number += 1
    while number:
        number, rest = divmod(number - 1, 26)
        text = chr(ord("A") + rest) + text
    return text
