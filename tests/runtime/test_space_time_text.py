"""The slides' lunch as people see it, and diagrams that are too wide, too long or too full."""

from __future__ import annotations

import random
from itertools import pairwise
from pathlib import Path

import pytest

from octoloom.core.errors import UsageError
from octoloom.core.steps import BUFFERED, DELIVERED, FORWARDED, ORDERED, SENT, VIEW, Step
from octoloom.runtime.space_time import space_time
from octoloom.runtime.space_time_text import text_rows
from octoloom.runtime.text_rows import width_of
from tests.runtime.lunch import ADA, BOB, Table, lunch

CAUSAL = """
     s    ada                           bob                           cathy
   0.000  ╪══ view 1, causal: ada, bob, cathy ════════════════════════╪═════════════════════════════
          │                             │                             │
   0.100  ● ada:1 "Done?" (1,0,0)       │                             │
   0.120  ├┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄▶ ada:1 "Done?" (1,0,0)       │
          │                             │                             │
   0.900  │                             ● bob:1 "Lunch?" (1,1,0)      │
   0.920  ◀ bob:1 "Lunch?" (1,1,0) ┄┄┄┄┄┤                             │
   0.930  │                             ├┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄○ bob:1 "Lunch?"
          │                             │                             ┃   waits for ada:1
   2.100  ├┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄│┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄▶ ada:1 "Done?" (1,0,0)
   2.100  │                             │                             ▶ bob:1 "Lunch?" (1,1,0)
          │                             │                             │   held 1.2 s
          │                             │                             │
   3.000  │                             │                             ● cathy:1 "Yes, No" (1,1,1)
   3.020  ◀ cathy:1 "Yes, No" (1,1,1) ┄┄│┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┤
   3.025  │                             ◀ cathy:1 "Yes, No" (1,1,1) ┄┄┤
          │                             │                             │
   4.000  ● ada:2 "Where?" (2,1,1)      │                             │
   4.001  │                             ● bob:2 "Now!" (1,2,1)        │
   4.020  ├┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄▶ ada:2 "Where?" (2,2,1)      │
          │                             │   ‖ bob:2                   │
   4.030  ◀ bob:2 "Now!" (2,2,1) ┄┄┄┄┄┄┄┤                             │
          │   ‖ ada:2                   │                             │
   4.040  │                             ├┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄▶ bob:2 "Now!" (1,2,1)
   4.050  ├┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄│┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄▶ ada:2 "Where?" (2,2,1)
          │                             │                             │   ‖ bob:2
          │                             │                             │
 ● sent   ▶ ◀ delivered   ○ came too early, is held back   ┃ holds messages back   ‖ concurrent with
 (ada,bob,cathy) messages known of each   times in seconds, by each member's own clock
"""

NONE = """
 … 4 earlier marks are left out (--last shows more)
     s    ada   bob   cathy
   0.920  ◀┄┄┄┄┄┤     │      bob:1 "Lunch?" (1,1,0)
   0.930  │     ├┄┄┄┄┄▶      bob:1 "Lunch?" before its cause ada:1! (0,1,0)
   2.100  ├┄┄┄┄┄│┄┄┄┄┄▶      ada:1 "Done?" (1,1,0)
          │     │     │
   3.000  │     │     ●      cathy:1 "Yes, No" (1,1,1)
   3.020  ◀┄┄┄┄┄│┄┄┄┄┄┤      cathy:1 "Yes, No" (1,1,1)
   3.025  │     ◀┄┄┄┄┄┤      cathy:1 "Yes, No" (1,1,1)
          │     │     │
   4.000  ●     │     │      ada:2 "Where?" (2,1,1)
   4.001  │     ●     │      bob:2 "Now!" (1,2,1)
   4.020  ├┄┄┄┄┄▶     │      ada:2 "Where?" (2,2,1)
   4.030  ◀┄┄┄┄┄┤     │      bob:2 "Now!" (2,2,1)
   4.040  │     ├┄┄┄┄┄▶      bob:2 "Now!" (1,2,1)
   4.050  ├┄┄┄┄┄│┄┄┄┄┄▶      ada:2 "Where?" (2,2,1)
          │     │     │
 ● sent   ▶ ◀ delivered   (ada,bob,cathy) messages known of each
 times in seconds, by each member's own clock
"""

