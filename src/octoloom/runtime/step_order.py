"""One order of the steps of many members, in which no effect stands before its cause.

Every member has its own clock, and a trace may hold its lines in any order. What is certain is causality: a message is
sent before it arrives, and arrives before it is delivered. So the steps are sorted topologically:

1. *Hard* edges lead through the life of each message: counted, sent (or forwarded and ordered); then at each member
   received, buffered, removed from the buffer, found concurrent, delivered. They never close a circle.
2. *Soft* edges keep the order of each member: by its clock, and in the same millisecond as its lines stand, unless its
   vector, which only grows, says that they do not stand as they were written. A trace that contradicts itself may close
   a circle with soft edges; then the earliest step goes first that no hard edge keeps back.
3. Among those that may come next the earliest by the clocks is taken, and of equals the first in the files.

A view is one place for all members: their steps of installing it are one node, and stand together.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import pairwise

from octoloom.core import steps as names
from octoloom.core.steps import Step

AT_SENDER = (names.COUNT_INCREMENTED, names.SENT, names.FORWARDED, names.ORDERED)
AT_RECEIVER = (names.RECEIVED, names.BUFFERED, names.UNBUFFERED, names.CONCURRENT, names.PATH_CREATED, names.DELIVERED)
GROWS = (names.COUNT_INCREMENTED, names.SENT, names.CONCURRENT, names.PATH_CREATED, names.DELIVERED)
"""Steps whose vector is new. With the same vector all others come after these."""
LIFE = {name: phase for phase, name in enumerate(AT_SENDER + AT_RECEIVER)}

HARD, SOFT = 0, 1


def causal_order(steps: Sequence[Step]) -> list[list[Step]]:
    """The steps, causes first. Each stands alone, but those that install one view, which stand together."""
    graph = _Graph(_nodes(steps))
    graph.join_messages()
    graph.join_members()
    return graph.sorted()


def _nodes(steps: Sequence[Step]) -> list[list[Step]]:
    nodes: list[list[Step]] = []
    views: dict[int, list[Step]] = {}
    for step in steps:
        if step.name == names.VIEW and step.epoch in views:
            views[step.epoch].append(step)
            continue
        nodes.append([step])
        if step.name == names.VIEW:
            views[step.epoch] = nodes[-1]
    return nodes


class _Graph:
    def __init__(self, nodes: list[list[Step]]) -> None:
        self._nodes = nodes
        self._priority = [(min(step.at_ms for step in node), index) for index, node in enumerate(nodes)]
        self._after: list[list[tuple[int, int]]] = [[] for _ in nodes]
        """By node: (kind, who comes later)."""
        self._before = [[0, 0] for _ in nodes]
        """By node: how many hard and soft edges still keep it back."""

    def join_messages(self) -> None:
        told: defaultdict[tuple[str, int], dict[str, list[int]]] = defaultdict(dict)
        heard: defaultdict[tuple[str, int, int, str], dict[str, list[int]]] = defaultdict(dict)
        for index in sorted(range(len(self._nodes)), key=self._priority.__getitem__):
            step = self._nodes[index][0]
            if step.name in AT_SENDER:
                told[step.sender, step.number].setdefault(step.name, []).append(index)
            elif step.name in AT_RECEIVER:
                heard[step.sender, step.number, step.epoch, step.member].setdefault(step.name, []).append(index)
        for phases in told.values():
            self._join_phases([phases[name] for name in AT_SENDER if name in phases])
        for (sender, number, _, _), phases in heard.items():
            here = [phases[name] for name in AT_RECEIVER if name in phases]
            self._join_phases(here)
            for before in told.get((sender, number), {}).values():
                self._join_phases([before, here[0]])

    def _join_phases(self, phases: Sequence[list[int]]) -> None:
        """Each step after the first one of the phase before: a cast may be buffered anew, and what is forwarded again,
        to another coordinator, is nothing to wait for. Nothing waits for a later epoch: orders count by themselves, so
        two messages in two epochs may have the same number."""
        for earlier, later in pairwise(phases):
            for second in later:
                epoch = self._nodes[second][0].epoch
                first = next((index for index in earlier if self._nodes[index][0].epoch <= epoch), None)
                if first is not None:
                    self._join(HARD, first, second)

    def join_members(self) -> None:
        by_member: defaultdict[str, list[tuple[Step, int]]] = defaultdict(list)
        for index, node in enumerate(self._nodes):
            for step in node:
                by_member[step.member].append((step, index))
        for mine in by_member.values():
            chain = [index for _, index in own_order(mine)]
            for first, second in pairwise(chain):
                if first != second:
                    self._join(SOFT, first, second)

    def sorted(self) -> list[list[Step]]:
        free = [self._priority[node] for node, before in enumerate(self._before) if not any(before)]
        bent = [self._priority[node] for node, before in enumerate(self._before) if not before[HARD]]
        heapq.heapify(free)
        heapq.heapify(bent)
        done = [False] * len(self._nodes)
        ordered: list[list[Step]] = []
        while len(ordered) < len(self._nodes):
            _, node = heapq.heappop(free or bent)
            if done[node]:
                continue
            done[node] = True
            ordered.append(self._nodes[node])
            for kind, later in self._after[node]:
                before = self._before[later]
                before[kind] -= 1
                if kind == HARD and not before[HARD]:
                    heapq.heappush(bent, self._priority[later])
                if not any(before):
                    heapq.heappush(free, self._priority[later])
        return ordered

    def _join(self, kind: int, first: int, second: int) -> None:
        self._after[first].append((kind, second))
        self._before[second][kind] += 1


def own_order(mine: Iterable[tuple[Step, int]]) -> list[tuple[Step, int]]:
    """One member's steps in the order in which it made them; a number goes with each."""
    moments: defaultdict[int, list[tuple[Step, int]]] = defaultdict(list)
    for step, index in mine:
        moments[step.at_ms].append((step, index))
    ordered = []
    for at_ms in sorted(moments):
        moment = moments[at_ms]
        ordered += moment if _stands_as_written([step for step, _ in moment]) else sorted(moment, key=_guess)
    return ordered


def _stands_as_written(moment: Sequence[Step]) -> bool:
    """Whether nothing contradicts the order of the lines: epochs and vectors grow, and each message lives forward."""
    epoch = 0
    vectors: dict[tuple[str, ...], int] = {}
    lives: dict[tuple[str, int, int], int] = {}
    for step in moment:
        if step.epoch:
            if step.epoch < epoch + (step.name == names.VIEW):
                return False
            epoch = step.epoch
        if step.vector:
            users, total = tuple(step.vector), sum(step.vector.values())
            if total < vectors.get(users, 0):
                return False
            vectors[users] = total
        if step.name in LIFE:
            message, phase = (step.sender, step.number, step.epoch), LIFE[step.name]
            if phase < lives.get(message, 0):
                return False
            lives[message] = phase
    return True


def _guess(entry: tuple[Step, int]) -> tuple[int, bool, int, bool, int, int]:
    step, index = entry
    known = sum(step.vector.values())
    return step.epoch, step.name != names.VIEW, known, step.name not in GROWS, LIFE.get(step.name, 0), index
