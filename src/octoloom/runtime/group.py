"""A group with an order, for an application: who is there, what they say, and in which order it comes.

    async with Group.join("room", name="ada", register="127.0.0.1:7070", order="causal") as room:
        await room.to_others("Done?")
        async for message in room:
            print(message.sender, message.body)

Members find each other through the register and speak to each other directly, over TCP or UDP. `order` is what the
group's first member says: none, fifo, causal, total, or one of an app's own. Whoever wants the group's, whichever it
is, names none.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from dataclasses import fields
from typing import Any, Self

from octoloom.core.causal import POLICIES
from octoloom.core.errors import UsageError
from octoloom.core.filters import FilterFactory, ReceivedMessage, message_filters, orders
from octoloom.core.group import GroupMember
from octoloom.core.group_messages import GroupView
from octoloom.core.group_settings import GroupSettings
from octoloom.core.roster import NAME_MAX
from octoloom.runtime.frames import split_address
from octoloom.runtime.group_carrier import Carrier
from octoloom.runtime.group_driver import GroupDriver
from octoloom.runtime.group_membership import Membership, NameCallback
from octoloom.runtime.group_mesh import Mesh
from octoloom.runtime.group_register_client import MemberClient
from octoloom.runtime.group_steps import StepSink, Trace
from octoloom.runtime.group_udp import Datagrams, Loss

TRANSPORTS = ("tcp", "udp")
EVERYWHERE = ("", "0.0.0.0", "::")
DELAY_MS_MAX = 600_000
TCP = {"retry_ms": 500, "nak_ms": 50}
"""A connection loses nothing until it breaks: who asks again at once asks for what is under way."""
UDP = {"cast_bytes_max": 48_000, "payload_max": 48_000}
"""So that every cast fits a datagram."""


class Group:
    """A member's place in a group. `Group.join` makes it, and `async with` takes it and leaves."""

    def __init__(self, group: str, name: str, register: str, order: str, transport: str, timeout_s: float) -> None:
        """Use `Group.join`."""
        self.name = name
        self._group, self._register, self._order, self._transport = group, register, order, transport
        self._timeout_s = timeout_s
        self._listen = "127.0.0.1", 0
        self._settings = GroupSettings()
        self._filters: Sequence[str | FilterFactory] = ()
        self._state: Callable[[], Any] | None = None
        self._trace: Trace | None = None
        self._loss: Loss | None = None
        self._life: Membership
        self._driver: GroupDriver
        self._rest: Iterator[ReceivedMessage] = iter(())
        """What `async for` has taken from the inbox and not handed out yet."""

    @classmethod
    def join(
        cls,
        group: str,
        *,
        name: str,
        register: str = "127.0.0.1:7070",
        order: str = "",
        transport: str = "tcp",
        host: str = "127.0.0.1",
        port: int = 0,
        filters: Sequence[str | FilterFactory] = (),
        state: Callable[[], Any] | None = None,
        concurrent: str = "flag",
        failover: str = "resend",
        trace: Trace | None = None,
        settings: Mapping[str, Any] | None = None,
        timeout_s: float = 10.0,
        loss: Loss | None = None,
    ) -> Self:
        """Prepares a place; `async with` joins, and waits up to `timeout_s` until the member is in a view.

        `host` and `port` are where this member listens, and what the others dial. `filters` are an app's own, by name
        or as factories. `concurrent` says what to do with concurrent messages in causal order (flag, raise, paths),
        `failover` what becomes of messages that a lost coordinator had not ordered (resend, drop). `trace` is a file,
        or a function, for the steps of the algorithms. `settings` are fields of `GroupSettings`. `loss` decides, for
        tests, what becomes of each datagram.

        `state` gives the app's state to newcomers, when the app has taken all messages before them. Who names it also
        waits for the group's, which is then `room.state`. In total order, where one's own messages come back, this is
        exact; elsewhere a newcomer may be sent again what the giver said just then.
        """
        _check_name("group", group)
        _check_name("name", name)
        split_address(register)
        if host in EVERYWHERE:
            raise UsageError(f"the others cannot dial {host!r}: name the address of this machine that they reach")
        _check_choice("transport", transport, TRANSPORTS)
        _check_choice("concurrent", concurrent, POLICIES)
        if order:
            orders.find(order)
        for each in filters:
            if isinstance(each, str):
                message_filters.find(each)
        room = cls(group, name, register, order, transport, timeout_s)
        room._listen, room._filters, room._state = (host, port), tuple(filters), state
        room._trace, room._loss = trace, loss
        overrides = {"failover": failover, "tracing": trace is not None, "wants_state": state is not None}
        overrides |= {"order_settings": {"concurrent": concurrent}}
        room._settings = _settings({**(UDP if transport == "udp" else TCP), **overrides, **(settings or {})})
        return room

    async def __aenter__(self) -> Self:
        me = f"{self.name}#{time.time_ns() // 1000}"
        sink = StepSink(self._trace) if self._trace is not None else None
        life = self._life = Membership(self._group, me, self._order, self._transport, self._state)
        core = GroupMember(self._group, me, self._settings)
        driver = self._driver = GroupDriver(core, life, self._transport, self._filters, sink)
        carrier = self._carrier(me, driver)
        driver.attach(carrier)
        try:
            await carrier.open(*self._listen)
        except UsageError:
            driver.close()
            raise
        client = MemberClient(self._register, life.greet, driver.on_view, life.on_declined)
        await life.join(driver, carrier, client, self._timeout_s)
        return self

    def _carrier(self, me: str, driver: GroupDriver) -> Carrier:
        if self._transport == "tcp":
            return Mesh(self._group, me, driver)
        return Datagrams(self._group, me, driver, self._loss)

    async def __aexit__(self, *_: object) -> None:
        await self.leave()

    # Who is there.

    @property
    def view(self) -> GroupView:
        """The group as it is: epoch, order, and the members with their addresses."""
        assert self._life.view is not None
        return self._life.view

    @property
    def members(self) -> list[str]:
        """Names, oldest first. The first is the coordinator."""
        return self._life.names()

    def on_join(self, callback: NameCallback) -> NameCallback:
        """Has it called with (name, members) where somebody comes, at its place among the messages."""
        self._life.on_join.append(callback)
        return callback

    def on_leave(self, callback: NameCallback) -> NameCallback:
        """Has it called with (name, members) where somebody has gone, at its place among the messages."""
        self._life.on_leave.append(callback)
        return callback

    # Sending.

    async def to_others(self, body: Any, ordered: bool = True) -> None:
        """Sends any value that MessagePack knows to all others; in total order it also comes back, in its place.

        It waits while the group is congested. `ordered=False` passes by the order.
        """
        if self._driver.busy:
            await self._driver.room()
        self._driver.post(body, not ordered)

    async def send_many(self, bodies: Sequence[Any]) -> None:
        """Sends many at once, in order: cheaper than one by one."""
        if self._driver.busy:
            await self._driver.room()
        self._driver.post_many(bodies)

    async def to_user(self, name: str, body: Any) -> None:
        """Sends to one member alone, past any order. What is sent to one member arrives in the order it was sent."""
        if self._driver.busy:
            await self._driver.room()
        member, payload = self._life.member_of(name), self._driver.outbox.alone(body)
        self._driver.core.send_to(self._driver.begin(), member, payload)

    def set_minimum_delay(self, name: str, delay_ms: int) -> None:
        """Has this member hold what we send to all for at least so long: for tests and demonstrations."""
        self._life.check_open()
        if not 0 <= delay_ms <= DELAY_MS_MAX:
            raise UsageError(f"a delay of {delay_ms} ms: choose 0 to {DELAY_MS_MAX}")
        self._driver.core.set_minimum_delay(self._driver.begin(), self._life.member_of(name), delay_ms)

    async def set_order(self, order: str, timeout_s: float = 10.0) -> None:
        """Switches the order of the whole group, for all at the same place, and returns when that has happened."""
        await self._life.set_order(order, timeout_s)

    # Receiving.

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> ReceivedMessage:
        for message in self._rest:
            return message
        batch = await self._driver.inbox.take()
        if not batch:
            raise StopAsyncIteration
        self._rest = iter(batch)
        return next(self._rest)

    async def batches(self) -> AsyncIterator[list[ReceivedMessage]]:
        """All that has come so far, again and again: the fast way."""
        if rest := list(self._rest):
            yield rest
        while batch := await self._driver.inbox.take():
            yield batch

    # Looking.

    @property
    def state(self) -> Any:
        """What a newcomer was given by those who were there before; None for the first."""
        return self._life.state

    @property
    def dropped(self) -> list[Any]:
        """Bodies of one's own that a lost coordinator had not ordered, where these are dropped."""
        return list(self._life.dropped)

    @property
    def counters(self) -> Counter[str]:
        """What happened how often, faults of others by their code."""
        return self._driver.all_counters()

    def waits_for(self) -> tuple[str, int] | None:
        """The (member, count) that the oldest message held back lacks."""
        return self._driver.core.waits_for()

    # Leaving.

    async def leave(self) -> None:
        """Waits a moment until all have what was sent, and goes. The messages that are here can still be read."""
        await self._life.leave()

    async def abandon(self) -> None:
        """Goes at once and without a word, as the end of the process would."""
        await self._life.stop()


def _settings(overrides: dict[str, Any]) -> GroupSettings:
    known = [field.name for field in fields(GroupSettings)]
    for name in overrides:
        if name not in known:
            raise UsageError(f"a group has no setting {name!r}: use one of {', '.join(known)}")
    return GroupSettings(**overrides)


def _check_name(what: str, value: str) -> None:
    if not isinstance(value, str) or not 0 < len(value) <= NAME_MAX or "\0" in value or "#" in value:
        raise UsageError(f"{value!r} is no {what}: use 1 to {NAME_MAX} characters, without '#'")


def _check_choice(what: str, value: str, choices: Sequence[str]) -> None:
    if value not in choices:
        raise UsageError(f"{what} is one of {', '.join(choices)}, not {value!r}")