EVERY = """
 … 9 earlier marks are left out (--last shows more)
     s    bob                                          cathy
   0.120  ▷ ada:1 arrives                              │
   0.120  ▶ ada:1 "Done?" (1,0,0)                      │
          │                                            │
   0.900  + bob:1 counted (1,1,0)                      │
   0.900  ● bob:1 "Lunch?" (1,1,0)                     │
   0.930  ├┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄▷ bob:1 arrives
   0.930  │                                            ○ bob:1 "Lunch?" waits for ada:1
   2.100  │                                          ┄┄▷ ada:1 arrives
   2.100  │                                            ▶ ada:1 "Done?" (1,0,0)
   2.100  │                                            ◌ bob:1 leaves the buffer
   2.100  │                                            ▶ bob:1 "Lunch?" (1,1,0) held 1.2 s
          │                                            │
   3.000  │                                            + cathy:1 counted (1,1,1)
   3.000  │                                            ● cathy:1 "Yes, No" (1,1,1)
   3.025  ◁ cathy:1 arrives ┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┤
   3.025  ▶ cathy:1 "Yes, No" (1,1,1)                  │
          │                                            │
   4.001  + bob:2 counted (1,2,1)                      │
   4.001  ● bob:2 "Now!" (1,2,1)                       │
   4.020  ▷ ada:2 arrives                              │
   4.020  ‖ ada:2 (2,2,1) ‖ bob:2                      │
   4.020  ▶ ada:2 "Where?" (2,2,1) ‖ bob:2             │
   4.040  ├┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄▷ bob:2 arrives
   4.040  │                                            ▶ bob:2 "Now!" (1,2,1)
   4.050  │                                          ┄┄▷ ada:2 arrives
   4.050  │                                            ‖ ada:2 (2,2,1) ‖ bob:2
   4.050  │                                            ▶ ada:2 "Where?" (2,2,1) ‖ bob:2
          │                                            │
 ● sent   ▶ ◀ delivered   ○ came too early, is held back   + counted   ▷ ◁ arrived   ‖ concurrent
 ◌ leaves the buffer   ┃ holds messages back   (ada,bob,cathy) messages known of each
 times in seconds, by each member's own clock
"""


def drawn(steps: list[Step], width: int = 100, members: list[str] | None = None, last: int = 500) -> str:
    return "\n".join(map(str, text_rows(space_time(steps, members or [], last=last), width)))


def test_lunch_in_causal_order() -> None:
    assert drawn(lunch("causal")) == CAUSAL.strip("\n")
    page = Path(__file__).parents[2] / "docs" / "traces.md"
    assert CAUSAL in page.read_text(encoding="utf-8")


def test_lunch_without_an_order_and_without_room() -> None:
    assert drawn(lunch("none"), 80, last=12) == NONE.strip("\n")


def test_every_step_of_two_members() -> None:
    diagram = space_time(lunch("causal"), ["bob", "cathy"], every_step=True, last=24)
    assert "\n".join(map(str, text_rows(diagram, 100))) == EVERY.strip("\n")


def test_a_lifeline_lasts_as_long_as_its_member() -> None:
    steps = [
        Step(VIEW, "ada#1", members=["ada#1", "bob#1"], epoch=4),
        Step(SENT, "bob#1", "bob#1", 1),
        Step(BUFFERED, "bob#1", "ada#1", 2, waits_for=("ada#1", 1)),
        Step(VIEW, "ada#1", members=["ada#1", "cy#1"], epoch=5),
        Step(FORWARDED, "cy#1", "cy#1", 1, text="hi"),
        Step(ORDERED, "ada#1", "cy#1", 1),
        Step(DELIVERED, "ada#1", "cy#1", 1),
        Step(DELIVERED, "cy#1", "cy#1", 1),
    ]
    assert drawn(steps, 72).splitlines()[:11] == [
        " ada   bob   cy",
        " ╪══ view 4: ada, bob ══════════════════════════════════════════════════",
        " │     │",
        " │     ●            bob:1",
        " ├┄┄┄┄┄○            ada:2 waits for ada:1",
        " ╪══ view 5: ada, cy  (+ cy, − bob) ════════════════════════════════════",
        " │           │",
        ' │           ◇      cy:1 "hi" to the coordinator',
        ' ◆┄┄┄┄┄┄┄┄┄┄┄┤      cy:1 "hi" ordered',
        ' ▶           │      cy:1 "hi"',
        ' ├┄┄┄┄┄┄┄┄┄┄┄▶      cy:1 "hi"',
    ]


