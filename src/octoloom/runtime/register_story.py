"""What the register's log says about brokers and leadership, so that a transition can be watched.

    transition 3 announced, since the leader is gone: moves-0 (epoch 1)
    transition 3: b2#7 accepts with moves-0 (epoch 1, end 40, high 38)
    transition 3 committed: moves-0 (epoch 2, leader b2#7, in sync b2#7 b3#4)

A line names a few partitions and counts the rest.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

from octoloom.core.log_messages import (
    Aborted,
    Accept,
    Announced,
    BrokerAddress,
    LogNews,
    PartitionState,
    Refuse,
    RegisterToBroker,
    TopicPartition,
)
from octoloom.core.log_saved import Decline

PLACES_SHOWN = 4

_log = logging.getLogger("octoloom.register")


class RegisterStory:
    def __init__(self) -> None:
        self._brokers: dict[str, BrokerAddress] = {}

    def on_declined(self, decline: Decline) -> None:
        _log.warning("broker %s is refused (%s): %s", decline.broker, decline.code, decline.detail)

    def on_transition(self, message: RegisterToBroker) -> None:
        match message:
            case Announced(transition, partitions, reason):
                places = [f"{topic}-{number} (epoch {epoch})" for topic, number, epoch in partitions[:PLACES_SHOWN]]
                _log.info("transition %d announced, since %s: %s", transition, reason, _listed(places, len(partitions)))
            case Aborted(transition, reason):
                _log.info("transition %d aborted: %s", transition, reason)

    def on_answer(self, broker: str, answer: Accept | Refuse) -> None:
        if isinstance(answer, Refuse):
            _log.info("transition %d: %s refuses: %s", answer.transition, broker, answer.reason)
            return
        ends = [
            f"{topic}-{number} (epoch {epoch}, end {end}, high {high})"
            for topic, number, epoch, end, high in answer.ends[:PLACES_SHOWN]
        ]
        _log.info("transition %d: %s accepts with %s", answer.transition, broker, _listed(ends, len(answer.ends)))

    def on_news(self, news: LogNews) -> None:
        if news.brokers is not None:
            self._on_brokers(news.brokers)
        for topic, info in news.topics.items():
            if info is None:
                _log.info("topic %s is deleted", topic)
            else:
                _log.info("topic %s (number %d): %s", topic, info.number, info.config)
        decided = [_decided((topic, number), state) for topic, number, state in news.partitions[:PLACES_SHOWN]]
        listed = _listed(decided, len(news.partitions))
        if news.transition:
            _log.info("transition %d committed: %s", news.transition, listed)
        elif decided:
            _log.info("decided: %s", listed)

    def _on_brokers(self, brokers: dict[str, BrokerAddress]) -> None:
        for broker, address in brokers.items():
            if broker not in self._brokers:
                _log.info("broker %s is here: %s:%d, number %d", broker, address.host, address.port, address.id)
        for broker in self._brokers:
            if broker not in brokers:
                _log.info("broker %s is gone", broker)
        self._brokers = dict(brokers)


def _decided(place: TopicPartition, state: PartitionState) -> str:
    in_sync = " ".join(state.in_sync) or "nobody"
    return f"{place[0]}-{place[1]} (epoch {state.epoch}, leader {state.leader or 'nobody'}, in sync {in_sync})"


def _listed(shown: Sequence[str], count: int) -> str:
    more = f" and {count - len(shown)} more" if count > len(shown) else ""
    return (", ".join(shown) or "nothing") + more
