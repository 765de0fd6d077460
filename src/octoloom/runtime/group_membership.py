"""One member's life in its group: it enlists, is in views, gives its state to newcomers, leaves or is expelled.

It ends once, with an error or without one. From then on nothing is sent and nothing comes; the app may still take what
it was handed before, and is then told the error.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from octoloom.core.causal import ConcurrentMessages
from octoloom.core.errors import OctoloomError, ProtocolError, UsageError
from octoloom.core.filters import orders
from octoloom.core.group_effects import (
    Complain,
    Conflict,
    Dropped,
    Effect,
    Expelled,
    InstallView,
    NeedState,
    TakeState,
)
from octoloom.core.group_messages import Bundle, EnlistMember, GroupView, LeaveGroup, MemberAddress, SetOrder
from octoloom.core.register_messages import Declined
from octoloom.core.roster import name_of
from octoloom.core.settling import Settling
from octoloom.runtime import group_errors
from octoloom.runtime.group_carrier import Carrier
from octoloom.runtime.group_driver import GroupDriver
from octoloom.runtime.group_register_client import MemberClient
from octoloom.runtime.register_line import FINAL
from octoloom.wire.group import decode_bodies, decode_body, encode_body

STATE_BYTES_MAX = 16 * 1024 * 1024
DROPPED_MAX = 100_000
"""So many of the last messages that were dropped at a failover are remembered."""
SETTLE_S_MAX = 5.0
"""So long a leaver waits until all have what it sent."""
PART_S_MAX = 2.0
"""So long a leaver waits to be told the view without it."""
SAY_AGAIN_S = 0.25

NameCallback = Callable[[str, list[str]], object]
_log = logging.getLogger("octoloom.group")


class Membership:
    def __init__(self, group: str, me: str, order: str, transport: str, state: Callable[[], Any] | None) -> None:
        self.group, self.me = group, me
        self.view: GroupView | None = None
        """The one that is installed."""
        self.state: Any = None
        self.dropped: deque[Any] = deque(maxlen=DROPPED_MAX)
        self.on_join: list[NameCallback] = []
        self.on_leave: list[NameCallback] = []
        self.driver: GroupDriver
        self._order, self._transport = order, transport
        self._give = state
        self._lacks_state = state is not None
        self._carrier: Carrier
        self._client: MemberClient
        self._error: Exception | None = None
        self._over = False
        self._leaving = False
        self._refused = ""
        """Why the register has not let this member in, so far."""
        self._news = asyncio.Event()

    # Joining.

    async def join(self, driver: GroupDriver, carrier: Carrier, client: MemberClient, timeout_s: float) -> None:
        """Returns when the first view is installed and the state has come. The carrier is open."""
        self.driver, self._carrier, self._client = driver, carrier, client
        client.start()
        try:
            async with asyncio.timeout(timeout_s):
                while self.view is None or self._lacks_state:
                    self.check_open()
                    self._news.clear()
                    await self._news.wait()
            self.check_open()
        except TimeoutError:
            await self.stop()
            raise UsageError(self._why_not(timeout_s)) from None
        except BaseException:
            await self.stop()
            raise

    def _why_not(self, timeout_s: float) -> str:
        if self._refused:
            return f"{self.group} did not let {name_of(self.me)} in within {timeout_s:g} s: {self._refused}"
        if self._client.view is None:
            return f"no register answered at {self._client.address} within {timeout_s:g} s: start one, or name another"
        if self.view is None:
            text = f"the members of {self.group} did not agree on a view within {timeout_s:g} s"
            return f"{text}: see whether they reach each other, and join again"
        return f"nobody in {self.group} gave the state within {timeout_s:g} s: see whether its members run"

    def greet(self) -> EnlistMember:
        """What is said first on each connection to the register."""
        address = MemberAddress(self.me, self._carrier.address, self._transport, os.getpid())
        known = self._client.view
        if known is None:
            return EnlistMember(self.group, address, self._order)
        # The order may have been switched since; and the epoch proves that this member was in a view.
        return EnlistMember(self.group, address, "", known.epoch)

    def on_declined(self, declined: Declined) -> None:
        self._refused = f"{declined.detail} ({declined.code})"
        if self._over:
            return
        if self.view is None and (declined.code in FINAL or declined.code == "full"):
            self.end(UsageError(f"{name_of(self.me)} cannot join {self.group}: {self._refused}"))
        elif declined.code in FINAL:
            self.driver.begin()  # what the app has sent in this tick is in doubt, too
            self._expel(declined.detail, self.driver.core.in_doubt())
        else:
            _log.warning("the register declines %s: %s", self.me, self._refused)

    # Being there.

    def check_open(self) -> None:
        if self._error is not None:
            raise self._error
        if self._over or self._leaving:
            raise UsageError(f"{name_of(self.me)} has left {self.group}: join again")

    def names(self) -> list[str]:
        """The members, oldest first."""
        return [name_of(member) for member in self.view.names] if self.view is not None else []

    def member_of(self, name: str) -> str:
        """The member of this name."""
        members = self.view.names if self.view is not None else []
        found = next((member for member in members if name_of(member) == name and member != self.me), None)
        if found is None:
            others = ", ".join(name_of(member) for member in members if member != self.me)
            raise UsageError(
                f"{name} is not in {self.group} with {name_of(self.me)}: choose one of {others or 'nobody'}"
            )
        return found

    async def set_order(self, order: str, timeout_s: float) -> None:
        """Returns when the group delivers in this order."""
        orders.find(order)
        self.check_open()
        try:
            async with asyncio.timeout(timeout_s):
                while self.view is None or self.view.order != order:
                    self._client.say(SetOrder(order))
                    await self._hear()
                    self.check_open()
        except TimeoutError:
            raise UsageError(f"{self.group} was not switched to {order} within {timeout_s:g} s: try again") from None

    async def _hear(self) -> None:
        """Returns with the next news, or after a while."""
        self._news.clear()
        try:
            async with asyncio.timeout(SAY_AGAIN_S):
                await self._news.wait()
        except TimeoutError:
            pass

    # What the driver and the core want.

    def obey(self, effect: Effect) -> None:
        match effect:
            case InstallView(view, joined, left):
                self._install(view, joined, left)
            case NeedState(epoch, members):
                self.driver.inbox.happen(partial(self._give_state, epoch, members))
            case TakeState(payload):
                self._take_state(payload)
            case Dropped(bundles):
                self.dropped.extend(_bodies(bundles))
            case Conflict(later, earlier):
                self.end(ConcurrentMessages(later, earlier))
            case Expelled(_, unsure, reason):
                self._expel(reason, unsure)
            case Complain(message):
                self._client.say(message)

    def _install(self, view: GroupView, joined: Sequence[str], left: Sequence[str]) -> None:
        is_first, self.view = self.view is None, view
        names = self.names()
        _log.info("%s is in %s, epoch %d (%s): %s", self.me, self.group, view.epoch, view.order, " ".join(names))
        self.driver.pipeline.on_members(names)
        if not is_first and (joined or left):
            self.driver.inbox.happen(partial(self._announce, [*joined], [*left], names))
        self._news.set()

    def _announce(self, joined: list[str], left: list[str], names: list[str]) -> None:
        calls = [(self.on_leave, member) for member in left] + [(self.on_join, member) for member in joined]
        for callbacks, member in calls:
            for callback in [*callbacks]:
                try:
                    callback(name_of(member), [*names])
                except Exception:
                    _log.exception("a callback of %s failed for %s", self.me, member)

    def _give_state(self, epoch: int, members: list[str]) -> None:
        if self._over:
            return
        try:
            payload = encode_body(self._give() if self._give is not None else None)
            if len(payload) > STATE_BYTES_MAX:
                raise UsageError(f"the state of {self.group} has {len(payload)} bytes, more than {STATE_BYTES_MAX}")
        except Exception as error:
            self.end(error)
            return
        now = self.driver.begin()
        self.driver.core.give_state(now, epoch, members, payload)

    def _take_state(self, payload: bytes | None) -> None:
        try:
            self.state = decode_body(payload) if payload is not None else None
        except ProtocolError as error:
            self.end(UsageError(f"the state of {self.group} cannot be read: {error}"))
            return
        self._lacks_state = False
        self._news.set()

    def on_broken(self, error: Exception) -> None:
        if not isinstance(error, OctoloomError):
            _log.critical("%s broke: %s", self.me, error, exc_info=error)
        self.end(error)

    def on_overrun(self) -> None:
        text = f"{name_of(self.me)} does not take what {self.group} sends it: read faster, then join again"
        self.end(group_errors.Expelled(text, _bodies(self.driver.core.in_doubt())))

    # The end.

    def _expel(self, why: str, unsure: list[Bundle]) -> None:
        if self._leaving:
            self.end()
            return
        bodies = [*_bodies(unsure), *(body for late in self.driver.unsent for body in decode_bodies(*late))]
        text = f"{name_of(self.me)} is no longer in {self.group} ({why}): join again"
        self.end(group_errors.Expelled(text, bodies))

    def end(self, error: Exception | None = None) -> None:
        if self._over:
            return
        self._over, self._error = True, error
        self.driver.close()
        self.driver.inbox.end(error)
        self._client.line.end()
        if self._client.line.connection is not None:
            self._client.line.connection.close()  # it would go on to beat
        self._news.set()

    async def stop(self) -> None:
        """Ends at once, without a word."""
        self.end()
        await self._client.stop()

    async def leave(self) -> None:
        """Waits a while until all have what was sent, says goodbye, and ends."""
        try:
            if not self._over and not self._leaving:
                self.driver.begin()
                await self._settle()
                self._leaving = self.driver.draining = True
                await self._part()
        finally:
            self.end()
            await self._client.stop()

    async def _settle(self) -> None:
        settling = Settling(self.driver.core)
        try:
            async with asyncio.timeout(SETTLE_S_MAX):
                while not self._over and not settling.done:
                    await self.driver.turn()
        except TimeoutError:
            _log.info("%s leaves before all have what it sent", self.me)

    async def _part(self) -> None:
        try:
            async with asyncio.timeout(PART_S_MAX):
                while not self._over:
                    self._client.say(LeaveGroup())
                    await self._hear()
        except TimeoutError:
            _log.info("%s leaves without hearing from the register", self.me)


def _bodies(bundles: Sequence[Bundle]) -> list[Any]:
    return [body for bundle in bundles for body in decode_bodies(bundle.payload, bundle.count)]
