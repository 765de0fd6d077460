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

from collections import Counter, deque

from octoloom.core import causal, fifo, sequencer, unordered
from octoloom.core.casting import Casting
from octoloom.core.causal import ConcurrentMessages
from octoloom.core.errors import ProtocolError, UsageError
from octoloom.core.filters import Delivery
from octoloom.core.group_effects import (
    Complain,
    Conflict,
    Deliver,
    DeliverDirect,
    Dropped,
    Effect,
    Expelled,
    InstallView,
    NeedState,
    TakeState,
    ToMembers,
)
from octoloom.core.group_messages import (
    Acked,
    Bundle,
    Cast,
    Cut,
    Delay,
    Direct,
    Fetch,
    Fill,
    Forward,
    GroupView,
    Have,
    Install,
    Nak,
    Numbered,
    Part,
    Ready,
    Refused,
    Reliable,
    Report,
    Resent,
    Stable,
    State,
    SuspectMember,
)
from octoloom.core.group_settings import GroupSettings
from octoloom.core.sequencer import Admission, ForwardTable
from octoloom.core.steps import FORWARDED, ORDERED, VIEW, Step
from octoloom.core.transition import Transition
from octoloom.core.unicast import Unicast

BUILT_IN = (unordered, fifo, causal, sequencer)
"""The modules that register the orders."""
OUTBOX_BYTES_MAX = 8 * 1024 * 1024
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
        self._transition: Transition | None = None
        """How the next view comes about, while one does."""
        self._known_epoch = 0
        self._unicasts: dict[str, Unicast] = {}
        self._received: dict[str, int] = {}
        self._forwards = ForwardTable()
        self._admission = Admission({})
        self._to_forward: list[Bundle] = []
        self._to_order: list[Bundle] = []
        self._outbox: deque[tuple[bytes, int, bool]] = deque()
        self._outbox_bytes = 0
        self._numbered = 0
        self._early: list[Cast] = []
        self._early_reports: dict[str, Report] = {}
        self._delays: dict[str, int] = {}
        self._lacks_state = self.settings.wants_state
        self._awaits_state = False
        self._held: list[Effect] = []
        self._complain_at: int | None = None
        self._expected: int | None = None

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
        full = self._outbox_bytes > OUTBOX_BYTES_MAX or self._forwards.size > self.settings.forward_bytes_max
        return full or (self.casting is not None and self.casting.nakack.congested)

    @property
    def settled(self) -> bool:
        """All that was sent has been delivered here or cast, and all members have it."""
        if self.casting is None or self.frozen or self._outbox or len(self._forwards):
            return False
        return not self.casting.nakack.unstable

    def waits_for(self) -> tuple[str, int] | None:
        """The (member, count) that the oldest cast held back lacks."""
        return self.casting.order.waits_for() if self.casting is not None else None

    @property
    def lacks_state(self) -> bool:
        return self._lacks_state

    def received(self, origin: str) -> int:
        """The last bundle of an origin that was delivered here."""
        return self._received.get(origin, 0)

    def knows(self, member: str) -> bool:
        """Whether this is a member of the view that is installed, or of the one that comes next."""
        if self._transition is not None:
            return member in self._transition.members
        return self.installed is not None and member in self._received

    # Sending.

    def send(self, now: int, payload: bytes, count: int = 1, plain: bool = False) -> None:
        """To all others (under `total`: to all). `plain` passes by the order."""
        self._check_open(payload)
        if self.casting is None or self.frozen or self._awaits_state:
            self._outbox.append((payload, count, plain))
            self._outbox_bytes += len(payload)
        else:
            self._dispatch(now, payload, count, plain)

    def send_to(self, now: int, member: str, payload: bytes) -> None:
        """To one member alone, past any order."""
        self._check_open(payload)
        self._check_member(member)
        if self._unicast(member).full:
            raise UsageError(f"{member} does not take what it was sent: wait before you send more")
        self.say(now, member, Direct(payload))

    def set_minimum_delay(self, now: int, member: str, delay_ms: int) -> None:
        self._check_member(member)
        self.say(now, member, Delay(delay_ms))

    def give_state(self, now: int, epoch: int, members: list[str], payload: bytes) -> None:
        for member in members:
            if self.knows(member):
                self.say(now, member, State(epoch, payload))

    def _check_open(self, payload: bytes) -> None:
        if self.expelled:
            raise UsageError(f"{self.me} is no longer in {self.group}: join again")
        if len(payload) > self.settings.payload_max:
            raise UsageError(f"a message has at most {self.settings.payload_max} bytes here, not {len(payload)}")

    def _check_member(self, member: str) -> None:
        if member == self.me or not self.knows(member):
            others = [name for name in self._received if name != self.me]
            raise UsageError(f"{member} is not in {self.group}: choose one of {', '.join(others) or 'nobody, yet'}")

    def _dispatch(self, now: int, payload: bytes, count: int, plain: bool) -> None:
        assert self.casting is not None
        if plain:
            self.casting.cast(now, [Bundle(self.me, 0, count, payload)], plain=True)
            return
        self._numbered += 1
        self._dispatch_bundle(now, Bundle(self.me, self._numbered, count, payload))

    def _dispatch_bundle(self, now: int, bundle: Bundle) -> None:
        assert self.casting is not None
        if not self.casting.is_total:
            self.casting.cast(now, [bundle])
            return
        self._forwards.add(bundle)
        if self.casting.leads:
            self._to_order += self._admission.admit(self.me, [bundle])
        else:
            self._to_forward.append(bundle)

    # Views.

    def on_view(self, now: int, view: GroupView) -> None:
        """The register has announced a view."""
        if self.expelled or view.epoch <= self._known_epoch:
            return
        self._known_epoch = view.epoch
        if self.me not in view.names:
            self._expel(view.epoch)
            return
        if self.casting is not None:
            self.casting.release(None)
        self._to_forward.clear()
        self._to_order.clear()
        self._unicasts = {member: unicast for member, unicast in self._unicasts.items() if member in view.names}
        self._transition = Transition(now, view, self)
        early, self._early_reports = self._early_reports, {}
        self._transition.start(now, {member: report for member, report in early.items() if member in view.names})

    def _expel(self, epoch: int) -> None:
        self.expelled = True
        self._transition = None
        self._emit(Expelled(epoch, self._forwards.take_all()))

    def install(self, now: int, install: Install) -> None:
        """Begin a view: everything of the one before has been delivered."""
        before, self.installed = self.installed, install
        view, vector = install.view, install.vector
        if self._transition is not None and self._transition.view.epoch <= view.epoch:
            self._transition = None
        if self.casting is not None:
            self._delays = self.casting.delays()
        self._received = {member: vector[member][1] for member in view.names}
        self._admission = Admission(self._received)
        counts = {member: vector[member][0] for member in view.names}
        self.casting = Casting(
            now, view, self.me, counts, self.settings, self.counters, self._emit, self._on_delivery, self._on_plain
        )
        for member, delay_ms in self._delays.items():
            self.casting.set_delay(member, delay_ms)
        self._announce(before, install)
        if self._transition is None:
            self._resume(now, before is not None and before.view.names[0] != view.names[0])
        else:
            self._transition.report(now)

    def _announce(self, before: Install | None, install: Install) -> None:
        view, old = install.view, before.view.names if before is not None else []
        joined = [member for member in view.names if member not in old]
        left = [member for member in old if member not in view.names]
        if self.settings.tracing:
            self._emit(Step(VIEW, self.me, members=view.names, epoch=view.epoch, text=view.order))
        self._emit(InstallView(view, joined, left))
        self._awaits_state = self.me in install.newcomers
        self._held.clear()
        if self._lacks_state and not self._awaits_state:
            self._lacks_state = False
            self._emit(TakeState(None))
        giver = next((member for member in view.names if member not in install.newcomers), "")
        if install.newcomers and giver == self.me:
            self._emit(NeedState(view.epoch, install.newcomers))

    def _resume(self, now: int, led_by_another: bool) -> None:
        """Send what had to wait, oldest first, and look at what came early."""
        bundles = self._forwards.take_all()
        if bundles and led_by_another and self.settings.failover == "drop":
            self._emit(Dropped(bundles))
            bundles = []
        if self._forwards.size == 0 and not bundles:
            self._numbered = self._received[self.me]
        for bundle in bundles:
            self._dispatch_bundle(now, bundle)
        self._send_outbox(now)
        early, self._early = self._early, []
        for cast in early:
            self._take_cast(now, cast)

    def _send_outbox(self, now: int) -> None:
        if self._awaits_state:
            return  # the state is older than what the app has to say
        outbox, self._outbox, self._outbox_bytes = self._outbox, deque(), 0
        for payload, count, plain in outbox:
            self._dispatch(now, payload, count, plain)

    # What comes in.

    def on_packet(self, now: int, peer: str, parts: list[Part]) -> None:
        """Raises `ProtocolError` at a part that is not in order; those after it are not looked at."""
        if self.expelled:
            return
        if not self.knows(peer) or peer == self.me:
            self.counters["not-a-member"] += 1
            raise ProtocolError("not-a-member", f"{peer} is not in {self.group} as {self.me} knows it")
        try:
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
            case Resent(casts):
                for cast in casts:
                    self._take_cast(now, cast)
            case Numbered():
                for reliable in self._unicast(peer).on_numbered(part):
                    self._on_reliable(now, peer, reliable)
            case Acked(number):
                self._unicast(peer).on_acked(now, number)
            case Nak() if self._is_current(part.epoch):
                assert self.casting is not None
                for member, answer in self.casting.on_nak(peer, part):
                    self._emit(ToMembers([member], answer))
            case Have(_, counts) if self._is_current(part.epoch):
                assert self.casting is not None
                self.casting.stability.on_have(now, peer, counts)
            case Stable() if self._is_current(part.epoch):
                assert self.casting is not None
                self.casting.on_stable(now, peer, part)
            case _:
                self.counters["old-view"] += 1

    def _is_current(self, epoch: int) -> bool:
        return not self.frozen and self.casting is not None and epoch == self.casting.epoch

    def _take_cast(self, now: int, cast: Cast) -> None:
        if self._is_current(cast.epoch):
            self._order(now, cast)
        elif self.casting is not None and cast.epoch <= self.casting.epoch:
            self.counters["old-view"] += 1
        elif len(self._early) < EARLY_MAX:
            self._early.append(cast)  # its sender has the next view installed already
        else:
            self.counters["no-room"] += 1

    def _order(self, now: int, cast: Cast) -> None:
        assert self.casting is not None
        try:
            self.casting.on_cast(now, cast)
        except ConcurrentMessages as conflict:
            self._emit(Conflict(str(conflict)))

    def _on_reliable(self, now: int, peer: str, part: Reliable) -> None:
        match part:
            case Forward():
                self._on_forward(now, peer, part)
            case Direct(payload):
                self._emit(DeliverDirect(peer, payload))
            case Delay(delay_ms):
                self._delays[peer] = delay_ms
                if self.casting is not None:
                    self.casting.set_delay(peer, delay_ms)
            case Refused():
                self.counters["refused"] += 1
            case State(epoch, payload):
                self._on_state(now, epoch, payload)
            case Report() if self._transition is None or part.epoch > self._transition.view.epoch:
                if part.epoch > self._known_epoch:
                    self._early_reports[peer] = part
            case Report() | Fetch() | Fill() | Cut() | Ready() | Install():
                self._on_transition(now, peer, part)

    def _on_transition(self, now: int, peer: str, part: Report | Fetch | Fill | Cut | Ready | Install) -> None:
        if self._transition is not None:
            self._transition.on_part(now, peer, part)

    def take_fill(self, now: int, casts: list[Cast]) -> None:
        """Casts of the view that ends, from its union."""
        for cast in casts:
            if self.casting is not None and cast.epoch == self.casting.epoch:
                self._order(now, cast)
        if self.casting is not None:
            self.casting.release(None)

    # Total order.

    def _on_forward(self, now: int, peer: str, forward: Forward) -> None:
        casting = self.casting
        if casting is None or not self._is_current(forward.epoch) or not casting.is_total or not casting.leads:
            self.counters["wrong-view"] += 1
            epoch = casting.epoch if casting is not None else 0
            self.say(now, peer, Refused(epoch, "wrong-view", f"{self.me} does not order in view {forward.epoch}"))
            return
        try:
            self._to_order += self._admission.admit(peer, forward.bundles)
        except ProtocolError as error:
            self.say(now, peer, Refused(casting.epoch, error.code, error.detail))
            raise

    def _on_delivery(self, delivery: Delivery) -> None:
        cast = delivery.cast
        if cast.plain:
            return  # it was delivered when it arrived
        for bundle in cast.bundles:
            if bundle.number <= self._received.get(bundle.origin, 0) and self._is_total():
                self.counters["duplicates"] += 1
                continue
            self._received[bundle.origin] = max(bundle.number, self._received.get(bundle.origin, 0))
            if bundle.origin == self.me:
                self._forwards.remove(bundle.number)
            self._hand_over(Deliver(bundle, delivery.concurrent, delivery.path))

    def _is_total(self) -> bool:
        return self.casting is not None and self.casting.is_total

    def _on_plain(self, cast: Cast) -> None:
        for bundle in cast.bundles:
            self._hand_over(Deliver(bundle))

    def _hand_over(self, effect: Deliver) -> None:
        if self._awaits_state:
            self._held.append(effect)
        else:
            self._emit(effect)

    def _on_state(self, now: int, epoch: int, payload: bytes) -> None:
        if not self._awaits_state or self.installed is None or self.installed.view.epoch != epoch:
            return
        self._awaits_state = self._lacks_state = False
        self._emit(TakeState(payload))
        self._out += self._held
        self._held.clear()
        if not self.frozen:
            self._send_outbox(now)

    # Speaking.

    def _emit(self, effect: Effect) -> None:
        self._out.append(effect)

    def _unicast(self, member: str) -> Unicast:
        if member not in self._unicasts:
            self._unicasts[member] = Unicast(self.settings.retry_ms)
        return self._unicasts[member]

    def say(self, now: int, member: str, part: Reliable) -> None:
        """To one member, surely."""
        self._emit(ToMembers([member], self._unicast(member).send(now, part)))

    def on_peer_up(self, now: int, member: str) -> None:
        """There is a new connection to this member: what was under way on the old one may be lost."""
        if member in self._unicasts:
            self._unicasts[member].hurry(now)

    # Turns and time.

    def flush(self, now: int) -> list[Effect]:
        """The end of a turn: all that the core wants done."""
        if self.casting is not None and not self.frozen:
            self._flush_bundles(now, self.casting)
        if (due := self.deadline()) is not None and due <= now:
            self.on_time(now)
        for member, unicast in self._unicasts.items():
            if unicast.ack_due:
                self._emit(ToMembers([member], Acked(unicast.ack())))
        out, self._out = self._out, []
        self._expected = self.deadline()
        return out

    def _flush_bundles(self, now: int, casting: Casting) -> None:
        if self._to_forward:
            bundles, self._to_forward = self._to_forward, []
            for batch in self._in_batches(bundles):
                self.say(now, casting.members[0], Forward(casting.epoch, batch))
            self._trace(FORWARDED, bundles)
        if self._to_order:
            bundles, self._to_order = self._to_order, []
            self._trace(ORDERED, bundles)
            for batch in self._in_batches(bundles):
                casting.cast(now, batch)

    def _trace(self, name: str, bundles: list[Bundle]) -> None:
        if self.settings.tracing:
            for bundle in bundles:
                self._emit(Step(name, self.me, bundle.origin, bundle.number, epoch=self._known_epoch))

    def _in_batches(self, bundles: list[Bundle]) -> list[list[Bundle]]:
        batches: list[list[Bundle]] = []
        size = self.settings.cast_bytes_max
        for bundle in bundles:
            if size + len(bundle.payload) > self.settings.cast_bytes_max:
                batches.append([])
                size = 0
            batches[-1].append(bundle)
            size += len(bundle.payload)
        return batches

    def deadline(self) -> int | None:
        if self.expelled:
            return None
        times = [time for unicast in self._unicasts.values() if (time := unicast.deadline()) is not None]
        if self.casting is not None and not self.frozen:
            times.append(self.casting.deadline())
        if self._complain_at is not None:
            times.append(self._complain_at)
        return min(times, default=None)

    def on_time(self, now: int) -> None:
        if self.expelled:
            return
        if self._expected is not None and now - self._expected > LATE_MS and self.casting is not None:
            self.casting.stability.forgive(now)
        for member, unicast in self._unicasts.items():
            for numbered in unicast.due(now):
                self.counters["resent"] += 1
                self._emit(ToMembers([member], numbered))
        if self.casting is not None and not self.frozen:
            self.casting.on_time(now)
        self._complain(now)

    def _complain(self, now: int) -> None:
        """Tells the register, again and again, who cannot be reached."""
        if self._complain_at is not None and now < self._complain_at:
            return
        patience_ms = self.settings.patience_ms
        self._complain_at = now + patience_ms // 4 if self._received or self._transition else None
        silent: dict[str, None] = {}
        if self._transition is not None:
            silent.update(dict.fromkeys(self._transition.silent(now, patience_ms)))
        elif self.casting is not None:
            silent.update(dict.fromkeys(self.casting.stability.silent(now, patience_ms)))
        for member, unicast in self._unicasts.items():
            since = unicast.unacked_since
            if since is not None and now - since > patience_ms:
                silent[member] = None
        for member in silent:
            self._emit(Complain(SuspectMember(self._known_epoch, member)))
