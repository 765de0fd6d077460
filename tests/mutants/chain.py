"""Bugs in chains: heads, tails, neighbours, watchers, devices, and the register's part for them."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

CHAIN = (
    Mutant(
        "join-after-events",
        "a join comes before its device's events",
        "core/service.py",
        """        # The join comes before the events that the device brings along.
        self._chain.head.joined(now, space, request.device)
        welcome, following = door.bootstrap(now, connection, request, space)
""",
        """        welcome, following = door.bootstrap(now, connection, request, space)
        self._chain.head.joined(now, space, request.device)
""",
        "tests/core/test_service.py",
    ),
    Mutant(
        "journaled-of-older-generation",
        "a device is told only what is in the journal",
        "core/chain.py",
        "if generation == self.view.generation and space in self.spaces:",
        "if generation <= self.view.generation and space in self.spaces:",
        "tests/core/test_chain.py",
    ),
    Mutant(
        "joined-is-never-suspicious",
        "a fatal event is tried on one more tail, never again",
        "core/chain.py",
        "suspicious = self._joined_in != self.epoch",
        "suspicious = self._joined_in == 0",
        "tests/core/test_chain.py",
    ),
    Mutant(
        "difference-to-uncommitted",
        "watchers see committed state only",
        "core/audience.py",
        " and self.version == self.space.version:",
        ":",
        "tests/core/test_audience.py",
    ),
    Mutant(
        "seen-hole-is-closed",
        "an event is done once: a number is new once",
        "core/tags.py",
        """        if number > self.watermark:
            self.watermark = number
        if self.above:
            numbers""",
        """        self.watermark = number
        if self.above:
            numbers""",
        "tests/core/test_tags.py",
    ),
    Mutant(
        "sparse-set-unbounded",
        "what a peer can make us remember is bounded",
        "core/tags.py",
        """if len(self.above) >= self.above_max:
            raise""",
        """if len(self.above) > self.above_max:
            raise""",
        "tests/core/test_tags.py",
    ),
    Mutant(
        "ring-forgets-its-size",
        "the recent changes are bounded by size",
        "core/ring.py",
        "self._size -= self._changes.popleft().size",
        "self._changes.popleft()",
        "tests/core/test_ring.py tests/core/test_space.py",
    ),
    Mutant(
        "ring-tells-a-part",
        "whoever is behind gets all changes or the state, never a part",
        "core/ring.py",
        "if missing > len(self._changes):",
        "if missing > len(self._changes) + 1:",
        "tests/core/test_ring.py tests/core/test_space.py",
    ),
    Mutant(
        "ring-survives-restore",
        "a replica that jumped ahead does not serve changes of before",
        "core/space.py",
        """        self.ring.clear()
""",
        "",
        "tests/core/test_space.py",
    ),
    Mutant(
        "restore-forgets-kept-events",
        "a link brought up to date from below keeps the events that have not come down yet",
        "core/space.py",
        "if event.chain_sequencer >= snapshot.next_chain_sequencer]",
        "if event.chain_sequencer > snapshot.next_chain_sequencer]",
        "tests/core/test_space.py",
    ),
    Mutant(
        "time-goes-back-after-restore",
        "time never goes back within a space",
        "core/space.py",
        "self.time_ms = max(self.time_ms, snapshot.time_ms)",
        "self.time_ms = snapshot.time_ms",
        "tests/core/test_space.py tests/core/test_admission.py",
    ),
    Mutant(
        "recent-outcomes-unbounded",
        "what a space remembers of a device is bounded",
        "core/space.py",
        "if len(recent) > RECENT_MAX:",
        "if len(recent) > RECENT_MAX * RECENT_MAX:",
        "tests/core/test_space.py",
    ),
    Mutant(
        "digest-not-compared",
        "an event that took another's number is not called applied",
        "core/space.py",
        "if settled.digest != digest:",
        "if settled.digest and not digest:",
        "tests/core/test_space.py tests/core/test_admission.py",
    ),
    Mutant(
        "door-takes-beyond-a-gap",
        "a device's events are taken in order, without a gap",
        "core/admission.py",
        """            if sequencer > session.expected:
                return say.Gap(session.expected)