def crowd(count: int, rounds: int = 2, name: str = "member-{}#1") -> list[Step]:
    """Everybody speaks, and all hear it in an order of their own."""
    members = tuple(name.format(number) for number in range(count))
    table, dice = Table("causal", members), random.Random(count)
    for number in range(1, rounds + 1):
        for member in members:
            table.says(member, "a word that goes on and on " * 3)
        ways = [(member, sender) for member in members for sender in members if member != sender]
        dice.shuffle(ways)
        for member, sender in ways:
            table.hears(member, sender, number)
    return table.steps


@pytest.mark.parametrize(("count", "width"), [(1, 60), (2, 80), (5, 120), (6, 80), (12, 100), (24, 120)])
def test_no_line_is_too_long_and_every_message_is_told(count: int, width: int) -> None:
    lines = drawn(crowd(count), width, last=5000).splitlines()
    assert max(map(width_of, lines)) <= width
    deliveries = [line for line in lines if "▶" in line or "◀" in line]
    assert len(deliveries) >= 2 * count * (count - 1)


def test_long_names_are_cut_or_become_letters_and_a_legend_has_them_whole() -> None:
    names = ["alexandra-of-hamburg#1", "bartholomew-of-bremen#1"]
    text = drawn([Step(SENT, names[0], names[0], 1), Step(DELIVERED, names[1], names[0], 1)], 80)
    assert text.splitlines()[0].split() == ["alexandra-of-…", "bartholomew-o…"]
    assert "alexandra-of-… = alexandra-of-hamburg" in text
    twins = ["alexandra-of-hamburg#1", "alexandra-of-bremen#1"]
    text = drawn([Step(SENT, twins[0], twins[0], 1), Step(DELIVERED, twins[1], twins[0], 1)], 80)
    assert text.splitlines()[0].split() == ["A", "B"]
    assert text.endswith(" A = alexandra-of-hamburg   B = alexandra-of-bremen")


def test_too_many_members_for_the_terminal() -> None:
    steps = [Step(VIEW, "m0", members=[f"m{number}" for number in range(40)], epoch=1)]
    with pytest.raises(UsageError, match="40 members do not fit into 80 columns: name some of them with --members"):
        drawn(steps, 80)


def test_names_stand_again_in_a_long_diagram() -> None:
    lines = drawn(crowd(4, rounds=8), 120).splitlines()
    headers = [number for number, line in enumerate(lines) if line.split()[:2] == ["s", "member-0"]]
    assert len(headers) > 2
    assert max(later - earlier for earlier, later in pairwise(headers)) <= 70


def test_members_whose_clock_says_nothing_have_no_times() -> None:
    text = drawn(lunch("causal", timed=False))
    assert "0.000" not in text
    assert "clock" not in text
    assert "was held" in text


def test_a_message_from_somebody_who_is_not_drawn() -> None:
    text = drawn([Step(SENT, ADA, ADA, 1, text="hi"), Step(DELIVERED, BOB, ADA, 1)], 80, members=["bob"])
    assert ' ▶ ada:1 "hi"' in text


def test_styles_name_what_matters() -> None:
    styles = {style for row in text_rows(space_time(lunch("causal"))) for _, style in row.spans()}
    assert {"sent", "held", "concurrent", "view", "vector", "flight"} <= styles
    assert "early" in {style for row in text_rows(space_time(lunch("none"))) for _, style in row.spans()}
