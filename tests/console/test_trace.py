"""A group's steps, from records to a picture."""

from __future__ import annotations

from xml.dom import minidom

import msgspec
import pytest

from octoloom.console.trace import NoSteps, draw
from octoloom.core import steps as names
from octoloom.core.steps import Step
from octoloom.wire.kafka.records import Record

EVIL = "<script>alert(1)</script>&\"'"


def records(*steps: Step) -> list[Record]:
    return [Record(at, step.at_ms, b"", msgspec.json.encode(step)) for at, step in enumerate(steps)]


def lunch(text: str = "Lunch?") -> list[Record]:
    members = ["ada#1", "bob#1"]
    return records(
        Step(names.VIEW, "ada#1", members=members, epoch=1, at_ms=1),
        Step(names.VIEW, "bob#1", members=members, epoch=1, at_ms=1),
        Step(names.SENT, "ada#1", "ada#1", 1, {"ada#1": 1, "bob#1": 0}, epoch=1, at_ms=2, text=text),
        Step(names.DELIVERED, "bob#1", "ada#1", 1, {"ada#1": 1, "bob#1": 0}, epoch=1, at_ms=3, text=text),
    )


def test_steps_become_a_picture() -> None:
    picture = draw(lunch(), "lunch", 40)
    assert picture.startswith("<svg")
    assert "Lunch?" in picture


def test_texts_and_names_cannot_leave_their_place_in_the_picture() -> None:
    evil = [*lunch(EVIL), *records(Step(names.SENT, f"{EVIL}#1", f"{EVIL}#1", 1, {f"{EVIL}#1": 1}, at_ms=4, text="x"))]
    document = minidom.parseString(draw(evil, EVIL, 40))
    tags = {node.tagName for node in document.getElementsByTagName("*")}
    assert "script" not in tags
    assert tags <= {"svg", "title", "style", "defs", "marker", "path", "rect", "line", "circle", "text", "tspan", "g"}
    attributes = {name for node in document.getElementsByTagName("*") for name, _ in node.attributes.items()}
    assert not [name for name in attributes if name.startswith("on") or "href" in name]


def test_what_is_no_step_is_passed_over() -> None:
    junk = [
        Record(0, 0, None, value)
        for value in (None, b"", b"{", b"\xff", b"{}", b'{"name":"","member":""}', b"[" * 9999)
    ]
    assert "Lunch?" in draw([*junk, *lunch()], "lunch", 40)
    with pytest.raises(NoSteps, match="no member of lunch"):
        draw(junk, "lunch", 40)
