"""Somebody's stay in a chat: says what is typed, shows what arrives, and comes back if the others went on without it.

A message of one's own is shown when it is on its way; in total order, when it comes back in its place. So what stands
on the screen is in the order that causality knows.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from dataclasses import dataclass, field
from pathlib import Path

from octoloom.cli import group_chat_words as words
from octoloom.cli.group_chat_hearing import Hearing
from octoloom.cli.group_chat_screen import Screen
from octoloom.core.errors import UsageError
from octoloom.core.filters import ReceivedMessage
from octoloom.core.group_messages import GroupView
from octoloom.core.roster import name_of
from octoloom.core.steps import Step
from octoloom.runtime.group import Group
from octoloom.runtime.group_errors import Expelled
from octoloom.runtime.register_client import ask_groups
from octoloom.runtime.step_file import StepWriter

ORDER = "causal"
"""Of a new room: a question always stands before its answer."""
TRANSPORT = "tcp"
AGAIN_S = 1.0
"""Between two attempts to come back."""
SETTLE_S = 0.02
"""A view without messages is shown after this time: those before it have been read by then."""


@dataclass(slots=True)
class Wish:
    """How somebody wants to be in a room. No order and no transport: whichever the room has."""

    room: str
    name: str
    register: str = "127.0.0.1:7070"
    order: str = ""
    transport: str = ""
    host: str = "127.0.0.1"
    trace: Path | None = None
    delays: dict[str, int] = field(default_factory=dict)
    """Name → ms."""


class NameTaken(UsageError):  # noqa: N818
    """Somebody else has come under our name: coming back would put them out, and they us."""


class Stay:
    """`live` goes on until `leave`; `room` is there while `inside` is set."""

    def __init__(self, wish: Wish, screen: Screen) -> None:
        self.wish, self.screen = wish, screen
        self.inside = asyncio.Event()
        self.room: Group
        self._hearing = self._new_hearing()
        self._writer: StepWriter | None = None
        self._order = wish.order
        """The one that was shown last."""
        self._views: deque[tuple[int, str]] = deque()
        """(epoch, order) of views that are not shown yet."""
        self._coordinator = ""
        self._unsent: deque[str] = deque()
        """What was said and is not shown yet, oldest first."""
        self._has_hinted = False
        self._is_leaving = False

    def note(self, text: str) -> None:
        self.screen.show(words.note(text))

    # Coming and going.

    async def live(self) -> None:
        """Is in the room until it is left. Comes back as somebody new if the others went on without us."""
        with contextlib.ExitStack() as stack:
            if self.wish.trace is not None:
                self._writer = stack.enter_context(StepWriter(self.wish.trace, say=self.note))
            await self._enter()
            while await self._is_expelled() and not self._is_leaving:
                await self._come_back()

    async def leave(self) -> None:
        """Ends `live`, once all have what was said."""
        self._is_leaving = True
        await self.room.leave()

    async def _enter(self) -> None:
        """Looks first: who is not let in is told at once, and why."""
        wish = self.wish
        found = await ask_groups(wish.register)
        there = next((view for view in found.views if view.group == wish.room and view.members), None)
        order, transport = self._order or ORDER, wish.transport or TRANSPORT
        if there is not None:
            self._check(there)
            order, transport = "", there.members[0].transport
        self._hearing = self._new_hearing()
        self.room = Group.join(
            wish.room,
            name=wish.name,
            register=wish.register,
            order=order,
            transport=transport,
            host=wish.host,
            trace=self._on_step,
        )
        await self.room.__aenter__()
        self._settle_in()

    def _check(self, there: GroupView) -> None:
        wish, is_new = self.wish, not self._coordinator
        if wish.name in map(name_of, there.names):
            raise NameTaken(f"somebody is in {wish.room} as {wish.name} already: choose another name with --as")
        if is_new and wish.order not in ("", there.order):
            text = f"messages in {wish.room} come in {there.order} order"
            raise UsageError(f"{text}: leave out --order, and switch it for all with /order {wish.order}")
        transport = there.members[0].transport
        if wish.transport not in ("", transport):
            raise UsageError(f"{wish.room} speaks {transport}: leave out --transport")

    def _settle_in(self) -> None:
        room, wish, is_new = self.room, self.wish, not self._coordinator
        room.on_join(self._on_join)
        room.on_leave(self._on_leave)
        self._order, self._coordinator = room.view.order, room.members[0]
        self._views.clear()
        others = [name for name in room.members if name != wish.name]
        company = f"with {words.names(others)}" if others else "alone"
        me = f"as {words.plain(wish.name)}" if is_new else "again, as somebody new"
        self.note(f"you are in {words.plain(wish.room)} {me}, {company}")
        self.note(words.order(self._order) + ("; /help says what you can do" if is_new else ""))
        for name in others:
            self._delay(name)
        self._draw_prompt()
        self.inside.set()

    async def _is_expelled(self) -> bool:
        """Shows what comes, until the end; says whether that was the others' wish."""
        try:
            async for batch in self.room.batches():
                for message in batch:
                    self._show(message)
                self._show_views()
            return False
        except Expelled:
            self.inside.clear()
            self.note("the others went on without you: coming back")
            self._give_up_unsent()
            return True
        finally:
            await self.room.leave()

    def _give_up_unsent(self) -> None:
        while self._unsent:
            self.note(f"it is not known whether anybody has got this: {self._unsent.popleft()}")

    async def _come_back(self) -> None:
        told = ""
        while True:
            try:
                return await self._enter()
            except NameTaken:
                raise
            except UsageError as error:
                if str(error) != told:
                    self.note(f"{error}; trying again")
                told = str(error)
                await asyncio.sleep(AGAIN_S)

    # Saying.

    async def say(self, text: str) -> None:
        """To all. Each message is a bundle of its own, as people say one thing at a time."""
        if len(text) > words.TEXT_MAX:
            raise UsageError(f"a message has at most {words.TEXT_MAX} characters here, not {len(text)}")
        self._unsent.append(text)
        try:
            await self.room.to_others(text)
        except Expelled:
            if not self.inside.is_set():  # otherwise whoever listens is about to find out
                self._give_up_unsent()
        except UsageError:
            self._unsent.remove(text)
            raise
        await asyncio.sleep(0)

    async def tell(self, name: str, text: str) -> None:
        """To one."""
        await self.room.to_user(name, text)
        self.screen.show(words.told("you", name, text))

    def set_delay(self, name: str, delay_ms: int) -> None:
        """Also for who is not here yet, or comes back."""
        self.wish.delays[name] = delay_ms
        if name in self.room.members:
            self._delay(name)
        else:
            self.note(f"{words.plain(name)} is not here; it will count from when they come")

    def _delay(self, name: str) -> None:
        if name in self.wish.delays:
            delay_ms = self.wish.delays[name]
            self.room.set_minimum_delay(name, delay_ms)
            self.note(f"{words.plain(name)} gets what you say to all {self._later(delay_ms)}")

    def _later(self, delay_ms: int) -> str:
        return f"{words.duration(delay_ms)} later" if delay_ms else "at once"

    def describe(self) -> str:
        """Who is here, and how messages come."""
        view = self.room.view
        marks = {self.room.members[0]: ["coordinator"]}
        marks.setdefault(self.wish.name, []).append("you")
        for name, delay_ms in self.wish.delays.items():
            marks.setdefault(name, []).append(f"gets yours {self._later(delay_ms)}")
        members = [
            words.plain(name) + (f" ({', '.join(marks[name])})" if name in marks else "") for name in self.room.members
        ]
        held, lacks = self._hearing.held, self.room.waits_for()
        waiting = f"; {held} held back, for lack of one from {name_of(lacks[0])}" if held and lacks else ""
        return f"{', '.join(members)}; epoch {view.epoch}, {words.order(view.order)}{waiting}"

    # Hearing.

    def _new_hearing(self) -> Hearing:
        return Hearing(self._on_sent, self._on_view, self._draw_prompt)

    def _on_step(self, step: Step) -> None:
        if self._writer is not None:
            self._writer.write([step])
        self._hearing.on_step(step)

    def _show(self, message: ReceivedMessage) -> None:
        text, sender = words.body_text(message.body), message.sender
        if message.to_me:
            self.screen.show(words.told(sender, "you", text))
            return
        arrival, is_mine = self._hearing.of(sender, message.number), sender == self.wish.name
        if is_mine and not arrival.epoch:
            return  # said in total order, but sent and shown in the order that followed
        self._show_views(arrival.epoch)
        if is_mine and self._unsent:
            self._unsent.popleft()
        self.screen.show(words.said(sender, text, is_mine, message.concurrent, arrival.held_ms))
        if message.concurrent and not self._has_hinted:
            self._has_hinted = True
            self.note(words.HINT)

    def _on_sent(self, epoch: int) -> None:
        self._show_views(epoch)
        if self._unsent:
            self.screen.show(words.said(self.wish.name, words.body_text(self._unsent.popleft()), is_mine=True))

    def _on_join(self, name: str, members: list[str]) -> None:
        self.note(f"{words.plain(name)} is here")
        self._hearing.forget(name)
        self._delay(name)
        self._look_up_to(members[0])

    def _on_leave(self, name: str, members: list[str]) -> None:
        self.note(f"{words.plain(name)} is gone")
        self._look_up_to(members[0])

    def _look_up_to(self, coordinator: str) -> None:
        if coordinator != self._coordinator:
            self._coordinator = coordinator
            who = "you are" if coordinator == self.wish.name else f"{words.plain(coordinator)} is"
            self.note(f"{who} the coordinator now")

    def _on_view(self, epoch: int, order: str) -> None:
        self._views.append((epoch, order))
        asyncio.get_running_loop().call_later(SETTLE_S, self._show_views)

    def _show_views(self, epoch: int | None = None) -> None:
        """Says where the order changes; `epoch` is the view of what is shown next, if anything is."""
        while self._views and self.inside.is_set() and (epoch is None or self._views[0][0] <= epoch):
            order = self._views.popleft()[1]
            if order != self._order:
                self._order = order
                self.note(f"from here on {words.order(order)}")

    def _draw_prompt(self) -> None:
        held = self._hearing.held
        self.screen.ask(f"{words.plain(self.wish.name)}{f' ({held} held back)' if held else ''}> ")
