"""Filters: what every message passes between an app and a network that know nothing of it.

A filter takes a message and hands on none, one or many to its *processor*, the next stage: it may change, hold back,
reorder or drop. There is one on the way out and one on the way in, made together by a factory, through which the two
share state. The default forwards. Only users' messages pass filters; views and messages to one member alone do not.

Orders are filters of casts (`none`, `fifo`, `causal`, `total`), made anew for each view from the vector that it begins
with. An app's own filters work on single messages, above the order, and live as long as the member does. Both are found
by name in a registry, so that a group can name them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, Protocol, TypeVar

import msgspec

from octoloom.core.errors import UsageError
from octoloom.core.group_messages import Cast
from octoloom.core.steps import Step

Message = TypeVar("Message")
Taken = TypeVar("Taken", contravariant=True)
Given = TypeVar("Given")
Factory = TypeVar("Factory")

HELD_MAX = 65_536
"""How many casts an order holds back at most. One more is not taken: it is asked for again later."""


class UnknownFilter(UsageError):  # noqa: N818
    """No filter of this name is registered."""


class TooManyHeld(UsageError):  # noqa: N818
    """An order holds back all that it may; its text says which (member, count) it waits for."""


class Filter(Protocol[Taken, Given]):
    """Calls its processor with all that may go on."""

    processor: Callable[[Given], None]

    def filter(self, message: Taken) -> None: ...


class Forwarder(Generic[Message]):
    """The default: every message goes on at once, as it is."""

    def __init__(self) -> None:
        self.processor: Callable[[Message], None] = _nowhere

    def filter(self, message: Message) -> None:
        self.processor(message)


def _nowhere(message: object) -> None:
    raise AssertionError(f"a filter without a processor was given {message!r}")


# Orders: filters of casts.


@dataclass(frozen=True, slots=True)
class Delivery:
    """A cast whose turn it is. `concurrent` names what was delivered here before without being among its causes:
    (member, first number, last number). `path` numbers the chain of causes that it continues, if paths are kept."""

    cast: Cast
    concurrent: tuple[tuple[str, int, int], ...] = ()
    path: int = 0


@dataclass(frozen=True, slots=True)
class OrderContext:
    """What an order begins with: a view."""

    me: str
    members: Sequence[str]
    """Oldest first; the coordinator is the first."""
    counts: dict[str, int]
    """How many casts of each member lie before this view."""
    step: Callable[[Step], None] | None = None
    """Told every step of the algorithm, if anybody wants to know."""
    settings: dict[str, Any] = field(default_factory=dict)


class OrderFilters(Protocol):
    """The pair of one view. Casts come to `receive` as they arrive, each once, in any order."""

    @property
    def send(self) -> Filter[Cast, Cast]:
        """Gives a cast of one's own its stamp. It counts as delivered here."""

    @property
    def receive(self) -> Filter[Cast, Delivery]: ...

    @property
    def held(self) -> int:
        """How many casts are held back."""

    def waits_for(self) -> tuple[str, int] | None:
        """The (member, count) that the oldest held cast lacks."""

    def delivered(self) -> Sequence[int] | None:
        """How much of each member was delivered here, in the view's order of them. None: what came without a hole."""


class Registry(Generic[Factory]):
    """Factories by name."""

    def __init__(self, kind: str) -> None:
        self._kind = kind
        self._factories: dict[str, Factory] = {}

    def __iter__(self) -> Iterator[str]:
        return iter(self._factories)

    def __contains__(self, name: object) -> bool:
        return name in self._factories

    def add(self, name: str, factory: Factory) -> None:
        """Make a factory known; a name has one meaning for the whole group, so it cannot be given twice."""
        if not name or name in self._factories:
            raise UsageError(f"there is a {self._kind} called {name!r} already: choose another name")
        self._factories[name] = factory

    def find(self, name: str) -> Factory:
        try:
            return self._factories[name]
        except KeyError:
            known = ", ".join(self._factories)
            raise UnknownFilter(f"there is no {self._kind} called {name!r}: use one of {known}") from None


OrderFactory = Callable[[OrderContext], OrderFilters]
orders: Registry[OrderFactory] = Registry("order")


# An app's own filters: of single messages.


@dataclass(frozen=True, slots=True)
class SentMessage:
    """What an app sends to the others."""

    body: Any


class ReceivedMessage(msgspec.Struct, frozen=True, gc=False):
    """What an app receives. `to_me` says that it was sent to this member alone.

    One is made for each message and kept for a moment: a struct costs a tenth of a dataclass. `msgspec.structs.replace`
    changes a copy.
    """

    sender: str
    body: Any
    concurrent: bool = False
    to_me: bool = False
    number: int = 0
    path: int = 0


@dataclass(slots=True)
class MessageFilters:
    """An app's pair of filters, with what they want to be told of."""

    send: Filter[SentMessage, SentMessage]
    receive: Filter[ReceivedMessage, ReceivedMessage]
    on_members: Callable[[Sequence[str]], None] | None = None
    """Told the members of each new view."""
    on_time: Callable[[int], int | None] | None = None
    """Called with the time (ms); answers when it wants to be called again, None for not at all."""


FilterFactory = Callable[[str], MessageFilters]
"""Makes the pair for a member of this name."""
message_filters: Registry[FilterFactory] = Registry("filter")


def chain(filters: Sequence[Filter[Any, Any]], end: Callable[[Any], None]) -> Callable[[Any], None]:
    """Join filters, first to last, to one function that ends in `end`."""
    for each in reversed(filters):
        each.processor = end
        end = each.filter
    return end
