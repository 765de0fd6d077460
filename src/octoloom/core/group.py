"""A member of an ordered group: one state machine over views, casts and an order.

The register alone makes views. A view that it announces is a *target*: the member freezes (it casts nothing and takes
no more casts of the view before), reports to the target's coordinator what it has, and goes on when that one says that
the view is installed (`gathering` tells how it gets there). Promises, for members that go from one view to the next:

1. both views are the same to all of them, and so is the set of casts delivered between them, in the group's order;
2. what a member sends is delivered once at every member of the view that it is delivered in, and its own messages in
   the order it sent them (not under `none`);
3. what was sent while frozen, or forwarded and not ordered before the coordinator was lost, goes out in the next view,
   in order, ahead of newer sends;
4. a newcomer begins where its first view does: with the vector of that view, and the app's state at that place.

Who is left out of a view has to come back as somebody new. What it delivered last may be more than the others got.

What a driver owes: it hands over what the app sent before it hands over what was received later, calls `flush` at the
end of each turn and obeys what it answers in order, and calls `on_time` at `deadline()`. Packets may be lost, doubled
and reordered. All times are monotonic ms.
"""

from __future__ import annotations

from collections import Counter

from octoloom.core import causal, fifo, sequencer, stamps, unordered
from octoloom.core import group_effects as effect
from octoloom.core import group_messages as say
from octoloom.core.casting import Casting
from octoloom.core.complaints import Complaints
from octoloom.core.errors import ProtocolError, UsageError
from octoloom.core.filters import Delivery, orders
from octoloom.core.group_effects import Effect
from octoloom.core.group_messages import Bundle, Cast, GroupView, Install, Part, Reliable
from octoloom.core.group_settings import GroupSettings
from octoloom.core.newcomer import Newcomer
from octoloom.core.outgoing import Outgoing
from octoloom.core.speech import Speech
from octoloom.core.steps import DELIVERED, VIEW, Step
from octoloom.core.transition import Transition

BUILT_IN = (unordered, fifo, causal, sequencer, stamps)
"""The modules that register the orders."""
EARLY_MAX = 1_000
LATE_MS = 200
"""A timer that is later than this means that this member did not run."""


