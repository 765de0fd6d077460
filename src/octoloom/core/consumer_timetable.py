"""When a member of a consumer group has to do something, in ms, and how sure it may be that it is still one."""

from __future__ import annotations

from octoloom.core.consumer_member_messages import MemberSettings

HAND_OVER_MS = 3_000
"""How long the others wait for a last commit that does not go through."""
LEAVE_MS = 2_000
PAUSE_MS = 50
PAUSE_MS_MAX = 1_000


class Timetable:
    def __init__(self, settings: MemberSettings) -> None:
        self._settings = settings
        self.beat_at = self.commit_at = self.look_at = 0
        self.working_since: int | None = None
        self._heard_at = self._beat_sent = 0
        self._pause_ms = PAUSE_MS

    def on_in(self, now: int) -> None:
        self._heard_at = now
        self.beat_at, self.look_at = now + self._settings.beat_ms, now + self._settings.look_ms
        self.on_committing(now)

    def on_reading(self) -> None:
        """All went well: the next trouble begins with a short pause."""
        self._pause_ms = PAUSE_MS

    def on_beat_sent(self, now: int) -> None:
        self.beat_at, self._beat_sent = now + self._settings.beat_ms, now

    def on_heard(self) -> None:
        """The coordinator takes it for a member, at least since the heartbeat was sent."""
        self._heard_at = self._beat_sent

    def on_committing(self, now: int) -> None:
        self.commit_at = now + (self._settings.commit_ms or 0)

    def on_looking(self, now: int) -> None:
        self.look_at = now + self._settings.look_ms

    def is_heard(self, now: int) -> bool:
        """For no longer than a session ago."""
        return now - self._heard_at <= self._settings.session_ms

    @property
    def work_until(self) -> int | None:
        return None if self.working_since is None else self.working_since + self._settings.work_ms_max

    def next_pause_ms(self) -> int:
        """Before something is tried again: twice as long each time."""
        pause, self._pause_ms = self._pause_ms, min(2 * self._pause_ms, PAUSE_MS_MAX)
        return pause
