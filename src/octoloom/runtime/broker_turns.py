"""A broker's turn, at the end of each tick of the loop that brought something; at once, if the broker was quiet before.

1. What was admitted and taken is written, one write per log. A write that fails is taken back, and whoever waited for
   it is told; the broker serves on. A little that was written stays at hand until the turn ends, for the followers.
2. The sync begins, if one is wanted and none runs.
3. The core says what to do about everything together, and it is done, in order.
4. Consumers whose time is up are answered, and every connection with something to say sends it, once.

So the cost of a write, a sync or a send is shared by all that came in one tick.

The files of new and deleted replicas are made and removed for a short time in each turn, and the rest in the next ones:
a topic may have thousands, and the register and all clients want to hear of this broker meanwhile.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterable
from time import monotonic

from octoloom.core import broker_effects as do
from octoloom.core.errors import StoreError
from octoloom.core.log_messages import Accept, BrokerToRegister, ProposeInSync, Refuse, TopicInfo, TopicPartition
from octoloom.runtime.broker_fetch import Fetch
from octoloom.runtime.broker_followers import Followers
from octoloom.runtime.broker_leaders import Leaders
from octoloom.runtime.broker_logs import FRESH_BYTES_MAX, Fresh, Replica
from octoloom.runtime.broker_produce import Produce
from octoloom.runtime.broker_sockets import Sockets
from octoloom.runtime.broker_state import BrokerState
from octoloom.runtime.broker_sync import Synced, Syncer
from octoloom.wire.kafka.errors import ErrorCode

FILES_S = 0.1
"""How long files are made and removed in one turn."""
FLUSHES_MAX = 64
"""In one turn; what is left then waits for the next one."""

_log = logging.getLogger("octoloom.broker")


class Turns:
    def __init__(
        self,
        state: BrokerState,
        sockets: Sockets,
        syncer: Syncer,
        produce: Produce,
        fetch: Fetch,
        followers: Followers,
        leaders: Leaders,
        report: Callable[[BrokerToRegister], None],
    ) -> None:
        self._state = state
        self._sockets = sockets
        self._syncer = syncer
        self._produce = produce
        self._fetch = fetch
        self._followers = followers
        self._leaders = leaders
        self._report = report
        self._failing: dict[TopicPartition, str] = {}
        """Logs whose last write failed, and why."""
        self._written: Iterable[Replica] = ()
        """In this turn."""
        self._files: deque[do.Open | do.Close] = deque()
        """Replicas whose files are to be made or removed, in order."""
        self._unopened: dict[TopicPartition, TopicInfo] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._due: int | None = None
        """When the core wants a turn. Once that time has come there is no timer."""

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def take(self) -> None:
        self._sockets.is_turn = True
        try:
            self._take()
        finally:
            self._sockets.is_turn = False
            for replica in self._written:
                replica.fresh = None
            self._written = ()
        self._arm()

    def _take(self) -> None:
        state = self._state
        if self._timer is None and self._due is not None:
            state.core.on_time(state.clock.now())
        if state.dirty:
            self._write()
        if not state.is_written_durable:
            self._syncer.start()
        self._flush_all()
        if self._files:
            self._work_on_files()
            self._flush_all()
            if self._files:
                state.soon()
        self._sockets.recycle()
        self._fetch.answer_late()
        self._sockets.flush()

    def _flush_all(self) -> None:
        for _ in range(FLUSHES_MAX):
            if not self._flush():
                break
        else:
            self._state.soon()

    def _arm(self) -> None:
        """Has a turn when the core wants one. A timer costs more than to see that it still fits."""
        due = self._state.core.deadline()
        if due == self._due and (due is None or self._timer is not None):
            return
        self.close()
        self._timer, self._due = None, due
        if due is not None:
            delay_ms = max(due - self._state.clock.now(), 0)
            self._timer = self._state.loop.call_later(delay_ms / 1000, self._on_time)

    def _on_time(self) -> None:
        self._timer = None
        self._state.soon()

    # Writing.

    def _write(self) -> None:
        state = self._state
        dirty, state.dirty = state.dirty, {}
        self._written = dirty
        for replica in dirty:
            batches, headers = replica.batches, replica.headers
            replica.batches, replica.headers = [], []
            try:
                size = replica.log.append(batches, headers)
            except StoreError as error:
                self._on_failed_write(replica, error)
                continue
            if replica.name in self._failing:
                del self._failing[replica.name]
                _log.info("%s-%d can be written again", *replica.name)
            if replica.local:
                self._produce.on_written(replica, 0)
            if state.logs.replicas.get(replica.name) is not replica:
                continue  # its topic was deleted in this very tick
            if replica.partition.leading is not None:
                if size <= FRESH_BYTES_MAX:
                    replica.fresh = Fresh(headers[0].base_offset, replica.log.end, size, batches)
                state.core.on_admitted(replica.name)
            if state.is_written_durable:
                state.core.on_durable(replica.name, replica.log.end)
            self._syncer.want(replica)

    def _on_failed_write(self, replica: Replica, error: StoreError) -> None:
        if replica.name not in self._failing:
            _log.error("%s-%d cannot be written: %s", *replica.name, error)
        self._failing[replica.name] = str(error)
        replica.on_cut()
        if self._state.replicas.get(replica.name) is replica:
            tail = replica.tail(self._state.is_written_durable)
            self._state.core.on_tail(self._state.clock.now(), replica.name, tail, failed=True)
        self._produce.on_written(replica, ErrorCode.KAFKA_STORAGE_ERROR)

    def on_synced(self, synced: Synced) -> None:
        if self._state.is_written_durable:
            return
        for replica, cuts, end in synced:
            # What was synced before the log was cut says nothing about what came after.
            if replica.cuts == cuts and self._state.replicas.get(replica.name) is replica:
                self._state.core.on_durable(replica.name, end)
        self._state.soon()

    # Obeying.

    def _flush(self) -> bool:
        """Obeys what the core asks for. True: there is more to ask it."""
        more = False
        for effect in self._state.core.flush(self._state.clock.now()):
            more |= self._obey(effect)
        return more

    def _obey(self, effect: do.Effect) -> bool:
        match effect:
            case do.Acknowledge(answers):
                self._produce.on_acknowledged(answers)
            case do.Moved(names):
                self._fetch.on_moved(names)
            case do.SendFrame():
                return self._followers.send_frame(effect)
            case do.SendDurable(peer, durable):
                self._leaders.say(peer, durable)
            case do.SendFollow(peer, follow):
                self._leaders.say(peer, follow)
            case do.Report(message):
                self._tell(message)
            case do.Dial(peer):
                self._leaders.dial(peer)
            case do.HangUp(peer):
                self._leaders.hang_up(peer)
            case do.Truncate(name, offset) | do.Reset(name, offset):
                self._cut(name, offset, isinstance(effect, do.Reset))
                return True
            case _:
                return self._obey_rarely(effect)
        return False

    def _obey_rarely(self, effect: do.Effect) -> bool:
        state = self._state
        match effect:
            case do.Open() | do.Close():
                self._files.append(effect)
            case do.Trim(name, offset):
                self._trim(name, offset)
            case do.LeadershipTaken(name, epoch):
                partition = state.core.partitions[name]
                _log.info("%s-%d is led here in epoch %d, from offset %d", *name, epoch, partition.end)
                self._fetch.on_lost(state.replicas.get(name))
                for listener in state.listeners:
                    listener.on_leadership_taken(name, epoch)
            case do.LeadershipLost(name):
                _log.info("%s-%d is not led here any more", *name)
                self._fetch.on_lost(state.replicas.get(name))
                for listener in state.listeners:
                    listener.on_leadership_lost(name)
            case do.Fault(name, text):
                _log.critical("%s-%d stops here, somebody has to look: %s", *name, text)
        return False

    def _work_on_files(self) -> None:
        """Makes and removes files for a while."""
        until = monotonic() + FILES_S
        while self._files:
            effect = self._files.popleft()
            if isinstance(effect, do.Open):
                self._open(effect.name, effect.info)
            else:
                self._fetch.on_lost(self._state.logs.drop(effect.name, effect.info))
                _log.info("%s-%d is deleted", *effect.name)
            if monotonic() >= until:
                break

    def _open(self, name: TopicPartition, info: TopicInfo) -> bool:
        """Without space there may be no log yet. Until there is, this broker neither leads nor follows with it."""
        state = self._state
        partition, known = state.core.partitions.get(name), state.core.topics.get(name[0])
        if partition is None or partition.opened or known is None or known.number != info.number:
            return False  # it was deleted meanwhile, and perhaps made anew
        try:
            replica = state.logs.take(name, info, partition)
        except StoreError as error:
            _log.error("%s-%d cannot be opened: %s", *name, error)
            self._unopened[name] = info
            state.core.on_unopened(name)
            return False
        state.core.on_tail(state.clock.now(), name, replica.tail(state.is_written_durable))
        return True

    def open_again(self) -> None:
        """Tries what could not be opened once more."""
        unopened, self._unopened = self._unopened, {}
        for name, info in unopened.items():
            if self._open(name, info):
                self._state.soon()

    def _cut(self, name: TopicPartition, offset: int, is_reset: bool) -> None:
        replica = self._state.replicas[name]
        before = replica.log.end
        self._followers.on_cut()
        replica.on_cut()
        if is_reset:
            replica.log.reset(offset)
        else:
            replica.log.truncate(offset)
        _log.info("%s-%d is cut from %d to %d to agree with its leader", *name, before, replica.log.end)
        self._state.core.on_tail(self._state.clock.now(), name, replica.tail(self._state.is_written_durable))

    def _trim(self, name: TopicPartition, offset: int) -> None:
        replica = self._state.replicas[name]
        try:
            replica.log.trim(min(offset, replica.log.end))
        except StoreError as error:
            _log.error("%s", error)
        self._state.core.on_trimmed(name, replica.log.start)

    def _tell(self, message: BrokerToRegister) -> None:
        match message:
            case Accept(transition, ends):
                _log.info("transition %d is accepted here%s", transition, "".join(map(_end_text, ends)))
            case Refuse(transition, reason):
                _log.info("transition %d is refused here: %s", transition, reason)
            case ProposeInSync(changes):
                for topic, number, epoch, _, wanted in changes:
                    _log.info("%s-%d in epoch %d should be in sync: %s", topic, number, epoch, " ".join(wanted))
        self._report(message)


def _end_text(end: tuple[str, int, int, int, int]) -> str:
    topic, number, epoch, offset, high = end
    return f"; {topic}-{number} ends in epoch {epoch} at {offset}, committed to {high}"
