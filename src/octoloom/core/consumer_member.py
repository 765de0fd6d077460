"""One member of a consumer group: when it joins, beats, commits, lets go of its partitions, and leaves.

Its driver asks what `Ask` says and brings back what came, reports when the app asks for the next delivery and when it
got one, and calls `on_time` at `deadline`. All times are in ms.

What it promises:

1. What was handed out is committed only when it is done: the next delivery was asked for, or the app said so.
2. Partitions change hands between deliveries only. While the app works this member stays in by its heartbeats, and the
   others wait, for `work_ms_max`; then it leaves, and joins again when the app comes back.
3. Before it gives up partitions it commits what is done, as the member of the generation that it was in. What is
   refused then is read again by another.
4. A commit of the app succeeds only if the coordinator took it from this member, in its generation.
5. A member that has heard nothing from the coordinator for a session hands nothing out until it has (`is_sure`):
   others may read its partitions by then.
6. A group that begins at the end commits where that is before anything is handed out: whoever goes on after a crash
   does not begin at a later end.

    OUT ──asked──▶ ENTERING ▶ (PLEDGING) ▶ READING ──the group changes, and the app asks──▶ HANDING_OVER ▶ ENTERING
"""

from __future__ import annotations

from collections.abc import Mapping

from octoloom.core import consumer_member_messages as say
from octoloom.core.consumer_commit_queue import CommitQueue, Kind, Wish
from octoloom.core.consumer_entry import Entry
from octoloom.core.consumer_member_messages import OVER, Phase
from octoloom.core.consumer_messages import GroupError
from octoloom.core.consumer_progress import Place, Progress
from octoloom.core.consumer_questions import Questions
from octoloom.core.consumer_standing import NOT_NOW, PASSING, Standing
from octoloom.core.consumer_timetable import HAND_OVER_MS, LEAVE_MS, Timetable
from octoloom.core.errors import UsageError


