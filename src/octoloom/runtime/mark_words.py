"""The words and signs that stand at a mark of a space-time diagram, the same in text and in a picture."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from octoloom.runtime.space_time import Kind, Mark, Range, SpaceTime, readable

VECTOR_MAX = 8
"""Vectors of more members show only the counts above zero."""

SIGNS = {
    Kind.SENT: "●",
    Kind.HELD: "○",
    Kind.DELIVERED: "▶",
    Kind.FORWARDED: "◇",
    Kind.ORDERED: "◆",
    Kind.COUNTED: "+",
    Kind.RECEIVED: "▷",
    Kind.CONCURRENT: "‖",
    Kind.RELEASED: "◌",
}
OTHER_SIGN = "∙"

STYLES = {
    Kind.SENT: "sent",
    Kind.HELD: "held",
    Kind.DELIVERED: "delivered",
    Kind.FORWARDED: "sent",
    Kind.ORDERED: "ordered",
    Kind.CONCURRENT: "concurrent",
    Kind.RELEASED: "held",
}

DOINGS = {
    Kind.FORWARDED: "to the coordinator",
    Kind.ORDERED: "ordered",
    Kind.COUNTED: "counted",
    Kind.RECEIVED: "arrives",
    Kind.RELEASED: "leaves the buffer",
    Kind.CREATED: "vector created",
    Kind.REMOVED: "removed",
    Kind.ADDED: "added",
}

QUOTING = (Kind.SENT, Kind.FORWARDED, Kind.ORDERED, Kind.DELIVERED, Kind.HELD)
UNCHANGED = (Kind.HELD, Kind.RECEIVED, Kind.RELEASED)
"""Kinds of marks after which the vector is what it was."""

LEGEND = {
    Kind.SENT: "sent",
    Kind.DELIVERED: "delivered",
    Kind.HELD: "came too early, is held back",
    Kind.FORWARDED: "sent to the coordinator",
    Kind.ORDERED: "ordered by the coordinator",
    Kind.COUNTED: "counted",
    Kind.RECEIVED: "arrived",
    Kind.CONCURRENT: "concurrent",
    Kind.RELEASED: "leaves the buffer",
}


@dataclass(frozen=True, slots=True)
class Words:
    """`notes` are (text, style)."""

    head: str
    text: str
    notes: list[tuple[str, str]]
    vector: str


def sign_of(mark: Mark) -> str:
    return SIGNS.get(mark.kind, OTHER_SIGN)


def style_of(mark: Mark) -> str:
    if mark.kind is Kind.DELIVERED and mark.overtakes is not None:
        return "early"
    if mark.kind is Kind.DELIVERED and mark.concurrent is not None:
        return "concurrent"
    return STYLES.get(mark.kind, "")


def words_of(diagram: SpaceTime, mark: Mark) -> Words:
    step = mark.step
    head = diagram.name(mark.message) if step.number else diagram.names.get(step.sender, "")
    quoted = [f'"{mark.text}"'] if mark.text and mark.kind in QUOTING else []
    doing = [DOINGS[mark.kind]] if mark.kind in DOINGS else []
    vector = "" if mark.kind in UNCHANGED else vector_text(diagram, mark)
    return Words(head, " ".join(quoted + doing), _notes(diagram, mark), vector)


def _notes(diagram: SpaceTime, mark: Mark) -> list[tuple[str, str]]:
    notes: list[tuple[str, str]] = []
    if mark.kind is Kind.OTHER:
        notes.append((readable(mark.step.name), ""))
    if mark.kind is Kind.PATH:
        notes.append((readable(mark.step.text), ""))
    if mark.kind is Kind.HELD:
        lacks = mark.step.waits_for
        notes.append((f"waits for {diagram.name(lacks)}" if lacks else "waits", "held"))
    if mark.held_ms is not None:
        notes.append((f"held {duration(mark.held_ms)}" if mark.step.at_ms else "was held", "held"))
    if mark.concurrent is not None:
        notes.append((concurrent_text(diagram, mark.concurrent), "concurrent"))
    if mark.overtakes is not None:
        notes.append((f"before its cause {diagram.name(mark.overtakes)}!", "early"))
    return notes


def concurrent_text(diagram: SpaceTime, ranges: Sequence[Range]) -> str:
    """‖ bob:2, cathy:4-6"""
    texts = [diagram.name((member, first)) + (f"-{last}" if last > first else "") for member, first, last in ranges[:3]]
    return "‖ " + (", ".join(texts) + (" …" if len(ranges) > 3 else "") if texts else "concurrent")


def duration(ms: int) -> str:
    return f"{ms} ms" if ms < 1000 else f"{ms / 1000:.1f} s"


def vector_text(diagram: SpaceTime, mark: Mark) -> str:
    vector = mark.step.vector
    if len(vector) <= VECTOR_MAX:
        return f"({','.join(map(str, vector.values()))})" if vector else ""
    return f"({' '.join(diagram.name(entry) for entry in vector.items() if entry[1])})"


def view_text(diagram: SpaceTime, mark: Mark, before: Sequence[str] | None) -> str:
    """`before` are the members of the view before, if there was one."""
    step = mark.step
    called = [diagram.names.get(member, member) for member in step.members]
    text = f"view {step.epoch}" + (f", {readable(step.text)}" if step.text else "")
    text += f": {', '.join(called)}" if called else ""
    if before is not None:
        parts = [f"+ {diagram.names.get(member, member)}" for member in step.members if member not in before]
        parts += [f"− {diagram.names.get(member, member)}" for member in before if member not in step.members]
        text += f"  ({', '.join(parts)})" if parts and called else ""
    return text
