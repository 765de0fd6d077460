"""A space-time diagram as a picture (SVG): a vertical lifeline for each member, time downward.

Arrows lead from where a message was sent to where it arrives. While it is held back there, the lifeline is thick and
dashed, until it is delivered. The picture needs nothing but itself: no fonts, no scripts, no other files. It follows
the reader's choice of a light or a dark page.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from xml.sax.saxutils import escape

from octoloom.core.errors import UsageError
from octoloom.runtime.mark_words import style_of, view_text, words_of
from octoloom.runtime.space_time import Key, Kind, Mark, SpaceTime
from octoloom.runtime.svg_style import LEGEND, STYLE, TIPS
from octoloom.runtime.text_rows import clip, width_of

MEMBERS_MAX = 64
LEFT, RIGHT, TOP, BOTTOM = 84, 24, 60, 44
WIDTH_MIN = 780
COLUMN, COLUMN_NARROW = 250, 190
COLUMNS_WIDE_MAX = 6
ROW, ROW_VIEW, NOTE = 34, 44, 14
LETTER = 7.3
"""About how wide a letter is."""
HELD_SHIFT, HELD_SLOTS = 8, 4
"""Messages that are held at the same time stand beside each other; from the fourth on they share a place."""
STUB = 44
"""How long an arrow is whose beginning is not drawn."""
RADIUS, RADIUS_SMALL = 5, 3
NAMES_AGAIN = 900
"""In a picture that is higher than this the names stand at its end too."""


def svg(diagram: SpaceTime, title: str = "Space-time diagram of a group") -> str:
    if len(diagram.members) > MEMBERS_MAX:
        raise UsageError(f"{len(diagram.members)} members are too many for a picture: name some with --members")
    return _Picture(diagram).text(title)


class _Picture:
    def __init__(self, diagram: SpaceTime) -> None:
        self._diagram = diagram
        self._column = COLUMN if len(diagram.members) <= COLUMNS_WIDE_MAX else COLUMN_NARROW
        self._x = {member: LEFT + 14 + self._column * place for place, member in enumerate(diagram.members)}
        self._y = _heights(diagram)
        self._begin = TOP - 22
        self._end = (self._y[-1] if self._y else TOP) + 40
        self._width = max(LEFT + self._column * len(diagram.members) + RIGHT, WIDTH_MIN)
        self._names_again = self._end > NAMES_AGAIN
        self._height = self._end + BOTTOM + (30 if self._names_again else 0)
        self._delivered: dict[tuple[str, Key], Mark] = {
            (mark.member, mark.key): mark for mark in diagram.marks if mark.kind is Kind.DELIVERED
        }

    def text(self, title: str) -> str:
        size = f'width="{self._width}" height="{self._height}" viewBox="0 0 {self._width} {self._height}"'
        lines = [
            f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" aria-labelledby="title">',
            f'<title id="title">{escape(title)}</title>',
            f"<style>{STYLE}</style>",
            f"<defs>{TIPS}</defs>",
            f'<rect class="page" width="{self._width}" height="{self._height}"/>',
            *self._lifelines(),
            *self._views(),
            *self._held(),
            *self._messages(),
            *self._points(),
            *self._words(),
            *self._names(),
            *self._legend(),
            "</svg>",
        ]
        return "\n".join(lines) + "\n"

    def _placed(self) -> Iterator[tuple[Mark, int]]:
        return zip(self._diagram.marks, self._y, strict=True)

    # Lifelines and views.

    def _lifelines(self) -> Iterator[str]:
        for member, x in self._x.items():
            begin, end = self._span(member)
            yield f'<line class="lifeline" x1="{x}" y1="{begin}" x2="{x}" y2="{end}"/>'

    def _span(self, member: str) -> tuple[int, int]:
        """From the first view that has the member to the one that has it no more, as far as the diagram knows."""
        marks = self._diagram.marks
        knows_all = bool(marks) and marks[0].kind is Kind.VIEW and not self._diagram.left_out
        begin, end = None if knows_all else self._begin, self._end
        for mark, y in self._placed():
            is_view = mark.kind is Kind.VIEW and bool(mark.step.members)
            if mark.member == member or (is_view and member in mark.step.members):
                begin, end = y if begin is None else begin, self._end
            elif is_view and begin is not None and end == self._end:
                end = y
        return (end if begin is None else begin), end

    def _views(self) -> Iterator[str]:
        before: Sequence[str] | None = None
        room = int((self._width - LEFT - RIGHT - 60) / LETTER)
        for mark, y in self._placed():
            if mark.kind is Kind.VIEW:
                text = escape(clip(view_text(self._diagram, mark, before), room))
                bar = f'x="{LEFT - 6}" y="{y - 12}" width="{self._width - LEFT - RIGHT + 12}" height="24" rx="5"'
                yield f'<rect class="view" {bar}/><text class="view-name" x="{LEFT + 26}" y="{y + 5}">{text}</text>'
                before = mark.step.members

    # Messages.

    def _held(self) -> Iterator[str]:
        held: dict[tuple[str, Key], tuple[int, int]] = {}
        for mark, y in self._placed():
            here = mark.member, mark.key
            if mark.kind is Kind.HELD and here not in held:
                taken = [slot for (member, _), (slot, _) in held.items() if member == mark.member]
                free = [slot for slot in range(HELD_SLOTS) if slot not in taken]
                held[here] = free[0] if free else HELD_SLOTS - 1, y
            elif mark.kind is Kind.DELIVERED and here in held:
                yield self._held_line(mark.member, *held.pop(here), y)
        for (member, _), (slot, y) in held.items():
            yield self._held_line(member, slot, y, self._span(member)[1])

    def _held_line(self, member: str, slot: int, begin: int, end: int) -> str:
        x = self._x[member] - HELD_SHIFT * slot
        return f'<line class="held" x1="{x}" y1="{begin}" x2="{x}" y2="{end}"/>'

    def _messages(self) -> Iterator[str]:
        for mark, y in self._placed():
            if not mark.source:
                continue
            x, kind = self._x[mark.member], self._message_kind(mark)
            source = self._x.get(mark.source, 0)
            if mark.origin is not None:
                yield _arrow(source, self._y[mark.origin], x, y, kind)
            else:
                yield _arrow(x - STUB if source < x else x + STUB, y - 14, x, y, f"{kind} cut")

    def _message_kind(self, mark: Mark) -> str:
        """The colour of a message is that of its delivery, wherever it arrives."""
        if mark.kind is not Kind.ORDERED:
            mark = self._delivered.get((mark.member, mark.key), mark)
        return style_of(mark) or "held"

    def _points(self) -> Iterator[str]:
        for mark, y in self._placed():
            if mark.kind is Kind.VIEW:
                continue
            style = style_of(mark)
            tip = escape(f"{words_of(self._diagram, mark).head} {mark.step.name} {mark.text}".strip())
            where = f'cx="{self._x[mark.member]}" cy="{y}" r="{RADIUS if style else RADIUS_SMALL}"'
            yield f'<circle class="point {style or "other"}" {where}><title>{tip}</title></circle>'

    # Words.

    def _words(self) -> Iterator[str]:
        room = int((self._column - 20) / LETTER)
        for mark, y in self._placed():
            if self._diagram.is_timed:
                since_s = (mark.step.at_ms - self._diagram.begin_ms) / 1000
                yield f'<text class="time" x="{LEFT - 18}" y="{y + 4}">{since_s:.3f}</text>'
            if mark.kind is Kind.VIEW:
                continue
            x, words = self._x[mark.member] + 12, words_of(self._diagram, mark)
            vector = clip(words.vector, room // 2)
            text = clip(words.text, max(room - width_of(words.head) - width_of(vector) - 2, 8))
            parts = [("head", words.head), ("", text), ("vector", vector)]
            line = y + self._shift(mark)
            yield f'<text class="words" x="{x}" y="{line}">{_spans(parts)}</text>'
            for place, (note, style) in enumerate(words.notes, start=1):
                shown = _spans([(style, clip(note, room))])
                yield f'<text class="note" x="{x}" y="{line + 1 + NOTE * place}">{shown}</text>'

    def _shift(self, mark: Mark) -> int:
        """Words give way to arrows: those that leave go down to the right, those from the right come from above."""
        if mark.kind in (Kind.SENT, Kind.FORWARDED, Kind.ORDERED):
            return -4
        return 12 if self._x.get(mark.source, 0) > self._x[mark.member] else 4

    def _names(self) -> Iterator[str]:
        for y in [self._begin - 8, *([self._end + 20] if self._names_again else [])]:
            for member, x in self._x.items():
                name = escape(clip(self._diagram.names[member], int((self._column - 16) / (LETTER * 1.25))))
                yield f'<text class="name" x="{x - 6}" y="{y}">{name}</text>'

    def _legend(self) -> Iterator[str]:
        styles = [style_of(mark) for mark in self._diagram.marks]
        x, y = LEFT - 4, self._height - 16
        for style, sample, words in LEGEND:
            if style in styles:
                text = f'<text class="legend" x="34">{escape(words)}</text>'
                yield f'<g class="sample" transform="translate({x} {y})">{sample}{text}</g>'
                x += 60 + int(width_of(words) * 6.2)
        if self._diagram.left_out:
            text = f"{self._diagram.left_out:,} earlier marks are left out"
            yield f'<text class="legend" x="{x}" y="{y}">{text}</text>'
        if self._diagram.is_timed:
            yield f'<text class="time" x="{LEFT - 18}" y="{self._begin - 8}">s</text>'


def _heights(diagram: SpaceTime) -> list[int]:
    """Where each mark stands: below the one before and its notes."""
    places: list[int] = []
    y = TOP
    for mark in diagram.marks:
        is_view = mark.kind is Kind.VIEW
        y += (ROW_VIEW - ROW) if is_view and places else 0
        places.append(y)
        y += ROW_VIEW if is_view else ROW + NOTE * len(words_of(diagram, mark).notes)
    return places


def _arrow(x1: int, y1: int, x2: int, y2: int, kind: str) -> str:
    """Ends where the point at its end begins."""
    length = math.hypot(x2 - x1, y2 - y1) or 1.0
    short = (RADIUS + 1) / length
    x, y = x2 - (x2 - x1) * short, y2 - (y2 - y1) * short
    tip = kind.partition(" ")[0]
    return f'<path class="message {kind}" d="M{x1} {y1}L{x:.1f} {y:.1f}" marker-end="url(#tip-{tip})"/>'


def _spans(parts: Sequence[tuple[str, str]]) -> str:
    shown = [(style, escape(text)) for style, text in parts if text]
    return " ".join(f'<tspan class="{style}">{text}</tspan>' if style else text for style, text in shown)
