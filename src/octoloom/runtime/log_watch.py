"""Follows what the register decides about brokers and topics, for those who look on and take no part.

Transitions of leadership are told as they happen: announced, then committed or aborted. After a connection that was
lost comes the whole directory again, so what happened in between is known by its result only.
"""

from __future__ import annotations

from collections.abc import Callable

from octoloom.core.log_messages import (
    Aborted,
    Announced,
    AskLog,
    BrokerAddress,
    LogDirectory,
    LogNews,
    PartitionState,
    TopicPartition,
)
from octoloom.core.roster import name_of
from octoloom.runtime.broker_directory import Directory
from octoloom.runtime.register_line import RegisterLine
from octoloom.wire.register import Answer

Step = Announced | Aborted | LogNews


class LogWatch:
    """`on_moved` is called after everything that was told, `on_step` with every step of a transition."""

    def __init__(self, address: str, on_moved: Callable[[], None]) -> None:
        self.directory = Directory()
        self.on_step: Callable[[Step], None] | None = None
        self._on_moved = on_moved
        self._line = RegisterLine(address, lambda: [AskLog(follow=True)], self._on_answer)

    def start(self) -> None:
        self._line.start()

    async def stop(self) -> None:
        await self._line.stop()

    def _on_answer(self, answer: Answer) -> None:
        match answer:
            case LogDirectory():
                self.directory.on_directory(answer)
            case LogNews():
                self.directory.on_news(answer)
                if answer.transition:
                    self._tell(answer)
            case Announced() | Aborted():
                self._tell(answer)
            case _:
                return
        self._on_moved()

    def _tell(self, step: Step) -> None:
        if self.on_step is not None:
            self.on_step(step)

    # Questions.

    def names(self) -> list[str]:
        """Who is there."""
        return [name_of(broker) for broker in self.directory.brokers]

    def state(self, place: TopicPartition) -> PartitionState | None:
        return self.directory.state(place)

    def leader(self, place: TopicPartition) -> BrokerAddress | None:
        return self.directory.leader(place)

    def led_since(self, place: TopicPartition, epoch: int) -> PartitionState | None:
        """The partition, if somebody leads it in a later epoch than this."""
        state = self.state(place)
        return state if state is not None and state.epoch > epoch and self.leader(place) is not None else None

    def is_whole(self) -> bool:
        """Whether every partition is led, and all of its replicas are in sync."""
        states = [state for topic in self.directory.topics for state in self.directory.partitions(topic).values()]
        return all(self._is_whole(state) for state in states)

    def _is_whole(self, state: PartitionState) -> bool:
        here = self.directory.brokers
        return (
            state.leader in here and len(state.in_sync) == len(state.replicas) and all(m in here for m in state.in_sync)
        )