class Member:
    def __init__(self, settings: say.MemberSettings) -> None:
        self._settings = settings
        self.phase = Phase.OUT
        self.standing = Standing()
        self.is_revoked = False
        """The group divides its partitions anew: this member joins when the app asks for more."""
        self.progress = Progress()
        self._entry = Entry(settings, self.standing)
        self._commits = CommitQueue(self.progress, self.standing)
        self._is_asked = False
        self._times = Timetable(settings)
        self._say = Questions()
        self._beat = self._look = 0
        """Tickets of what is under way besides; 0 for nothing."""
        self._until: int | None = None
        """When handing over, closing and leaving have taken long enough."""

    @property
    def places(self) -> tuple[Place, ...]:
        """The partitions that this member reads, or is about to."""
        return self._entry.places if self._is_in or self.phase is Phase.HANDING_OVER else ()

    @property
    def _is_in(self) -> bool:
        """One of the group, as far as it knows, or was until a moment ago: the app may still work on what it got."""
        return self.phase in (Phase.PLEDGING, Phase.READING) or (self.phase is Phase.ENTERING and self._entry.is_in)

    # What the app does.

    def on_asked(self, now: int) -> list[say.Effect]:
        """The app asks for the next delivery, and is done with the one before."""
        self.progress.on_next_asked()
        self._is_asked, self._times.working_since = True, None
        if self.phase is Phase.OUT or (self._is_in and self.is_revoked):
            self._hand_over(now)
        return self._say.take()

    def on_handed_out(self, place: Place, offset: int) -> None:
        """The app gets what is before this offset."""
        assert place in self.places
        assert self.phase is Phase.READING
        assert not self.is_revoked
        self.progress.on_handed_out(place, offset)

    def on_working(self, now: int) -> None:
        """The app has got a delivery, or does not wait any more."""
        self._is_asked, self._times.working_since = False, now

    def is_sure(self, now: int) -> bool:
        """Whether this member may hand out what it has."""
        return self.phase is Phase.READING and not self.is_revoked and self._times.is_heard(now)

    def on_doubt(self, now: int) -> list[say.Effect]:
        """There is something to hand out, and it is not sure: asks the coordinator."""
        if self._is_in and self.standing.is_in and not self._beat:
            self._send_beat(now)
        return self._say.take()

    def on_place_gone(self, now: int) -> list[say.Effect]:
        """An offset to read from is not there any more."""
        if self.phase is Phase.READING and not self.is_revoked:
            self._say.add(say.Halt())
            self.phase = Phase.ENTERING
            self._say.ask_step(self._entry.relocate(self.progress.done))
        return self._say.take()

    def on_commit(self, now: int, number: int, offsets: Mapping[Place, int] | None = None) -> list[say.Effect]:
        """The app wants all that was handed out committed, or these offsets. It is settled later under its number."""
        wanted = self.progress.handed_out if offsets is None else dict(offsets)
        for topic, partition in wanted:
            if (topic, partition) not in self.places:
                raise UsageError(f"{topic}-{partition} is not read by this consumer: see `partitions`")
        if offsets is None and self.progress.has_lost:
            self.progress.has_lost = False
            self._say.add(say.Settle(number, GroupError.ILLEGAL_GENERATION))
        elif not self._is_in or not self.standing.is_in:
            is_on_its_way = self.phase in (Phase.ENTERING, Phase.HANDING_OVER)
            code = GroupError.REBALANCE_IN_PROGRESS if is_on_its_way else GroupError.UNKNOWN_MEMBER_ID
            self._say.add(say.Settle(number, code))
        else:
            self._commits.add(Wish(Kind.APP, now + self._settings.patience_ms, wanted, number))
            self._next_commit(now)
        return self._say.take()

    def on_close(self, now: int) -> list[say.Effect]:
        if self.phase in OVER:
            return []
        self._say.add(say.Halt())
        if self.phase is Phase.HANDING_OVER:
            self.phase = Phase.CLOSING
        elif self._is_in and self.standing.is_in and self._settings.commit_ms is not None:
            self._last_commit(now, Phase.CLOSING)
        else:
            if self.phase is Phase.ENTERING and self._entry.is_held:
                # On the same connection the coordinator would answer that first.
                self._say.add(say.Reconnect())
            self._leave(now)
        return self._say.take()

    # What comes back.

    def on_reply(self, now: int, ticket: int, reply: say.Reply) -> list[say.Effect]:
        if ticket == self._beat and isinstance(reply, say.Done):
            self._on_beat(now, reply.error)
        elif ticket == self._commits.ticket and isinstance(reply, say.Done):
            self._on_commit(now, reply.error)
        elif ticket == self._look and isinstance(reply, say.Counted):
            self._look = 0
            if dict(reply.partitions) != self._entry.divided:
                self._revoke(now)
        elif ticket == self._say.step:
            self._say.step = 0
            if isinstance(reply, say.Done):
                self._retry_step(now) if reply.error in PASSING else self._end()
            else:
                self._on_step(now, reply)
        return self._say.take()

    def on_failed(self, now: int, ticket: int, reason: int | Exception, passes: bool) -> list[say.Effect]:
        """No answer came, or none that is of use; if it `passes`, the same may be asked again."""
        assert reason
        if ticket == self._beat:
            self._beat = 0
            self._on_trouble(reason, passes)
        elif ticket == self._look:
            self._look = 0
        elif ticket == self._commits.ticket:
            self._on_commit_failed(now, reason, passes)
        elif ticket == self._say.step:
            self._say.step = 0
            if passes:
                self._retry_step(now)
            elif self.phase is Phase.LEAVING:
                self._end()
            else:
                self._fail(reason)
        return self._say.take()

    def _on_step(self, now: int, reply: say.Reply) -> None:
        was_in = self._entry.is_in
        following = self._entry.on_reply(reply)
        self._say.add(*self._entry.take_notes())
        if self._entry.is_in and not was_in:
            self._times.on_in(now)
        if isinstance(following, int):
            self._on_refused(now, following)
        elif following is not None:
            self._say.ask_step(following)
        else:
            self._on_entered(now)

    def _on_refused(self, now: int, code: int) -> None:
        """Something on the way in was refused. Who is out by now joins, whatever he asked."""
        if code in PASSING:
            self._retry_step(now)
        elif code in NOT_NOW:
            self._entry.begin()
            self._say.again_at = now + self._times.next_pause_ms()
        else:
            self._fail(code)

    # In.

    def _join(self) -> None:
        self._settle_all(GroupError.REBALANCE_IN_PROGRESS)
        self.phase, self.is_revoked, self._until = Phase.ENTERING, False, None
        self._say.ask_step(self._entry.begin())

    def _on_entered(self, now: int) -> None:
        self.progress.begin(self._entry.starts, self._entry.committed)
        if self._settings.start == "end" and self.progress.not_committed(self.progress.done):
            self.phase = Phase.PLEDGING
            self._commits.add(Wish(Kind.PLEDGE, None))
            self._next_commit(now)
        else:
            self._read()

    def _read(self) -> None:
        self.phase = Phase.READING
        self._times.on_reading()
        if self._entry.places and not self.is_revoked:
            self._say.add(say.Read(self.progress.done))

    # Staying in.

    def _send_beat(self, now: int) -> None:
        self._times.on_beat_sent(now)
        self._beat = self._say.ask(say.Beat(self.standing.member, self.standing.generation))

    def _on_beat(self, now: int, code: int) -> None:
        self._beat = 0
        if code in (GroupError.NONE, GroupError.REBALANCE_IN_PROGRESS):
            self._times.on_heard()
        if code in NOT_NOW:
            self.standing.on_refused(code)
            self._revoke(now)
        elif code:
            self._on_trouble(code, code in PASSING)

    def _on_trouble(self, reason: int | Exception, passes: bool) -> None:
        if passes:
            self._say.add(say.Reconnect())
        else:
            self._fail(reason)

    def _revoke(self, now: int) -> None:
        """Reading is over; until the app asks for more, what it has is still its own."""
        if self._is_in:
            self.is_revoked = True
            self._say.add(say.Halt())
            if self._is_asked:
                self._hand_over(now)

    # Commits.

    def _next_commit(self, now: int) -> None:
        while (step := self._commits.advance()) is not None:
            if isinstance(step, say.Commit):
                self._commits.ticket = self._say.ask(step)
            else:
                self._on_commit_over(now, *step)

    def _on_commit(self, now: int, code: int) -> None:
        if code in PASSING:
            self._on_commit_failed(now, code, True)
            return
        self._on_commit_over(now, *self._commits.on_reply(code))
        if code in NOT_NOW:
            self._revoke(now)
        self._next_commit(now)

    def _on_commit_failed(self, now: int, reason: int | Exception, passes: bool) -> None:
        self._say.add(say.Reconnect())
        over = self._commits.on_failed(now, reason, now + self._times.next_pause_ms() if passes else None)
        if over is not None:
            self._on_commit_over(now, *over)
            self._next_commit(now)

    def _on_commit_over(self, now: int, wish: Wish, error: int | Exception) -> None:
        if wish.kind is Kind.APP:
            self._say.add(say.Settle(wish.number, error))
        elif wish.kind is Kind.PLEDGE and self.phase is Phase.PLEDGING:
            if not error:
                self._read()
            elif error not in NOT_NOW:
                self._fail(error)
        elif wish.kind is Kind.LAST:
            if error:
                self._say.add(say.Note(f"what was done last is not committed ({error}): it will be read again"))
            if self.phase is Phase.CLOSING:
                self._leave(now)
            else:
                self._join()

    # Out.

    def _hand_over(self, now: int) -> None:
        """Commits what is done, and joins."""
        self._beat = self._look = 0
        self._say.drop_step()
        news = self.progress.not_committed(self.progress.done) if self._settings.commit_ms is not None else {}
        if self.standing.is_in and (news or self._commits):
            self._last_commit(now, Phase.HANDING_OVER)
        else:
            self._join()

    def _last_commit(self, now: int, phase: Phase) -> None:
        self.phase, self._until = phase, now + HAND_OVER_MS
        self._commits.add(Wish(Kind.LAST, self._until, None if self._settings.commit_ms is not None else {}))
        self._next_commit(now)

    def _leave(self, now: int) -> None:
        self._settle_all(GroupError.UNKNOWN_MEMBER_ID)
        self.phase, self._until = Phase.LEAVING, now + LEAVE_MS
        if self.standing.member:
            self._say.ask_step(say.Leave(self.standing.member))
        else:
            self._end()

    def _end(self) -> None:
        self.phase, self._until = Phase.CLOSED, None
        self._say.drop_step()
        self.standing.on_left()
        self._say.add(say.Ended())

    def _fail(self, reason: int | Exception) -> None:
        """Whoever asks again joins again."""
        if self.phase not in OVER:
            self._drop()
            self._say.add(say.Fail(reason))

    def _drop(self) -> None:
        self._settle_all(GroupError.UNKNOWN_MEMBER_ID)
        self.phase, self.standing.generation, self._until = Phase.OUT, -1, None
        self._say.add(say.Halt())

    def _settle_all(self, code: GroupError) -> None:
        """Nothing that was under way counts any more."""
        self._say.add(*(say.Settle(wish.number, code) for wish in self._commits.clear()))
        self.progress.end()
        self._beat = self._look = 0
        self._say.drop_step()

    # Time.

    def deadline(self) -> int | None:
        """When `on_time` wants to be called."""
        times = [self._say.again_at, self._commits.again_at, self._until]
        if self._is_in and self.standing.is_in:
            times += [self._times.work_until, None if self._beat else self._times.beat_at]
            times += [None if self._settings.commit_ms is None else self._times.commit_at]
            times += [self._times.look_at if self._may_look else None]
        return min((time for time in times if time is not None), default=None)

    @property
    def _may_look(self) -> bool:
        return bool(self._entry.divided) and not self._look and not self.is_revoked

    def on_time(self, now: int) -> list[say.Effect]:
        if self._until is not None and now >= self._until:
            self._until = None
            self._on_long_enough(now)
        if self._say.again_at is not None and now >= self._say.again_at:
            is_leaving = self.phase is Phase.LEAVING
            self._say.ask_step(say.Leave(self.standing.member) if is_leaving else self._entry.repeat())
        if self._commits.again_at is not None and now >= self._commits.again_at:
            self._commits.again_at = None
            self._next_commit(now)
        if self._is_in and self.standing.is_in:
            self._stay(now)
        return self._say.take()

    def _on_long_enough(self, now: int) -> None:
        if self.phase is Phase.HANDING_OVER:
            self._join()
        else:
            self._leave(now) if self.phase is Phase.CLOSING else self._end()

    def _stay(self, now: int) -> None:
        if self._times.work_until is not None and now >= self._times.work_until:
            self._step_aside()
            return
        if not self._beat and now >= self._times.beat_at:
            self._send_beat(now)
        if self._settings.commit_ms is not None and now >= self._times.commit_at:
            self._times.on_committing(now)
            if self.phase is Phase.READING and not self._commits:
                self._commits.add(Wish(Kind.TIMER, now))
                self._next_commit(now)
        if self._may_look and now >= self._times.look_at:
            self._times.on_looking(now)
            self._look = self._say.ask(say.Count(tuple(self._entry.divided)))

    def _step_aside(self) -> None:
        self._say.add(say.Note(f"a delivery took longer than {self._settings.work_ms_max} ms: another member goes on"))
        self._drop()
        self._say.ask(say.Leave(self.standing.member))
        self.standing.on_left()

    def _retry_step(self, now: int) -> None:
        self._say.add(say.Reconnect())
        self._say.again_at = now + self._times.next_pause_ms()
