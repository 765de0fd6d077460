"""The register's desk for chains: links enlist here, and whoever follows is told the directory.

The core sees the inputs of a tick one by one, but the directory that comes out is saved once and told once. That keeps
the core's order (durable first, then told), since only the last directory of a tick leaves.
"""

from __future__ import annotations

from collections.abc import Callable

from octoloom.core.errors import ProtocolError
from octoloom.core.register import Announce, Decline, Effect, Persist, Register, Tell
from octoloom.core.register_messages import Adopted, Beat, Directory, Enlist, Leave, Ready, Suspect, Whole
from octoloom.runtime.frames import FramedConnection
from octoloom.runtime.register_desk import decline, send
from octoloom.wire.register import Request, encode_frame


class ChainDesk:
    """`on_due` is called when there is something to save or to tell."""

    def __init__(self, core: Register, on_due: Callable[[], None]) -> None:
        self.core = core
        self._on_due = on_due
        self._names: dict[FramedConnection, str] = {}
        self._links: dict[str, FramedConnection] = {}
        """The newest connection of each link."""
        self._followers: dict[FramedConnection, int] = {}
        """Who is kept told, and the revision it was told last."""
        self.unsaved: Directory | None = None

    def deadline(self) -> int | None:
        return self.core.deadline()

    def on_time(self, now: int) -> None:
        self._obey(self.core.on_time(now))

    def on_ask(self, connection: FramedConnection, follow: bool) -> None:
        """Nothing may be unsaved now."""
        directory = self.core.directory()
        send(connection, encode_frame(directory))
        if follow:
            self._followers[connection] = directory.revision

    def on_enlist(self, now: int, connection: FramedConnection, request: Enlist) -> None:
        link = request.address.link
        if self._names.get(connection, link) != link:
            raise ProtocolError("enlisted-twice", f"{self._names[connection]} enlists as {link}")
        effects = self.core.on_enlist(now, link, request)
        for effect in effects:
            if isinstance(effect, Decline) and effect.link == link:
                decline(connection, effect.code, effect.detail)
                return
        older = self._links.get(link)
        self._names[connection], self._links[link] = link, connection
        if older is not None and older is not connection:
            older.close()
        self._followers[connection] = -1
        self._obey(effects)

    def on_request(self, now: int, connection: FramedConnection, request: Request) -> None:
        link = self._names.get(connection)
        if link is None:
            return  # it was declined, and its connection is about to end
        match request:
            case Beat():
                effects = self.core.on_beat(now, link)
            case Adopted():
                effects = self.core.on_adopted(now, link, request)
            case Ready():
                effects = self.core.on_ready(now, link, request)
            case Whole():
                effects = self.core.on_whole(now, link, request)
            case Suspect():
                effects = self.core.on_suspect(now, link, request)
            case Leave():
                effects = self.core.on_leave(now, link)
            case _:
                raise ProtocolError("misplaced", f"a link does not say {type(request).__name__}")
        self._obey(effects)

    def on_closed(self, now: int, connection: FramedConnection) -> None:
        link = self._names.pop(connection, "")
        self._followers.pop(connection, None)
        # An older connection of a link that is back says nothing about the link.
        if link and self._links.get(link) is connection:
            del self._links[link]
            self._obey(self.core.on_closed(now, link))

    def tell(self) -> None:
        """The last directory, to everybody who has not heard it."""
        self.unsaved = None
        directory = self.core.directory()
        behind = [follower for follower, told in self._followers.items() if told < directory.revision]
        frame = encode_frame(directory) if behind else b""
        for follower in behind:
            self._followers[follower] = directory.revision
            send(follower, frame)

    def _obey(self, effects: list[Effect]) -> None:
        for effect in effects:
            match effect:
                case Persist(directory):
                    self.unsaved = directory
                case Announce() | Tell():
                    pass  # whoever follows is told in `tell` what it has not been told yet
                case Decline(link, code, detail, ends):
                    if connection := self._links.get(link):
                        decline(connection, code, detail, ends)
        if effects:
            self._on_due()
