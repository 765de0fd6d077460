"""Members of a group around one table: their cores, a clock, and a wire whose every part can be held, lost or doubled.

Nothing here rolls dice. A story announces views by hand (there is no register), lets members send, decides what the
wire does between two of them, and lets time pass. What each member's app was given is one line of text: a view is
`[A B C]`, a message its text, with `~` if it is flagged as concurrent, a message to one alone `(text)`, and a state
`{text}`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

from octoloom.core import group_effects as effect
from octoloom.core.errors import ProtocolError
from octoloom.core.group import GroupMember
from octoloom.core.group_messages import GroupView, MemberAddress, Numbered, Part
from octoloom.core.group_settings import GroupSettings
from octoloom.core.steps import Step

Flying = tuple[str, str, Part]
"""Sender, receiver, part."""
PARTS_MAX = 20_000
"""A story that says more than this in one go does not come to an end."""


def view_of(members: str, epoch: int, order: str = "total", group: str = "room") -> GroupView:
    return GroupView(group, epoch, order, [MemberAddress(name, f"{name}:1") for name in members.split()])


def kind_of(part: Part) -> str:
    """What a part is about: that of a numbered part is the part in it."""
    return type(part.part if isinstance(part, Numbered) else part).__name__


class Seat:
    """One member and its app."""

    def __init__(self, name: str, settings: GroupSettings) -> None:
        self.core = GroupMember("room", name, settings)
        self.alive, self.hung = True, False
        self.heard: list[str] = []
        self.state = ""
        """What the app gives to newcomers: all the messages that it knows."""
        self.effects: list[effect.Effect] = []
        """Those that are neither parts nor heard."""
        self.steps: list[Step] = []
        self.errors: list[str] = []
        """The codes of what the core refused."""


class Table:
    def __init__(self, order: str = "total", **settings: Any) -> None:
        self.order = order
        self.settings = settings
        self.now = 0
        self.epoch = 0
        self.seats: dict[str, Seat] = {}
        self.flying: list[Flying] = []
        self.said: Counter[str] = Counter()
        self._held: dict[tuple[str, str], list[Flying]] = {}
        self._lost: dict[tuple[str, str], tuple[str, ...]] = {}

    def __getitem__(self, name: str) -> GroupMember:
        return self.seats[name].core

    # Members and views.

    def sit(self, names: str, **settings: Any) -> None:
        for name in names.split():
            self.seats[name] = Seat(name, GroupSettings(**self.settings | settings))

    def view(self, members: str, order: str = "", only: str = "", ms: int = 0) -> GroupView:
        """The register announces a view to all that live, to who is left out too; or `only` to some."""
        self.epoch += 1
        self.order = order or self.order
        view = view_of(members, self.epoch, self.order)
        self.tell(view, only or " ".join(self.seats))
        self.run(ms)
        return view

    def tell(self, view: GroupView, names: str) -> None:
        for name in names.split():
            seat = self.seats[name]
            if seat.alive and not seat.hung:
                seat.core.on_view(self.now, view)
                self._turn(name)

    def crash(self, *names: str) -> None:
        """What is on the wire from and to it is gone too."""
        for name in names:
            self.seats[name].alive = False
            for parts in (self.flying, *self._held.values()):
                parts[:] = [each for each in parts if name not in each[:2]]

    # Speaking.

    def send(self, name: str, texts: str, plain: bool = False) -> None:
        """Each word is a message, and each goes out in a turn of its own."""
        seat = self.seats[name]
        for text in texts.split():
            seat.core.send(self.now, text.encode(), plain=plain)
            if not plain and not (seat.core.casting is not None and seat.core.casting.is_total):
                seat.state += text
            self._turn(name)

    def heard(self, name: str) -> str:
        return " ".join(self.seats[name].heard)

    def all_heard(self, names: str) -> str:
        """What all of these heard alike."""
        heard = {name: self.heard(name) for name in names.split()}
        assert len(dict.fromkeys(heard.values())) == 1, heard
        return next(iter(heard.values()))

    # The wire.

    def hold(self, sender: str, *receivers: str) -> None:
        """What flies between them stays in the air until it is let go."""
        for receiver in receivers:
            self._held.setdefault((sender, receiver), [])

    def let_go(self, sender: str, *receivers: str, turned_round: bool = False) -> None:
        for receiver in receivers:
            held = self._held.pop((sender, receiver))
            self.flying += reversed(held) if turned_round else held
        self.run(0)

    def lose(self, sender: str, receiver: str, *kinds: str) -> None:
        """Parts of these kinds (of all kinds, if none is named) do not arrive, until `mend`."""
        self._lost[sender, receiver] = kinds

    def mend(self) -> None:
        self._lost.clear()

    def in_the_air(self, sender: str, receiver: str) -> list[str]:
        return [kind_of(part) for _, _, part in self._held[sender, receiver]]

    def _is_lost(self, sender: str, receiver: str, part: Part) -> bool:
        kinds = self._lost.get((sender, receiver))
        return kinds is not None and (not kinds or kind_of(part) in kinds)

    def hand(self, to: str, peer: str, *parts: Part) -> None:
        """Hand a packet over, as it is. Raises what the core raises."""
        try:
            self.seats[to].core.on_packet(self.now, peer, list(parts))
        finally:
            self._turn(to)

    # Time.

    def run(self, ms: int = 1_000, until: Callable[[], bool] | None = None) -> None:
        """Let so much time pass, or less."""
        end = self.now + ms
        while True:
            self._carry()
            due = [name for name in self.seats if self._due(name) is not None]
            at = min((self._due(name) or 0 for name in due), default=end + 1)
            if at > end or (until is not None and until()):
                break
            self.now = max(self.now, at)
            for name in due:
                if (self._due(name) or 0) <= self.now:
                    self._turn(name)
        self.now = max(self.now, end) if until is None else self.now

    def _due(self, name: str) -> int | None:
        seat = self.seats[name]
        return seat.core.deadline() if seat.alive and not seat.hung else None

    def _carry(self) -> None:
        for _ in range(PARTS_MAX):
            if not self.flying:
                return
            sender, to, part = self.flying.pop(0)
            seat = self.seats.get(to)
            if seat is None or not seat.alive or seat.hung or self._is_lost(sender, to, part):
                continue
            try:
                seat.core.on_packet(self.now, sender, [part])
            except ProtocolError as error:
                seat.errors.append(error.code)
            self._turn(to)
        raise AssertionError(f"the members never stop: {self.said}")

    def _turn(self, name: str) -> None:
        seat = self.seats[name]
        for each in seat.core.flush(self.now):
            match each:
                case effect.ToMembers(members, part):
                    self.said[kind_of(part)] += 1
                    for member in members:
                        self._held.get((name, member), self.flying).append((name, member, part))
                case effect.NeedState(epoch, members):
                    seat.core.give_state(self.now, epoch, members, seat.state.encode())
                    self._turn(name)
                case Step():
                    seat.steps.append(each)
                case _:
                    self._hear(seat, each)

    def _hear(self, seat: Seat, each: effect.Effect) -> None:
        match each:
            case effect.Deliver(bundle, concurrent):
                seat.heard.append(bundle.payload.decode() + ("~" if concurrent else ""))
                seat.state += bundle.payload.decode()
            case effect.DeliverDirect(_, payload):
                seat.heard.append(f"({payload.decode()})")
            case effect.InstallView(view):
                seat.heard.append(f"[{' '.join(view.names)}]")
            case effect.TakeState(payload):
                seat.state = payload.decode() if payload is not None else ""
                seat.heard.append(f"{{{seat.state}}}" if payload is not None else "{}")
            case _:
                seat.effects.append(each)


def table_of(members: str, order: str = "total", **settings: Any) -> Table:
    """A table whose first view is installed."""
    table = Table(order, **settings)
    table.sit(members)
    table.view(members)
    assert table.all_heard(members) == f"[{members}]"
    return table


def visible(member: GroupMember) -> dict[str, Any]:
    """All of a member that a refused input must not change. Counters are what it does change."""
    casting = member.casting
    state: dict[str, Any] = {
        "view": member.view,
        "frozen": member.frozen,
        "expelled": member.expelled,
        "congested": member.congested,
        "settled": member.settled,
        "waits_for": member.waits_for(),
        "knows": [name for name in "ABCDX" if member.knows(name)],
        "received": [member.received(name) for name in "ABCDX"],
    }
    if casting is not None:
        nakack = casting.nakack
        state |= {
            "held": casting.order.held,
            "have": nakack.snapshot(),
            "lasts": nakack.lasts(),
            "kept": nakack.kept_bytes,
        }
    return state
