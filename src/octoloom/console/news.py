"""What happened between two pictures, in plain sentences.

A pure function: the same two pictures give the same news. What the register said is compared only if it answered both
times; otherwise the later picture holds what it said before, and nothing has happened as far as anybody knows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

import msgspec

from octoloom.console.picture import (
    DOWN,
    SILENT,
    UP,
    BrokerSeen,
    ChainSeen,
    GroupSeen,
    LinkSeen,
    PartitionSeen,
    Picture,
)
from octoloom.core.roster import name_of

NEWS_MAX = 40
"""Of one pair of pictures."""

TOPICS_NAMED = 2
"""More are counted and not named."""

BAD, GOOD, PLAIN = "bad", "good", "plain"


class News(msgspec.Struct, frozen=True):
    """`about` is process (it ended or came), silence, chain, topic, group or cluster (what the cluster says itself).

    It happened after `since_ms` and not after `at_ms`.
    """

    at_ms: int
    since_ms: int
    about: str
    mood: str
    text: str


Line = tuple[str, str, str]
"""(about, mood, text)"""


def news_between(before: Picture, after: Picture) -> list[News]:
    """What is different in the later picture, in the order in which one would tell it."""
    lines = [*_register(before, after), *_processes(before.links, after.links)]
    lines += _processes(before.brokers, after.brokers)
    if after.register.told_ms > before.register.told_ms:
        lines += [*_chains(before, after), *_topics(before, after), *_groups(before, after)]
    lines += _consumers(before, after)
    if len(lines) > NEWS_MAX:
        lines[NEWS_MAX - 1 :] = [("cluster", PLAIN, f"and {len(lines) - NEWS_MAX + 1} more changes")]
    return [News(after.at_ms, before.at_ms, *line) for line in lines]


# Processes.


def _register(before: Picture, after: Picture) -> Iterator[Line]:
    old, new = before.register, after.register
    if new.state == UP:
        if old.state == SILENT:
            yield "silence", GOOD, f"the register answers{' again' if old.told_ms else ''}"
        elif old.state == DOWN:
            yield "process", GOOD, f"the register is up again{_as_process(new.pid)}"
        elif old.pid != new.pid:
            yield "process", PLAIN, f"the register ended and came back{_as_process(new.pid)}"
    elif old.state != new.state:
        yield from _trouble("the register", old.state, new.state)


def _processes(before: Sequence[LinkSeen | BrokerSeen], after: Sequence[LinkSeen | BrokerSeen]) -> Iterator[Line]:
    old_by_name = {process.name: process for process in before}
    for process in after:
        old = old_by_name.pop(process.name, None)
        if old is None:
            yield "process", PLAIN, f"{process.name} is new{_as_process(process.pid)}"
        else:
            yield from _process(old, process)
    for name in old_by_name:
        yield "process", BAD, f"{name} is gone"


def _process(old: LinkSeen | BrokerSeen, new: LinkSeen | BrokerSeen) -> Iterator[Line]:
    if new.state == UP:
        if old.state == SILENT:
            yield "silence", GOOD, f"{new.name} answers again"
        elif old.state == DOWN:
            yield "process", GOOD, f"{new.name} is up again{_as_process(new.pid)}"
        elif old.pid != new.pid:
            yield "process", PLAIN, f"{new.name} ended and came back{_as_process(new.pid)}"
    elif old.state != new.state:
        yield from _trouble(new.name, old.state, new.state)


def _trouble(name: str, old: str, new: str) -> Iterator[Line]:
    """Who was down and does not answer yet is being started: that is no news."""
    if new == DOWN:
        yield "process", BAD, f"{name} is down"
    elif old == UP:
        yield "silence", BAD, f"{name} does not answer"


def _as_process(pid: int) -> str:
    return f", process {pid}" if pid else ""


# Chains.


def _chains(before: Picture, after: Picture) -> Iterator[Line]:
    old_by_name = {chain.chain: chain for chain in before.chains}
    for chain in after.chains:
        old = old_by_name.get(chain.chain)
        if old is None:
            yield "chain", PLAIN, f"{chain.chain} is there, with {_told(chain.links) or 'no links'}"
            continue
        if old.generation != chain.generation:
            yield "chain", BAD, f"{chain.chain} began generation {chain.generation}: all its links had been lost"
        if old.epoch != chain.epoch:
            yield _moved(old, chain)
        if chain.learner and chain.learner != old.learner:
            yield "chain", PLAIN, f"{name_of(chain.learner)} learns the state of {chain.chain}"
        if chain.is_whole and not old.is_whole:
            yield "chain", GOOD, f"{chain.chain} is whole: {_told(chain.links, ' → ')}"


def _moved(old: ChainSeen, new: ChainSeen) -> Line:
    went = [link for link in old.links if link not in new.links]
    came = [link for link in new.links if link not in old.links]
    parts = [f"{_told(went)} went"] if went else []
    parts += [f"{_told(came)} came"] if came else []
    if not new.links:
        parts.append("no link is left")
    elif old.links[:1] != new.links[:1]:
        parts.append(f"{name_of(new.links[0])} is head now")
    mood = BAD if went and not came else PLAIN
    return "chain", mood, f"{new.chain} moved to epoch {new.epoch}{': ' if parts else ''}{', '.join(parts)}"


def _told(links: Iterable[str], between: str = ", ") -> str:
    return between.join(name_of(link) for link in links)


# Topics.


def _topics(before: Picture, after: Picture) -> Iterator[Line]:
    old_by_name = {topic.name: topic for topic in before.topics}
    pairs: list[Pair] = []
    for topic in after.topics:
        old = old_by_name.pop(topic.name, None)
        if old is None:
            count = len(topic.partitions)
            yield "topic", PLAIN, f"the topic {topic.name} is new, with {count} partition{'' if count == 1 else 's'}"
            continue
        parts = {part.partition: part for part in old.partitions}
        pairs += [(topic.name, parts[new.partition], new) for new in topic.partitions if new.partition in parts]
    yield from _leaders(pairs)
    yield from _in_sync(pairs)
    if not after.topics_left_out:
        for name in old_by_name:
            yield "topic", PLAIN, f"the topic {name} was deleted"


Pair = tuple[str, PartitionSeen, PartitionSeen]
"""(topic, a partition of it before, and after)"""


def _leaders(pairs: Sequence[Pair]) -> Iterator[Line]:
    moved = _gathered(pairs, lambda old, new: [(old.leader, new.leader)] if old.leader != new.leader else [])
    for (old, new), places in moved.items():
        if not new:
            yield "topic", BAD, f"nobody leads {places_text(places)}, which {old} led"
        else:
            after = f", which {old} led" if old else ", which nobody led"
            yield "topic", PLAIN, f"{new} leads {places_text(places)} now{after}"


def _in_sync(pairs: Sequence[Pair]) -> Iterator[Line]:
    lost = _gathered(pairs, lambda old, new: [(name, "") for name in old.in_sync if name not in new.in_sync])
    for (name, _), places in lost.items():
        yield "topic", BAD, f"{name} is not in sync any more in {places_text(places)}"
    won = _gathered(pairs, lambda old, new: [(name, "") for name in new.in_sync if name not in old.in_sync])
    for (name, _), places in won.items():
        yield "topic", GOOD, f"{name} is in sync in {places_text(places)}"


Places = dict[str, list[int]]
"""Topic → partitions."""


def _gathered(
    pairs: Sequence[Pair], what: Callable[[PartitionSeen, PartitionSeen], list[tuple[str, str]]]
) -> dict[tuple[str, str], Places]:
    """What happened → where it did: one broker's death is one line, not one for each partition."""
    found: dict[tuple[str, str], Places] = {}
    for topic, old, new in pairs:
        for key in what(old, new):
            found.setdefault(key, {}).setdefault(topic, []).append(new.partition)
    return found