""",
        "",
        "tests/core/test_admission.py",
    ),
    Mutant(
        "busy-moves-on",
        "a refused event changes nothing",
        "core/admission.py",
        """            if refusal is not None:
                return refusal
""",
        """            if refusal is not None:
                session.expected = sequencer + 1
                return refusal
""",
        "tests/core/test_admission.py",
    ),
    Mutant(
        "door-time-goes-back",
        "time never goes back within a space",
        "core/admission.py",
        "max(now, space.time_ms), dice)",
        "now, dice)",
        "tests/core/test_admission.py",
    ),
    Mutant(
        "lost-store-reuses-numbers",
        "a device that lost its store never reuses a number",
        "core/admission.py",
        "next=max(request.next, history.next()),",
        "next=max(request.next, history.highest_done() + 1),",
        "tests/core/test_admission.py",
    ),
    Mutant(
        "fenced-connection-owns",
        "a newer connection of a device fences the older one",
        "core/admission.py",
        "if session is None or self.owners_of(session.space).get(session.device) != connection:",
        "if session is None:",
        "tests/core/test_admission.py tests/core/test_service.py",
    ),
    Mutant(
        "rate-bucket-overflows",
        "at most so many events a second",
        "core/admission.py",
        "session.allowance, session.allowance_ms = min(rate, session.allowance + gained), now",
        "session.allowance, session.allowance_ms = session.allowance + gained, now",
        "tests/core/test_admission.py",
    ),
    Mutant(
        "backlog-is-no-bound",
        "a head does not run away from its journal",
        "core/admission.py",
        "space.backlog.size >= limits.backlog_max:",
        "len(space.backlog) >= limits.backlog_max:",
        "tests/core/test_admission.py",
    ),
    Mutant(
        "leave-of-who-is-back",
        "who came back within the grace has not left",
        "core/head.py",
        """        self._absent.pop((space.name, device), None)
""",
        "",
        "tests/core/test_head.py",
        survives="whoever is connected when its grace ends is not noted as gone: only an entry stays a while longer",
    ),
    Mutant(
        "timer-rings-twice",
        "a timer fires once",
        "core/head.py",
        "if timer is not None and number not in space.device(TIMER).live:",
        "if timer is not None:",
        "tests/core/test_head.py",
    ),
    Mutant(
        "new-head-forgets-timers",
        "a timer fires, whoever is the head then",
        "core/head.py",
        """        for timer in space.timers.values():
            self._plan(timer.due_ms, _TIMER, space.name, timer.timer)
        for device""",
        "        for device",
        "tests/core/test_head.py",
    ),
    Mutant(
        "attendance-ignores-live",
        "a new head counts the joins and leaves that are under way",
        "core/head.py",
        "for number in space.device(PRESENCE).live.values():",
        "for number in ():",
        "tests/core/test_head.py",
    ),
    Mutant(
        "trial-clears-too-much",
        "only what came through a trial is computed by a last copy",
        "core/tail.py",
        "self._on_trial[space.name] = space.next_chain_sequencer - 1",
        "self._on_trial[space.name] = space.next_chain_sequencer",
        "tests/core/test_tail.py",
    ),
    Mutant(
        "quarantine-is-lost",
        "what ended the trial is quarantined",
        "core/tail.py",
        "worker.rule.quarantined.update(dict.fromkeys(fatal))",
        "worker.rule.quarantined = {}",
        "tests/core/test_tail.py",
    ),
    Mutant(
        "other-spaces-wait",
        "other spaces go on during a trial",
        "core/tail.py",
        "return any(name not in self._on_trial for name in self._busy)",
        "return bool(self._busy) and not self._on_trial",
        "tests/core/test_tail.py",
    ),
    Mutant(
        "office-keeps-suspects",
        "who is no longer the tail suspects nothing",
        "core/tail.py",
        """        self._suspects.clear()
