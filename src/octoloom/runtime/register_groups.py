"""The register's desk for ordered groups: members enlist here, and each is told the views of its group.

The core makes views once a tick, when the server settles it: what came in before makes one view together. All that it
says then waits until it is durable.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

from octoloom.core.errors import ProtocolError
from octoloom.core.group_messages import EnlistMember, GroupList, GroupView, LeaveGroup, SetOrder, SuspectMember
from octoloom.core.group_register import GroupRegister
from octoloom.core.group_saved import Announce, Decline, GroupEffect, Persist, Tell
from octoloom.core.register_messages import Beat, Declined
from octoloom.runtime.frames import FramedConnection
from octoloom.runtime.register_desk import decline, send
from octoloom.wire.register import Request, encode_frame

SHOWN_MAX = 10
"""How many members of a view a line of the log names."""

Place = tuple[str, str]
"""A group and a member of it."""

_log = logging.getLogger("octoloom.register")


class GroupDesk:
    """`on_due` is called when there is something to settle, to save or to tell."""

    def __init__(self, core: GroupRegister, on_due: Callable[[], None]) -> None:
        self.core = core
        self._on_due = on_due
        self._places: dict[FramedConnection, Place] = {}
        self._members: dict[Place, FramedConnection] = {}
        """The newest connection of each member."""
        self.unsaved: list[Persist] = []
        self._outbox: list[tuple[FramedConnection, bytes, bool]] = []
        """What to send once all is saved, and whether it is the last thing on that connection."""

    def deadline(self) -> int | None:
        return self.core.deadline()

    def on_time(self, now: int) -> None:
        self._obey(self.core.on_time(now))

    def on_ask(self, connection: FramedConnection) -> None:
        """Nothing may be unsaved now."""
        send(connection, encode_frame(GroupList(self.core.views())))

    def on_enlist(self, now: int, connection: FramedConnection, request: EnlistMember) -> None:
        place = request.group, request.address.member
        if self._places.get(connection, place) != place:
            raise ProtocolError("enlisted-twice", f"{self._places[connection]} enlists as {place}")
        effects = self.core.on_enlist(now, request)
        for effect in effects:
            if (effect.group, effect.member) == place:
                _log.warning("member %s of %s is refused (%s): %s", place[1], place[0], effect.code, effect.detail)
                decline(connection, effect.code, effect.detail)
                return
        older = self._members.get(place)
        if older is not None and older is not connection:
            del self._places[older]  # what an older connection says, or its end, says nothing about the member
            older.close()
        self._places[connection], self._members[place] = place, connection
        self._obey(effects)

    def on_request(self, now: int, connection: FramedConnection, request: Request) -> None:
        place = self._places.get(connection)
        if place is None:
            return  # it was declined, or has left, and its connection is about to end
        match request:
            case Beat():
                effects = self.core.on_beat(now, *place)
            case LeaveGroup():
                effects = self.core.on_leave(now, *place)
            case SetOrder():
                effects = self.core.on_set_order(now, *place, request)
            case SuspectMember():
                effects = self.core.on_suspect(now, *place, request)
            case _:
                raise ProtocolError("misplaced", f"a member of a group does not say {type(request).__name__}")
        self._obey(effects)

    def on_closed(self, now: int, connection: FramedConnection) -> None:
        place = self._places.pop(connection, None)
        if place is not None:
            del self._members[place]
            self._obey(self.core.on_closed(now, *place))

    def settle(self, now: int) -> None:
        """Has the core make the views of this tick."""
        if self.core.restless:
            self._gather(self.core.flush(now))

    def tell(self) -> None:
        self.unsaved = []
        outbox, self._outbox = self._outbox, []
        for connection, frame, is_last in outbox:
            send(connection, frame)
            if is_last:
                connection.close()

    def _obey(self, effects: Sequence[GroupEffect]) -> None:
        self._gather(effects)
        if effects or self.core.restless:
            self._on_due()

    def _gather(self, effects: Sequence[GroupEffect]) -> None:
        for effect in effects:
            match effect:
                case Persist():
                    self.unsaved.append(effect)
                case Announce(view):
                    _log.info("%s", _shown(view))
                    frame = encode_frame(view)
                    places = ((view.group, member) for member in view.names)
                    self._outbox += [(self._members[at], frame, False) for at in places if at in self._members]
                case Tell(group, member, view):
                    self._say((group, member), encode_frame(view), is_last=member not in view.names)
                case Decline(group, member, code, detail, ends):
                    _log.warning("member %s of %s is refused (%s): %s", member, group, code, detail)
                    self._say((group, member), encode_frame(Declined(code, detail)), ends)

    def _say(self, place: Place, frame: bytes, is_last: bool) -> None:
        connection = self._members.get(place)
        if connection is None:
            return
        if is_last:
            del self._members[place], self._places[connection]
        self._outbox.append((connection, frame, is_last))


def _shown(view: GroupView) -> str:
    names = view.names
    more = f" and {len(names) - SHOWN_MAX} more" if len(names) > SHOWN_MAX else ""
    return f"group {view.group}, epoch {view.epoch} ({view.order}): {' '.join(names[:SHOWN_MAX])}{more}"