def places_text(places: Places) -> str:
    """journal 0–7 and orders 1, 3; many topics are counted."""
    if len(places) > TOPICS_NAMED:
        return f"{sum(map(len, places.values()))} partitions of {len(places)} topics"
    return " and ".join(f"{topic} {numbers_text(numbers)}" for topic, numbers in places.items())


def numbers_text(numbers: Sequence[int]) -> str:
    """0–2, 5: numbers in order, runs of three and more shortened."""
    parts: list[str] = []
    run: list[int] = []
    for number in [*sorted(numbers), None]:
        if run and number != run[-1] + 1:
            parts += [f"{run[0]}–{run[-1]}"] if len(run) > 2 else [str(each) for each in run]
            run = []
        if number is not None:
            run.append(number)
    return ", ".join(parts)


# Groups.


def _groups(before: Picture, after: Picture) -> Iterator[Line]:
    old_by_name = {group.group: group for group in before.groups}
    for group in after.groups:
        old = old_by_name.pop(group.group, None)
        if old is None:
            members = ", ".join(member.name for member in group.members)
            yield "group", PLAIN, f"the group {group.group} is there, in {group.order} order: {members}"
        elif old.epoch != group.epoch:
            yield _view(old, group)
    if not after.groups_left_out:
        for name in old_by_name:
            yield "group", PLAIN, f"nobody is in the group {name} any more"


def _view(old: GroupSeen, new: GroupSeen) -> Line:
    olds, news = [member.id for member in old.members], [member.id for member in new.members]
    went = [link for link in olds if link not in news]
    came = [link for link in news if link not in olds]
    parts = [f"{_told(went)} went"] if went else []
    parts += [f"{_told(came)} came"] if came else []
    if olds[:1] != news[:1]:
        parts.append(f"{name_of(news[0])} coordinates now")
    if old.order != new.order:
        parts.append(f"messages come in {new.order} order now")
    return "group", PLAIN, f"{new.group} has a view in epoch {new.epoch}{': ' if parts else ''}{', '.join(parts)}"


def _consumers(before: Picture, after: Picture) -> Iterator[Line]:
    if not before.consumers_ms:
        return
    old_by_name = {group.name: group for group in before.consumers}
    for group in after.consumers:
        old = old_by_name.get(group.name)
        had, has = len(old.members) if old is not None else 0, len(group.members)
        if has != had:
            yield (
                "group",
                PLAIN,
                f"the consumer group {group.name} has {has} member{'' if has == 1 else 's'}, had {had}",
            )