""",
        "",
        "tests/core/test_tail.py",
    ),
    Mutant(
        "hello-without-acks",
        "observers on a link that is back see what was committed meanwhile",
        "core/neighbours.py",
        """        self._send(peer, say.Ack(chain.chain, chain.epoch, committed, journaled))
""",
        "",
        "tests/core/test_chain.py",
    ),
    Mutant(
        "events-after-changes",
        "a kill never overtakes the events before it",
        "core/neighbours.py",
        """        if events:
            self._send(peer, say.Events(chain.chain, chain.epoch, space.name, events))
        if behind and changes:
            consumed = space.backlog.events_since(at.version) if space.backlog is not None else []
            self._send(peer, say.Changes(chain.chain, chain.epoch, space.name, changes, consumed))
""",
        """        if behind and changes:
            consumed = space.backlog.events_since(at.version) if space.backlog is not None else []
            self._send(peer, say.Changes(chain.chain, chain.epoch, space.name, changes, consumed))
        if events:
            self._send(peer, say.Events(chain.chain, chain.epoch, space.name, events))
""",
        "tests/core/test_chain.py",
    ),
    Mutant(
        "teaches-while-doubting",
        "a learner does not take over what is on trial",
        "core/neighbours.py",
        " and not chain.tail.doubting",
        "",
        "tests/core/test_chain.py",
    ),
    Mutant(
        "early-hello-lost",
        "a hello from a newer epoch waits for its view",
        "core/neighbours.py",
        """            self._early[peer] = hello
            return
""",
        """            return
""",
        "tests/core/test_chain.py",
    ),
    Mutant(
        "up-open-survives-epoch",
        "changes wait until the upper neighbour has said where it stands",
        "core/neighbours.py",
        """    def on_new_epoch(self) -> None:
        self.up_open = False
""",
        """    def on_new_epoch(self) -> None:
""",
        "tests/core/test_chain.py",
    ),
    Mutant(
        "replaced-keeps-changes",
        "a link above a jump gets the whole space instead of changes",
        "core/neighbours.py",
        """        self._changes.pop(space.name, None)
        self._replaced""",
        "        self._replaced",
        "tests/core/test_chain.py",
        survives="changes behind the snapshot that includes them are passed over: only bytes are wasted",
    ),
    Mutant(
        "other-epoch-obeyed",
        "a message of another epoch is never obeyed",
        "core/chain.py",
        """        if message.epoch != self.epoch:
""",
        """        if message.epoch > self.epoch:
""",
        "tests/core/test_chain.py",
    ),
    Mutant(
        "commits-out-of-force",
        "nobody serves in a view before it is in force",
        "core/chain.py",
        "return self.whole and self.place.is_member and self.view.in_force and not self.suspended and not restoring",
        "return self.whole and self.place.is_member and not self.suspended and not restoring",
        "tests/core/test_chain.py tests/core/test_register.py tests/core/test_service.py",
    ),
    Mutant(
        "committed-beyond-version",
        "no link calls committed what it does not hold",
        "core/chain.py",
        "self._commit(space, min(version, space.version))",
        "self._commit(space, version)",
        "tests/core/test_chain.py",
    ),
    Mutant(
        "on-call-forgets",
        "a whole link that a view leaves out keeps everything until somebody has taken over",
        "core/chain.py",
        "return self.whole and not self.place.is_member and not self.view.in_force",
        "return False",
        "simulate chain 300",
    ),
    Mutant(
        "newcomer-owed-twice",
        "a device is told each outcome once",
        "core/audience.py",
        "if change.version > newcomer.version:",
        "if change.version >= newcomer.version:",
        "tests/core/test_audience.py tests/core/test_service.py tests/core/test_chain.py",
    ),
    Mutant(
        "owed-is-unbounded",
        "what is kept for a slow device is bounded",
        "core/audience.py",
        "if len(lagging.owed) > OWED_MAX:",
        "if len(notes) > OWED_MAX:",
        "tests/core/test_audience.py",
    ),
    Mutant(
        "welcome-not-held",
        "a device's outcomes are told when they are committed",
        "core/service.py",
        "hold = audience.space.version if welcome.kills else 0",
        "hold = 0",
        "tests/core/test_service.py tests/core/test_chain.py",
    ),
    Mutant(
        "observer-sees-back",
        "nobody sees a state that goes back",
        "core/service.py",
        "return request.generation == self._chain.view.generation and request.version > space.committed",
        "return False",
        "tests/core/test_service.py",
    ),
    Mutant(
        "token-of-another",
        "with a secret a device shows the token of its own name",
        "core/service.py",
        "not tokens.verify(limits.secret, request.device, request.token)",
        "not request.token",
        "tests/core/test_service.py",
    ),
    Mutant(
        "backlog-publishes-twice",
        "a head publishes each change once",
        "core/backlog.py",
        """            self.published = entries[-1].version
