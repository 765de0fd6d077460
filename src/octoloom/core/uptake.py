"""Who has taken up which revision, and which answers about topics wait for it.

Clients ask any broker about any topic. So a change of topics is answered only when every broker that may be asked
knows it:

1. an answer waits until every broker that is not given up has taken up the revision in which the change was told;
2. a broker that is given up is waited for no longer. By then it knows from its own clock that it may be, and does not
   speak of topics before the register has told it everything anew (`standing.py`);
3. refusals wait for the last change as well: who is told that a topic exists finds it wherever it asks next;
4. when the time that the client has given is over, it is told so. The change itself stands.

Revisions rise, so whoever waits for one waits for all changes before it. A broker acknowledges once for everything that
it was told in a tick: what a change costs does not depend on the number of its partitions.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from octoloom.core.log_messages import AdminDone

REQUEST_TIMED_OUT = 7
THROTTLED = 89
WAITING_MAX = 10_000
"""Answers that wait; who asks for more is refused before anything is changed."""
EVERY_REVISION = 1 << 62
NAMED_MAX = 5
"""Brokers named in an answer that comes too late."""


@dataclass(frozen=True, slots=True)
class Waiting:
    broker: str
    """Who asked, and is to be answered."""
    done: AdminDone
    revision: int
    deadline: int


class Uptake:
    def __init__(self) -> None:
        self._taken: dict[str, int] = {}
        self._waiting: list[Waiting] = []

    @property
    def full(self) -> bool:
        return len(self._waiting) >= WAITING_MAX

    def on_taken(self, broker: str, revision: int) -> None:
        self._taken[broker] = max(revision, self._taken.get(broker, 0))

    def hold(self, waiting: Waiting) -> None:
        self._waiting.append(waiting)

    def release(self, now: int, alive: Collection[str]) -> list[tuple[str, AdminDone]]:
        """The answers that may go, each with the broker that asked. `alive`: those who are not given up."""
        if not self._waiting:
            return []
        self._taken = {broker: revision for broker, revision in self._taken.items() if broker in alive}
        reached = self._reached(alive)
        ready = [each for each in self._waiting if each.revision <= reached or each.deadline <= now]
        if ready:
            self._waiting = [each for each in self._waiting if each.revision > reached and each.deadline > now]
        return [(each.broker, each.done if each.revision <= reached else self._late(each, alive)) for each in ready]

    def deadline(self) -> int | None:
        return min((each.deadline for each in self._waiting), default=None)

    def _reached(self, alive: Collection[str]) -> int:
        """The revision that everybody has; where nobody is left, any."""
        return min((self._taken.get(broker, 0) for broker in alive), default=EVERY_REVISION)

    def _late(self, waiting: Waiting, alive: Collection[str]) -> AdminDone:
        if waiting.done.error:
            return waiting.done
        missing = sorted(broker for broker in alive if self._taken.get(broker, 0) < waiting.revision)
        names = ", ".join(missing[:NAMED_MAX]) + (" and others" if len(missing) > NAMED_MAX else "")
        text = f"it is done, but not known everywhere yet: {names} did not take it up in time"
        return AdminDone(waiting.done.ticket, REQUEST_TIMED_OUT, text)
