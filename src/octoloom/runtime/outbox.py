"""Obeys what a link's cores ask for: to neighbours, devices, the register, the log, and into trials.

What goes to a neighbour leaves first, as one frame per turn, since others wait for it; changes are then told to what
may be thousands of devices. Within each of these the order of the effects is kept.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Sequence

from octoloom.core.app import App
from octoloom.core.chain import Chain
from octoloom.core.compute import Fault
from octoloom.core.effects import Effect, Fan, Publish, Report, Restore, Tell, ToPeer, Trial
from octoloom.core.link_messages import LinkMessage, Stale
from octoloom.core.register_messages import ToRegister
from octoloom.runtime.doors import Doors
from octoloom.runtime.faults import FaultLog
from octoloom.runtime.journal import Journal
from octoloom.runtime.peers import Peers
from octoloom.runtime.trial import Trials
from octoloom.wire.device import close_changed, encode_changed_open

_log = logging.getLogger("octoloom.link")

OnJudged = Callable[[Chain, str, list[int]], None]


class Outbox:
    """`on_judged` is called with the fatal events of a space when its trial is over."""

    def __init__(
        self,
        app: App,
        doors: Doors,
        peers: Peers,
        report: Callable[[ToRegister], object],
        on_judged: OnJudged,
        journal: Journal | None = None,
        trials: Trials | None = None,
    ) -> None:
        self._app = app
        self._doors = doors
        self._peers = peers
        self._report = report
        self._on_judged = on_judged
        self._journal = journal
        self._faults = FaultLog()
        self._court = trials or Trials()
        self._trials: dict[tuple[str, str], asyncio.Task[None]] = {}

    def obey(self, chain: Chain, effects: Sequence[Effect]) -> int:
        """Returns how many microseconds of this process it took to tell changes to those who watch."""
        frames: dict[str, list[LinkMessage]] = {}
        for effect in effects:
            if isinstance(effect, ToPeer):
                frames.setdefault(effect.peer, []).append(effect.message)
                if type(effect.message) is Stale:
                    # The answer to a link that spoke in an old epoch: a fault of the other side like any other.
                    self._peers.counters["stale-epoch"] += 1
        for peer, messages in frames.items():
            self._peers.send(chain.chain, peer, messages)
        fanned_ns = 0
        for effect in effects:
            if isinstance(effect, Fan):
                # A process that had to wait for others has not spent anything: its own time counts, not the wall's.
                start_ns = time.thread_time_ns()
                self._fan(effect)
                fanned_ns += time.thread_time_ns() - start_ns
            elif not isinstance(effect, ToPeer):
                self._obey(chain, effect)
        return fanned_ns // 1000

    def _obey(self, chain: Chain, effect: Effect) -> None:
        if isinstance(effect, Tell):
            self._doors.tell(effect.connection, effect.message, effect.close)
        elif isinstance(effect, Publish):
            assert self._journal is not None
            self._journal.publish(chain.chain, chain.epoch, effect)
        elif isinstance(effect, Report):
            self._report(effect.message)
        elif isinstance(effect, Fault):
            self._faults.note(effect)
        elif isinstance(effect, Trial):
            self._try(chain, effect)
        elif isinstance(effect, Restore):
            assert self._journal is not None
            self._journal.restore(chain.chain, effect.generation)

    def _fan(self, effect: Fan) -> None:
        """One text for all, and one of their own for those whose events were settled."""
        opening = encode_changed_open(effect.since, effect.version, effect.patches, effect.state)
        kills = effect.kills
        for connection, notes in kills.items():
            self._doors.tell_all((connection,), close_changed(opening, notes))
        others = [number for number in effect.connections if number not in kills] if kills else effect.connections
        self._doors.tell_all(others, close_changed(opening))

    # Trials.

    def _try(self, chain: Chain, effect: Trial) -> None:
        key = chain.chain, effect.space
        before = self._trials.pop(key, None)
        if before is not None:
            # The link was tail before and is again: what was asked then is of no use now.
            before.cancel()
        self._trials[key] = asyncio.get_running_loop().create_task(self._judge(chain, effect))

    async def _judge(self, chain: Chain, effect: Trial) -> None:
        space = chain.spaces[effect.space]
        state = space.state if space.version else self._app.initial
        fatal = await self._court.judge(state, effect.events)
        del self._trials[chain.chain, effect.space]
        for number in fatal:
            _log.error("event %d of space %s ends the process that computes it: quarantined", number, effect.space)
        self._on_judged(chain, effect.space, fatal)

    async def close(self) -> None:
        """Ends the trials that are under way."""
        running = list(self._trials.values())
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
        self._court.close()