""",
        """            self.published = entries[0].version
""",
        "tests/core/test_backlog.py",
    ),
    Mutant(
        "backlog-size-leaks",
        "a space takes events again once the journal has caught up",
        "core/backlog.py",
        "self.size -= self._entries.popleft().size",
        "self._entries.popleft()",
        "tests/core/test_backlog.py",
    ),
    Mutant(
        "new-head-trusts-old",
        "a new head publishes what it does not know to be in the journal",
        "core/publishing.py",
        """                space.backlog.publish_anew()
""",
        "",
        "tests/core/test_publishing.py",
    ),
    Mutant(
        "settled-before-committed",
        "what a change settles is told when it is committed",
        "core/publishing.py",
        "while waiting and waiting[0].version <= space.committed:",
        "while waiting and waiting[0].version <= space.version:",
        "tests/core/test_publishing.py",
    ),
    Mutant(
        "roster-old-incarnation",
        "of each name the newest incarnation alone is not dead",
        "core/roster.py",
        "self._newest[name_of(link)] = max(link, self._newest.get(name_of(link), link), key=incarnation_of)",
        "self._newest[name_of(link)] = max(link, self._newest.get(name_of(link), link))",
        "tests/core/test_roster.py",
    ),
    Mutant(
        "roster-closed-has-full-lease",
        "who hung up is given up after its grace",
        "core/roster.py",
        "member.expires_at = now + self._closed_grace_ms",
        "member.expires_at = max(member.expires_at, now + self._closed_grace_ms)",
        "tests/core/test_roster.py",
    ),
    Mutant(
        "roster-forgets-proof",
        "the newest incarnation proves that an older one is lost",
        "core/roster.py",
        "kept = frozenset(named) | frozenset(self._newest.get(name_of(link), link) for link in named)",
        "kept = frozenset(named)",
        "tests/core/test_roster.py tests/core/test_register.py",
    ),
    Mutant(
        "suspicion-once-counts",
        "a complaint that is not repeated does not count",
        "core/suspicions.py",
        "if complaint.last_at > complaint.first_at]",
        "if complaint.last_at >= complaint.first_at]",
        "tests/core/test_suspicions.py",
    ),
    Mutant(
        "suspicions-never-forgotten",
        "an old complaint is forgotten",
        "core/suspicions.py",
        "if c.last_at >= oldest}",
        "if c.last_at >= 0}",
        "tests/core/test_suspicions.py",
    ),
    Mutant(
        "head-goes-first",
        "between equals the one nearest the tail goes",
        "core/suspicions.py",
        "for link in reversed(links)",
        "for link in links",
        "tests/core/test_suspicions.py",
    ),
    Mutant(
        "whole-without-force",
        "a link counts as whole only in a view in force",
        "core/chain_order.py",
        "if view and epoch == view.epoch and view.in_force and link in view.links",
        "if view and epoch == view.epoch and link in view.links",
        "tests/core/test_register.py",
    ),
    Mutant(
        "former-are-lost",
        "if those who were to go on die, those left out go on",
        "core/chain_order.py",
        "former=before.whole if before.in_force else before.former)",
        "former=before.whole)",
        "tests/core/test_register.py",
    ),
    Mutant(
        "grows-beside-the-unwhole",
        "a chain takes one learner at a time, when all there are are whole",
        "core/chain_order.py",
        "settled = all(link in view.whole and not self._roster.dead(link) for link in view.links)",
        "settled = any(link in view.whole and not self._roster.dead(link) for link in view.links)",
        "tests/core/test_register.py",
    ),
    Mutant(
        "register-punishes-own-pause",
        "nobody is given up for the time in which the register did not run",
        "core/register.py",
        """        self._roster.delay(late_ms)
        for order in self._orders:""",
        "        for order in self._orders:",
        "tests/core/test_register.py",
    ),
    Mutant(
        "announced-before-persisted",
        "the register tells nothing that is not durable",
        "core/register.py",
        "return [Persist(self._directory), Announce(self._directory)]",
        "return [Announce(self._directory), Persist(self._directory)]",
        "tests/core/test_register.py",
    ),
    Mutant(
        "register-amnesia",
        "a register that lost its store decides nothing",
        "core/register.py",
        "if known < epoch:",
        "if known + 1 < epoch:",
        "tests/core/test_register.py",
    ),
    Mutant(
        "book-bytes-leak",
        "a device takes events again once some are settled",
        "core/device_book.py",
        """                self._pending_bytes -= event.size
