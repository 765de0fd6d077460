"""Who watches a space on this link, and up to which version each has been told.

1. A watcher is told committed versions only, each once, in order.
2. Those who keep up share one version, so a change is told to all of them at once. One who cannot keep up lags: it is
   told nothing until it has room again, and then the difference between the state that it has and the newest one,
   never a growing queue.
3. The outcomes of a lagging device's own events are kept for it, up to `OWED_MAX`; beyond that it is sent away and
   starts over with a bootstrap, which tells it all of them.
4. On a link that is not the head the newest state may not be committed yet. A newcomer then waits until it is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import msgspec

from octoloom.core import device_messages as say
from octoloom.core import merge_patch
from octoloom.core.effects import Effect, Fan, Tell
from octoloom.core.event import Change
from octoloom.core.space import Space, decode_json, encode_json

OWED_MAX = 1024
DIFFERENCE_MIN = 8
"""From this many changes on a lagging watcher gets one difference instead of each change."""

Kills = dict[int, list[say.KillNote]]
Contested = Callable[[int, int], bool]
"""Does the device of this connection hold something else under this number?"""


@dataclass(frozen=True, slots=True)
class Content:
    """What brings a watcher to `version`: patches on what it has, or on top of a whole `state`. All JSON text."""

    version: int
    state: bytes | None
    patches: list[bytes]


class Lagging:
    """A watcher that was told nothing since `version`."""

    __slots__ = ("owed", "version")

    def __init__(self, version: int) -> None:
        self.version = version
        self.owed: list[say.KillNote] = []


class Newcomer:
    """A watcher whose welcome waits until `version` is committed; `owed` is what was settled since.

    What follows its welcome waits as well: a device that was told `busy` would forget it when it is welcomed.
    """

    __slots__ = ("following", "owed", "version", "welcome")

    def __init__(self, welcome: say.Welcome, version: int, following: Sequence[say.ToDevice]) -> None:
        self.welcome = welcome
        self.version = version
        self.following = following
        self.owed: list[say.KillNote] = []


class Audience:
    def __init__(self, space: Space) -> None:
        self.space = space
        self.version = space.committed
        self.watching: dict[int, None] = {}
        self.lagging: dict[int, Lagging] = {}
        self.newcomers: dict[int, Newcomer] = {}
        self._returning: dict[int, None] = {}
        self._kills: Kills = {}

    def __len__(self) -> int:
        return len(self.watching) + len(self.lagging) + len(self.newcomers)

    # Coming and going.

    def content(self, since: int | None) -> Content:
        """What brings one who has version `since` (None: nothing) to the newest version that can be shown.

        Its version is the committed one, or a later one where the only state at hand is not committed yet.
        """
        if since is not None and (changes := self._committed_since(since)) is not None:
            return self._content_of(changes)
        version, text = self.space.state_text()
        later = self._content_of(self._committed_since(version) or [])
        return Content(max(version, self.space.committed), later.state or text, later.patches)

    def welcome(
        self, connection: int, welcome: say.Welcome, hold: int = 0, following: Sequence[say.ToDevice] = ()
    ) -> list[Effect]:
        """Let a watcher in, at once if what its welcome shows (and `hold`) is committed; then tell it the rest."""
        self.drop(connection)
        version = max(welcome.version, hold)
        if version > self.space.committed:
            self.newcomers[connection] = Newcomer(welcome, version, following)
            return []
        if welcome.version == self.version:
            self.watching[connection] = None
        else:
            self._put_behind(connection, welcome.version)
        return [Tell(connection, message) for message in (welcome, *following)]

    def _put_behind(self, connection: int, version: int) -> None:
        """It joins the others as soon as both can be brought to the same version."""
        self.lagging[connection] = Lagging(version)
        self._returning[connection] = None

    def drop(self, connection: int) -> None:
        self.watching.pop(connection, None)
        self.lagging.pop(connection, None)
        self.newcomers.pop(connection, None)

    def congested(self, connection: int) -> None:
        """The watcher's connection is full: tell it nothing for now."""
        if connection in self.watching:
            del self.watching[connection]
            self.lagging[connection] = Lagging(self.version)

    def drained(self, connection: int) -> None:
        """The watcher has room again: the next `publish` tells it what it missed."""
        if connection in self.lagging:
            self._returning[connection] = None

    # Telling.

    def note(self, change: Change, owners: dict[str, int], contested: Contested) -> None:
        """A change was committed: remember whose events it settled until it is published."""
        kills = self._kills
        for kill in change.kills:
            connection = owners.get(kill.device)
            if connection is not None:
                note = (kill.sequencer, kill.outcome.word, kill.reason)
                if contested(connection, kill.sequencer):
                    note = (kill.sequencer, "superseded", "another event took this number")
                if connection in self.newcomers:
                    newcomer = self.newcomers[connection]
                    if change.version > newcomer.version:
                        newcomer.owed.append(note)  # what lies before is in its welcome
                elif connection in kills:
                    kills[connection].append(note)
                else:
                    kills[connection] = [note]

    def publish(self) -> list[Effect]:
        """Tell what has been committed since the last time."""
        out: list[Effect] = []
        if self.space.committed > self.version:
            content = self.content(self.version)
            if content.version > self.space.committed:
                return out  # only an uncommitted state is at hand; a later acknowledgement comes by here again
            kills, self._kills = self._kills, {}
            self._owe(kills, out)
            if self.watching:
                out.append(
                    Fan(list(self.watching), self.version, content.version, content.state, content.patches, kills)
                )
            self.version = content.version
        self._let_newcomers_in(out)
        for connection in list(self._returning):
            out.extend(self._catch_up(connection))
        return out

    def _committed_since(self, version: int) -> list[Change] | None:
        changes = self.space.ring.since(version)
        if changes and changes[-1].version > self.space.committed:
            return [change for change in changes if change.version <= self.space.committed]
        return changes

    def _content_of(self, changes: list[Change]) -> Content:
        """A replacement makes all before it pointless."""
        for at in range(len(changes) - 1, -1, -1):
            if changes[at].replace:
                return Content(self.space.committed, changes[at].merge, [change.merge for change in changes[at + 1 :]])
        return Content(self.space.committed, None, [change.merge for change in changes])

    def _owe(self, kills: Kills, out: list[Effect]) -> None:
        """Keep the outcomes of those who lag; the rest of `kills` is for those who watch."""
        for connection in [connection for connection in kills if connection not in self.watching]:
            notes = kills.pop(connection)
            lagging = self.lagging.get(connection)
            if lagging is None:
                continue
            lagging.owed.extend(notes)
            if len(lagging.owed) > OWED_MAX:
                self.drop(connection)
                out.append(Tell(connection, say.Refused("too-slow", "read faster, or connect again"), close=True))

    def _catch_up(self, connection: int) -> list[Effect]:
        """Bring a watcher to the audience's version, or leave it as it is until that can be done."""
        lagging = self.lagging.get(connection)
        if lagging is None:
            del self._returning[connection]
            return []
        content = self.content(lagging.version)
        if content.version != self.version:
            return []
        del self.lagging[connection], self._returning[connection]
        self.watching[connection] = None
        if lagging.version == self.version and not lagging.owed:
            return []
        patches = content.patches
        if content.state is None and len(patches) >= DIFFERENCE_MIN and self.version == self.space.version:
            patches = self._difference(patches)
        message = say.Changed(
            since=lagging.version,
            version=content.version,
            state=msgspec.UNSET if content.state is None else msgspec.Raw(content.state),
            patches=[msgspec.Raw(patch) for patch in patches],
            kills=lagging.owed,
        )
        return [Tell(connection, message)]

    def _difference(self, patches: list[bytes]) -> list[bytes]:
        try:
            values = merge_patch.difference([decode_json(patch) for patch in patches], self.space.state)
        except merge_patch.CannotPatch:
            return patches
        return [encode_json(value) for value in values]

    def _let_newcomers_in(self, out: list[Effect]) -> None:
        for connection, newcomer in list(self.newcomers.items()):
            if newcomer.version <= self.space.committed:
                del self.newcomers[connection]
                self._put_behind(connection, newcomer.welcome.version)
                self.lagging[connection].owed.extend(newcomer.owed)
                out.extend(Tell(connection, message) for message in (newcomer.welcome, *newcomer.following))