class GroupMember:
    def __init__(self, group: str, me: str, settings: GroupSettings | None = None) -> None:
        self.group = group
        self.me = me
        self.settings = settings or GroupSettings()
        self.counters: Counter[str] = Counter()
        self.installed: Install | None = None
        self.casting: Casting | None = None
        self.expelled = False
        self._out: list[Effect] = []
        self.speech = Speech(self.settings.retry_ms, self._emit)
        self.newcomer = Newcomer(me, self.settings.wants_state, self._emit)
        self.outgoing = Outgoing(me, self.settings, self.speech, self._emit)
        self._transition: Transition | None = None
        """How the next view comes about, while one does."""
        self._known_epoch = 0
        self._members: dict[str, None] = {}
        """Of the view that is installed, or of the one that comes next."""
        self._received: dict[str, int] = {}
        """The received-table: of each origin the last bundle that was delivered."""
        self._early: list[Cast] = []
        self._early_reports: dict[str, say.Report] = {}
        self._delays: dict[str, int] = {}
        self._complaints = Complaints(self.settings.patience_ms)
        self._deadline: int | None = None

    # Questions.

    @property
    def view(self) -> GroupView | None:
        return self.installed.view if self.installed is not None else None

    @property
    def frozen(self) -> bool:
        return self._transition is not None

    @property
    def congested(self) -> bool:
        """The app had better wait before it sends more."""
        return self.outgoing.congested or (self.casting is not None and self.casting.nakack.congested)

    @property
    def settled(self) -> bool:
        """All that was sent has been ordered or cast, and all members have it."""
        if self.casting is None or self.frozen or not self.outgoing.empty:
            return False
        return not self.casting.nakack.unstable

    def waits_for(self) -> tuple[str, int] | None:
        """The (member, count) that the oldest cast held back lacks."""
        return self.casting.order.waits_for() if self.casting is not None else None

    def in_doubt(self) -> list[Bundle]:
        """What was sent here and may not have reached all, oldest first: for when this member's time is over."""
        casts = self.casting.nakack.unstable_casts() if self.casting is not None else []
        cast = [bundle for each in casts for bundle in each.bundles if bundle.origin == self.me]
        return [*cast, *self.outgoing.take_all()]

    def received(self, origin: str) -> int:
        """The last bundle of an origin that was delivered here. One's own are, where they are cast at once."""
        if origin == self.me and self.casting is not None and not self.casting.is_total:
            return self.outgoing.numbered
        return self._received.get(origin, 0)

    def knows(self, member: str) -> bool:
        """Whether this is a member of the view that is installed, or of the one that comes next."""
        return member in self._members

    def deadline(self) -> int | None:
        """When `on_time` wants to be called; it holds after `flush`."""
        return self._deadline

    # Sending.

    def send(self, now: int, payload: bytes, count: int = 1, plain: bool = False) -> None:
        """To all others (under `total`: to all). `plain` passes by the order."""
        self._check_open(payload)
        if self.casting is None or self.frozen or self.newcomer.waits:
            self.outgoing.wait(payload, count, plain)
        else:
            self.outgoing.send(now, self.casting, payload, count, plain)

    def send_to(self, now: int, member: str, payload: bytes) -> None:
        """To one member alone, past any order."""
        self._check_open(payload)
        self._check_member(member)
        self.speech.check_room(member)
        self.speech.say(now, member, say.Direct(payload))

    def set_minimum_delay(self, now: int, member: str, delay_ms: int) -> None:
        self._check_member(member)
        if delay_ms < 0:
            raise UsageError(f"a delay is 0 ms or more, not {delay_ms}")
        self.speech.say(now, member, say.Delay(delay_ms))

    def give_state(self, now: int, epoch: int, members: list[str], payload: bytes) -> None:
        for member in filter(self.knows, members):
            self.speech.say(now, member, say.State(epoch, payload))

    def _check_open(self, payload: bytes) -> None:
        if self.expelled:
            raise UsageError(f"{self.me} is no longer in {self.group}: join again")
        if len(payload) > self.settings.payload_max:
            raise UsageError(f"a message has at most {self.settings.payload_max} bytes here, not {len(payload)}")

    def _check_member(self, member: str) -> None:
        if member == self.me or not self.knows(member):
            others = ", ".join(name for name in self._members if name != self.me)
            raise UsageError(f"{member} is not in {self.group}: choose one of {others or 'nobody, yet'}")

    # Views.

    def on_view(self, now: int, view: GroupView) -> None:
        """The register has announced a view."""
        if self.expelled or view.epoch <= self._known_epoch:
            return
        self._known_epoch = view.epoch
        if self.me not in view.names:
            self._expel(view.epoch, "the group has gone on without this member")
            return
        if view.order not in orders:
            self._expel(view.epoch, f"the group's order is now {view.order!r}, which is not known here")
            return
        if self.casting is not None:
            self.casting.release(None)
        self.outgoing.freeze()
        self._members = dict.fromkeys(view.names)
        self.speech.keep(self._members)
        self._transition = Transition(now, view, self)
        early = {member: report for member, report in self._early_reports.items() if member in self._members}
        self._early_reports = {member: report for member, report in early.items() if report.epoch > view.epoch}
        self._transition.start(now, early)

    def _expel(self, epoch: int, reason: str) -> None:
        self.expelled, self._transition = True, None
        self.outgoing.freeze()
        self._emit(effect.Expelled(epoch, self.in_doubt(), reason))

    def install(self, now: int, install: Install) -> None:
        """Begin a view: everything of the one before has been delivered."""
        before, self.installed = self.installed, install
        view, vector = install.view, install.vector
        if self._transition is not None and self._transition.view.epoch <= view.epoch:
            self._transition = None
        self._received = {member: vector[member][1] for member in view.names}
        self.outgoing.begin(self._received)
        counts = {member: vector[member][0] for member in view.names}
        self.casting = Casting(
            now, view, self.me, counts, self.settings, self.counters, self._emit, self._on_delivery, self._on_plain
        )
        self._delays = {member: delay for member, delay in self._delays.items() if member in self._members}
        for member, delay_ms in self._delays.items():
            self.casting.set_delay(member, delay_ms)
        self._announce(before, install)
        if self._transition is not None:
            self._transition.report(now)
        else:
            self._resume(now, self.casting, before is not None and before.view.names[0] != view.names[0])

    def _announce(self, before: Install | None, install: Install) -> None:
        view, old = install.view, before.view.names if before is not None else []
        joined = [member for member in view.names if member not in old]
        left = [member for member in old if member not in view.names]
        if self.settings.tracing:
            self._emit(Step(VIEW, self.me, members=view.names, epoch=view.epoch, text=view.order))
        self._emit(effect.InstallView(view, joined, left))
        self.newcomer.on_installed(install)

    def _resume(self, now: int, casting: Casting, is_failover: bool) -> None:
        """Send what had to wait, oldest first, and look at what came early."""
        self.outgoing.resend(now, casting, self._received[self.me], is_failover)
        if not self.newcomer.waits:
            self.outgoing.send_outbox(now, casting)
        early, self._early = self._early, []
        for cast in early:
            try:
                self._take_cast(now, cast)
            except ProtocolError as error:  # not the fault of who says that the view begins
                self.counters[error.code] += 1

    # What comes in.

    def on_packet(self, now: int, peer: str, parts: list[Part]) -> None:
        """Raises `ProtocolError` at a part that is not in order; those after it are not looked at."""
        if self.expelled:
            return
        try:
            if not self.knows(peer) or peer == self.me:
                raise ProtocolError("not-a-member", f"{peer} is not in {self.group} as {self.me} knows it")
            for part in parts:
                self._on_part(now, peer, part)
        except ProtocolError as error:
            self.counters[error.code] += 1
            raise

    def _on_part(self, now: int, peer: str, part: Part) -> None:
        match part:
            case Cast():
                if part.sender != peer:
                    raise ProtocolError("forged-sender", f"{peer} casts in the name of {part.sender}")
                self._take_cast(now, part)
            case say.Resent(casts):
                for cast in casts:
                    self._take_cast(now, cast)
            case say.Numbered():
                for reliable in self.speech.on_numbered(peer, part):
                    self._on_reliable(now, peer, reliable)
            case say.Acked(number):
                self.speech.on_acked(now, peer, number)
            case say.Nak() | say.Have() | say.Stable():
                self._on_casting(now, peer, part)

    def _on_casting(self, now: int, peer: str, part: say.Nak | say.Have | say.Stable) -> None:
        """About the casts of a view: of no use in any other."""
        casting = self._casting_of(part.epoch)
        if casting is None:
            self.counters["old-view"] += 1
        elif isinstance(part, say.Nak):
            for answer in casting.on_nak(part):
                self._emit(effect.ToMembers([peer], answer))
        elif isinstance(part, say.Have):
            casting.stability.on_have(now, peer, part.counts)
        else:
            casting.on_stable(now, peer, part)

    def _casting_of(self, epoch: int) -> Casting | None:
        """The casting of this view, if it is installed and goes on."""
        is_current = self.casting is not None and self.casting.epoch == epoch and not self.frozen
        return self.casting if is_current else None

    def _take_cast(self, now: int, cast: Cast) -> None:
        casting = self._casting_of(cast.epoch)
        if casting is not None and self.newcomer.full:
            self.counters["no-room"] += 1
        elif casting is not None:
            casting.on_cast(now, cast)
        elif self.casting is not None and cast.epoch <= self.casting.epoch:
            self.counters["old-view"] += 1
        elif len(self._early) < EARLY_MAX:
            self._early.append(cast)  # its sender has the next view installed already
        else:
            self.counters["no-room"] += 1

    def _on_reliable(self, now: int, peer: str, part: Reliable) -> None:
        match part:
            case say.Forward():
                self._on_forward(now, peer, part)
            case say.Direct(payload):
                self._emit(effect.DeliverDirect(peer, payload))
            case say.Delay(delay_ms):
                if delay_ms < 0:
                    raise ProtocolError("bad-delay", f"{peer} wants a delay of {delay_ms} ms")
                self._delays[peer] = delay_ms
                if self.casting is not None:
                    self.casting.set_delay(peer, delay_ms)
            case say.Refused():
                self.counters["refused"] += 1
            case say.State(epoch, payload):
                if self.newcomer.on_state(epoch, payload) and self.casting is not None and not self.frozen:
                    self.outgoing.send_outbox(now, self.casting)
            case say.Report() if part.epoch > self._known_epoch:
                self._early_reports[peer] = part  # the register has told its sender before us
            case say.Report() | say.Fetch() | say.Fill() | say.Cut() | say.Ready() | Install():
                if self._transition is not None:
                    self._transition.on_part(now, peer, part)

    # Order.

    def _on_forward(self, now: int, peer: str, forward: say.Forward) -> None:
        casting = self._casting_of(forward.epoch)
        if casting is None or not casting.is_total or not casting.leads:
            self.counters["wrong-view"] += 1
            detail = f"{self.me} does not order in view {forward.epoch}"
            self.speech.say(now, peer, say.Refused(self._known_epoch, "wrong-view", detail))
            return
        try:
            self.outgoing.on_forward(peer, forward.bundles)
        except ProtocolError as error:
            self.speech.say(now, peer, say.Refused(self._known_epoch, error.code, error.detail))
            raise

    def _on_delivery(self, delivery: Delivery) -> None:
        """A cast's turn has come."""
        cast, received = delivery.cast, self._received
        if cast.plain:
            return  # it was delivered when it arrived
        is_total = self.casting is not None and self.casting.is_total
        for bundle in cast.bundles:
            last = received.get(bundle.origin, 0)
            if is_total and bundle.number <= last:
                self.counters["duplicates"] += 1
                continue
            received[bundle.origin] = max(bundle.number, last)
            if bundle.origin == self.me:
                self.outgoing.forwards.remove(bundle.number)
            if is_total and self.settings.tracing:
                self._emit(Step(DELIVERED, self.me, bundle.origin, bundle.number, epoch=cast.epoch))
            self.newcomer.hand_over(effect.Deliver(bundle, delivery.concurrent, delivery.path))

    def _on_plain(self, cast: Cast) -> None:
        for bundle in cast.bundles:
            self.newcomer.hand_over(effect.Deliver(bundle))

    # Turns and time.

    def _emit(self, wanted: Effect) -> None:
        self._out.append(wanted)

    def on_peer_up(self, now: int, member: str) -> None:
        """There is a new connection to this member: what was under way on the old one may be lost."""
        self.speech.hurry(now, member)
        self._deadline = now

    def flush(self, now: int) -> list[Effect]:
        """The end of a turn: all that the core wants done."""
        if self.casting is not None and not self.frozen:
            self.outgoing.flush(now, self.casting)
        if self._deadline is not None and self._deadline <= now:
            self.on_time(now)
        self.speech.acknowledge()
        out, self._out = self._out, []
        self._reckon(now)
        return out

    def _reckon(self, now: int) -> None:
        if self.expelled:
            self._deadline = None
            return
        if self._known_epoch:
            self._complaints.begin(now)
        times = [time for time in (self.speech.deadline(), self._complaints.due_at) if time is not None]
        if self.casting is not None and not self.frozen:
            times.append(self.casting.deadline())
        # What has become due by now is not late.
        self._deadline = max(min(times), now) if times else None

    def on_time(self, now: int) -> None:
        if self.expelled:
            return
        if self._deadline is not None and now - self._deadline > LATE_MS and self.casting is not None:
            self.casting.stability.forgive(now)
        self.counters["resent"] += self.speech.resend(now)
        if self.casting is not None and not self.frozen:
            self.casting.on_time(now)
        patience_ms = self.settings.patience_ms
        unreachable = self.speech.unreachable(now, patience_ms)
        for member in self._complaints.take(now, unreachable, self._silent(now, patience_ms)):
            self._emit(effect.Complain(say.SuspectMember(self._known_epoch, member)))

    def _silent(self, now: int, patience_ms: int) -> list[str]:
        if self._transition is not None:
            return self._transition.silent(now, patience_ms)
        return self.casting.stability.silent(now, patience_ms) if self.casting is not None else []
