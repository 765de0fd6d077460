"""Who of a consumer group reads which partitions: what the leader of a group works out for all of its members.

Two of Kafka's strategies, one of which every client knows unless told otherwise:

- *range*: of each topic, the members that want it get neighbouring partitions, as many each, and the first of them one
  more where it does not come out even;
- *roundrobin*: the partitions of all topics are dealt out in turn, each to the next member that wants its topic.

The order is that of the members' ids and of the topics' names, so whoever leads comes to the same answer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

Places = dict[str, list[int]]
"""Partitions by topic."""
Strategy = Callable[[Mapping[str, Iterable[str]], Mapping[str, int]], dict[str, Places]]
"""For each member its partitions, by the topics that it wants and the number of partitions of each topic."""


def ranges(wanted: Mapping[str, Iterable[str]], partitions: Mapping[str, int]) -> dict[str, Places]:
    assigned: dict[str, Places] = {member: {} for member in wanted}
    for topic, members in _takers(wanted).items():
        least, more = divmod(partitions.get(topic, 0), len(members))
        first = 0
        for place, member in enumerate(members):
            end = first + least + (place < more)
            if end > first:
                assigned[member][topic] = list(range(first, end))
            first = end
    return assigned


def round_robin(wanted: Mapping[str, Iterable[str]], partitions: Mapping[str, int]) -> dict[str, Places]:
    assigned: dict[str, Places] = {member: {} for member in wanted}
    circle = sorted(wanted)
    turn = 0
    for topic, members in sorted(_takers(wanted).items()):
        takers = set(members)
        for number in range(partitions.get(topic, 0)):
            while circle[turn] not in takers:
                turn = (turn + 1) % len(circle)
            assigned[circle[turn]].setdefault(topic, []).append(number)
            turn = (turn + 1) % len(circle)
    return assigned


STRATEGIES: dict[str, Strategy] = {"range": ranges, "roundrobin": round_robin}
"""By the names that members agree on, the best first."""


def _takers(wanted: Mapping[str, Iterable[str]]) -> dict[str, list[str]]:
    """The members that want a topic, in order."""
    takers: dict[str, list[str]] = {}
    for member in sorted(wanted):
        for topic in dict.fromkeys(wanted[member]):
            takers.setdefault(topic, []).append(member)
    return takers