""",
        "",
        "tests/core/test_device_book.py",
    ),
    Mutant(
        "book-adopts-out-of-order",
        "a device resends its events in order",
        "core/device_book.py",
        """            self.pending = dict(sorted(self.pending.items()))
""",
        """            self.pending = dict(self.pending)
""",
        "tests/core/test_device_book.py",
    ),
    Mutant(
        "book-queue-counts-not",
        "a device holds so many unsettled events at most",
        "core/device_book.py",
        "count = len(self.pending) + len(self.queue)",
        "count = len(self.pending)",
        "tests/core/test_device_book.py",
    ),
    Mutant(
        "book-restart-reuses-tickets",
        "each action has its own ticket",
        "core/device_book.py",
        "self._next_ticket = 1 + max((action.ticket for action in self.queue), default=0)",
        "self._next_ticket = 1",
        "tests/core/test_device_book.py",
    ),
    Mutant(
        "ping-is-never-over",
        "a silent link is hung up on",
        "core/device_patience.py",
        "self._heard_at, self._pinged_at = now, None",
        "self._heard_at = now",
        "tests/core/test_device_patience.py",
    ),
    Mutant(
        "wait-for-ever",
        "a device never sleeps for good",
        "core/device_patience.py",
        "max(1, min(retry_ms, self._limits.retry_ms_max))",
        "max(1, retry_ms)",
        "tests/core/test_device_patience.py",
    ),
    Mutant(
        "device-skips-missing",
        "a device never shows a state with a hole in it",
        "core/device.py",
        """        if changed.since != self.version:
            return self._bootstrap(now)
""",
        """        if changed.since > self.version:
            return self._bootstrap(now)
""",
        "tests/core/test_device.py",
    ),
    Mutant(
        "device-old-kills",
        "an outcome that came with a known version is not lost",
        "core/device.py",
        """            return self._close(draft) if draft.removed else []
""",
        """            return []
""",
        "tests/core/test_device.py",
    ),
    Mutant(
        "device-persists-last",
        "nothing leaves a device before it is durable",
        "core/device.py",
        "return [self._book.close(draft), *told, *self._say(draft.numbered)]",
        "return [*self._say(draft.numbered), self._book.close(draft), *told]",
        "tests/core/test_device.py",
    ),
    Mutant(
        "device-redirects-for-ever",
        "two links that point at each other are not called in a circle",
        "core/device.py",
        """self.phase, self._redirects, self.links = Phase.READY, 0, list(links)
""",
        """self.phase, self.links = Phase.READY, list(links)
""",
        "tests/core/test_device.py",
    ),
)
