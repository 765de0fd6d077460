"""Where a link stands in a view: which role it has, and who is above and below it."""

from __future__ import annotations

from dataclasses import dataclass

from octoloom.core.register_messages import View

NO_VIEW = View(chain="", epoch=0, generation=0, links=[], whole=[])


@dataclass(frozen=True, slots=True)
class Place:
    """`upper` is whom to keep a connection to: the neighbour above, or the tail that a learner follows."""

    is_member: bool
    is_head: bool
    is_tail: bool
    is_learner: bool
    upper: str
    lower: str


def find(me: str, view: View) -> Place:
    if me not in view.links:
        learner = view.learner == me
        return Place(False, False, False, learner, view.tail if learner else "", "")
    at = view.links.index(me)
    upper = view.links[at - 1] if at else ""
    lower = view.links[at + 1] if at + 1 < len(view.links) else ""
    return Place(True, not upper, not lower, False, upper, lower)
