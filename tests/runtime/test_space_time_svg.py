"""The picture's structure: what is drawn, how often, and from where to where."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from xml.etree import ElementTree

import pytest

from octoloom.core.errors import UsageError
from octoloom.core.steps import BUFFERED, DELIVERED, FORWARDED, ORDERED, RECEIVED, SENT, VIEW, Step
from octoloom.runtime.space_time import Kind, SpaceTime, space_time
from octoloom.runtime.space_time_svg import MEMBERS_MAX, svg
from tests.runtime.lunch import ADA, BOB, CATHY, lunch

Element = ElementTree.Element


def elements(diagram: SpaceTime, tag: str, kind: str = "") -> list[Element]:
    """All of this tag and class, without the legend."""
    root = ElementTree.fromstring(svg(diagram))
    for group in root.findall("{*}g") + root.findall("{*}defs"):
        group.clear()
    found = root.iter(f"{{http://www.w3.org/2000/svg}}{tag}")
    return [element for element in found if not kind or kind in element.get("class", "").split()]


def ends(arrow: Element) -> tuple[float, float, float, float]:
    x1, y1, x2, y2 = map(float, re.findall(r"[\d.]+", arrow.get("d", "")))
    return x1, y1, x2, y2


@pytest.mark.parametrize("every_step", [False, True])
@pytest.mark.parametrize("order", ["causal", "none"])
def test_one_line_for_each_member_and_one_arrow_for_each_delivery(order: str, every_step: bool) -> None:
    diagram = space_time(lunch(order), every_step=every_step)
    deliveries = sum(mark.kind is Kind.DELIVERED for mark in diagram.marks)
    assert len(elements(diagram, "line", "lifeline")) == 3
    assert len(elements(diagram, "path", "message")) == deliveries == 10
    assert len(elements(diagram, "rect", "view")) == 1
    assert len(elements(diagram, "circle", "point")) == len(diagram.marks) - 1


def test_arrows_lead_from_the_lifeline_of_the_sender_downward_to_that_of_the_receiver() -> None:
    diagram = space_time(lunch("causal"))
    x = [float(line.get("x1", "")) for line in elements(diagram, "line", "lifeline")]
    sent = [(float(point.get("cx", "")), float(point.get("cy", ""))) for point in elements(diagram, "circle", "sent")]
    ways = Counter[tuple[int, int]]()
    for arrow in elements(diagram, "path", "message"):
        x1, y1, x2, y2 = ends(arrow)
        assert (x1, y1) in sent
        assert y1 < y2
        ways[x.index(x1), min(range(3), key=lambda place: abs(x[place] - x2))] += 1
    assert ways == {(0, 1): 2, (0, 2): 2, (1, 0): 2, (1, 2): 2, (2, 0): 1, (2, 1): 1}


def test_the_time_that_a_message_is_held_is_a_line_from_its_arrival_to_its_delivery() -> None:
    diagram = space_time(lunch("causal"))
    [held] = elements(diagram, "line", "held")
    points = {point.get("cy") for point in elements(diagram, "circle") if point.get("cx") == held.get("x1")}
    assert {held.get("y1"), held.get("y2")} <= points
    [arrival] = elements(diagram, "circle", "held")
    assert arrival.get("cy") == held.get("y1")
    assert elements(space_time(lunch("none")), "line", "held") == []


def test_messages_that_are_held_together_stand_beside_each_other_and_to_the_end_if_nothing_comes() -> None:
    steps = [Step(BUFFERED, BOB, ADA, number, waits_for=(ADA, number - 1)) for number in range(2, 9)]
    diagram = space_time(steps)
    held = elements(diagram, "line", "held")
    [lifeline, *_] = [line for line in elements(diagram, "line", "lifeline") if line.get("x1") == held[0].get("x1")]
    assert len(held) == 7
    assert len({line.get("x1") for line in held}) == 4
    assert {line.get("y2") for line in held} == {lifeline.get("y2")}


def test_colours_tell_concurrent_and_early_messages() -> None:
    assert len(elements(space_time(lunch("causal")), "path", "concurrent")) == 3
    assert len(elements(space_time(lunch("causal")), "path", "early")) == 0
    assert len(elements(space_time(lunch("none")), "path", "early")) == 1
    # Where a message arrives and where it is delivered are two marks; the arrow has the colour of the second.
    steps = [
        Step(SENT, ADA, ADA, 1, {ADA: 1, CATHY: 1}),
        Step(RECEIVED, BOB, ADA, 1),
        Step(DELIVERED, BOB, ADA, 1, {ADA: 1, CATHY: 0}),
    ]
    assert len(elements(space_time(steps, every_step=True), "path", "early")) == 1


def test_an_arrow_whose_beginning_is_not_drawn_is_short() -> None:
    diagram = space_time(lunch("causal"), last=4)
    assert len(elements(diagram, "path", "cut")) == 4
    assert all(abs(x2 - x1) < 50 for x1, _, x2, _ in map(ends, elements(diagram, "path", "cut")))
    assert "13 earlier marks are left out" in svg(diagram)


def test_a_lifeline_lasts_as_long_as_its_member() -> None:
    steps = [
        Step(VIEW, ADA, members=[ADA, BOB], epoch=1),
        Step(SENT, ADA, ADA, 1),
        Step(VIEW, ADA, members=[ADA, CATHY], epoch=2),
        Step(FORWARDED, CATHY, CATHY, 1),
        Step(ORDERED, ADA, CATHY, 1),
        Step(DELIVERED, CATHY, CATHY, 1),
    ]
    diagram = space_time(steps)
    first, second = [float(bar.get("y", "")) + 12 for bar in elements(diagram, "rect", "view")]
    spans = [(float(line.get("y1", "")), float(line.get("y2", ""))) for line in elements(diagram, "line", "lifeline")]
    end = spans[0][1]
    assert spans == [(first, end), (first, second), (second, end)]
    assert end > second
    assert len(elements(diagram, "path", "ordered")) == 1


def test_texts_of_others_are_only_text() -> None:
    steps = [Step(SENT, "<b>&#1", "<b>&#1", 1, text='</text><script>alert("x")</script>\x00\ud800')]
    diagram = space_time(steps)
    assert elements(diagram, "script") == []
    assert any("<b>&" in (name.text or "") for name in elements(diagram, "text", "name"))


def test_the_picture_needs_nothing_but_itself() -> None:
    text = svg(space_time(lunch("causal"), every_step=True), "lunch")
    assert re.findall(r"https?://[^\"]+", text) == ["http://www.w3.org/2000/svg"]
    assert re.findall(r"@import|url\((?!#)|<image|<script|href", text) == []
    assert "prefers-color-scheme: dark" in text
    assert '<title id="title">lunch</title>' in text


def test_everything_stands_on_the_page() -> None:
    diagram = space_time(lunch("causal"), every_step=True)
    root = ElementTree.fromstring(svg(diagram))
    width, height = float(root.get("width", "")), float(root.get("height", ""))
    for element in root.iter():
        for name, limit in (("x", width), ("x1", width), ("cx", width), ("y", height), ("y2", height), ("cy", height)):
            assert -5 <= float(element.get(name, "0")) <= limit


def test_the_legend_tells_of_what_is_there() -> None:
    assert "came too early" in svg(space_time(lunch("causal")))
    assert "came too early" not in svg(space_time(lunch("none")))
    assert "before its cause" in svg(space_time(lunch("none")))


def test_too_many_members() -> None:
    steps = [Step(VIEW, "m0", members=[f"m{number}" for number in range(MEMBERS_MAX + 1)], epoch=1)]
    with pytest.raises(UsageError, match="65 members are too many for a picture: name some with --members"):
        svg(space_time(steps))
    assert len(elements(space_time(steps, members=["m1", "m2"]), "line", "lifeline")) == 2


def test_the_picture_of_the_docs_is_what_is_drawn() -> None:
    page = Path(__file__).parents[2] / "docs" / "lunch.svg"
    assert page.read_text(encoding="utf-8") == svg(space_time(lunch("causal")), "The slides' lunch in causal order")
