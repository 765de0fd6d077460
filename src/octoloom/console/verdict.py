"""What is not as it should be, in plain sentences, the worst first. Nothing to say means that everything is whole."""

from __future__ import annotations

from collections.abc import Iterator

from octoloom.console.picture import DOWN, UP, BrokerSeen, ChainSeen, LinkSeen, Picture, TopicSeen

TROUBLES_MAX = 20


def troubles_of(picture: Picture) -> list[str]:
    found = [*_complaints(picture), *_processes(picture), *_chains(picture), *_partitions(picture)]
    if len(found) > TROUBLES_MAX:
        found[TROUBLES_MAX - 1 :] = [f"{len(found) - TROUBLES_MAX + 1} more things are not as they should be"]
    return found


def _complaints(picture: Picture) -> Iterator[str]:
    if picture.complaint:
        yield picture.complaint
    elif picture.register.state == DOWN:
        yield "the register is down"
    elif picture.register.state != UP:
        yield f"the register at {picture.register.address} does not answer"


def _processes(picture: Picture) -> Iterator[str]:
    processes: list[LinkSeen | BrokerSeen] = [*picture.links, *picture.brokers]
    for process in processes:
        if process.state == DOWN:
            yield f"{process.name} is down"
        elif process.state != UP:
            yield f"{process.name} does not answer"


def _chains(picture: Picture) -> Iterator[str]:
    for chain in picture.chains:
        if not chain.links:
            yield f"{chain.chain} has no links"
        elif not chain.is_whole:
            yield _chain(chain)


def _chain(chain: ChainSeen) -> str:
    text = f"{chain.chain} has {len(chain.whole)} of {chain.replicas} links"
    return f"{text}, and one is learning" if chain.learner else text


def _partitions(picture: Picture) -> Iterator[str]:
    leaderless = sum(_leaderless(topic) for topic in picture.topics)
    shrunk = sum(_shrunk(topic) for topic in picture.topics)
    if leaderless:
        yield "1 partition has no leader" if leaderless == 1 else f"{leaderless} partitions have no leader"
    if shrunk:
        text = "1 partition has fewer replicas in sync than it should"
        yield text if shrunk == 1 else f"{shrunk} partitions have fewer replicas in sync than they should"


def _leaderless(topic: TopicSeen) -> int:
    return sum(not partition.leader for partition in topic.partitions)


def _shrunk(topic: TopicSeen) -> int:
    return sum(
        bool(partition.leader) and len(partition.in_sync) < len(partition.replicas) for partition in topic.partitions
    )
