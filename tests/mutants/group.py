"""Bugs in ordered groups: casts, gaps, stability, orders, and the way from one view to the next."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

GROUP = (
    Mutant(
        "nak-beyond-stable",
        "what is stable is not asked for",
        "core/nakack.py",
        "for number in range(stream.stable + 1, min(count, stream.seen.watermark) + 1):",
        "for number in range(stream.stable + 1, min(count, stream.seen.watermark)):",
        "tests/core/test_nakack.py",
    ),
    Mutant(
        "last-is-forgotten",
        "a gap at the end of a sender's casts is noticed",
        "core/nakack.py",
        """                stream.last = last
                self._watch(now, stream)
""",
        """                stream.last = last
""",
        "tests/core/test_nakack.py",
    ),
    Mutant(
        "asks-sender-only",
        "what a dead sender has sent is got from others",
        "core/nakack.py",
        "if asked <= SENDER_TRIES or not others:",
        "if asked >= 0 or not others:",
        "tests/core/test_nakack.py",
    ),
    Mutant(
        "kept-bytes-leak",
        "a member takes casts again when older ones are stable",
        "core/nakack.py",
        "self.kept_bytes -= size_of(stream.kept.pop(number))",
        "stream.kept.pop(number)",
        "tests/core/test_nakack.py",
    ),
    Mutant(
        "resends-everything",
        "what is sent again at once is bounded",
        "core/nakack.py",
        """        if size > RESENT_BYTES_MAX and at:
""",
        """        if at >= ASKED_MAX:
""",
        "tests/core/test_nakack.py",
    ),
    Mutant(
        "holds-watermark-only",
        "a view ends when each has all of the union",
        "core/nakack.py",
        "stream.seen.watermark < watermark or not all(map(stream.seen.has, above)):",
        "stream.seen.watermark < watermark:",
        "tests/core/test_nakack.py",
    ),
    Mutant(
        "stable-by-most",
        "stable is what all have",
        "core/stability.py",
        "list(map(min, *known, counts)), list(map(max, *known, lasts)))",
        "list(map(max, *known, counts)), list(map(max, *known, lasts)))",
        "tests/core/test_stability.py",
    ),
    Mutant(
        "counts-go-back",
        "an old word does not make casts unstable",
        "core/stability.py",
        "self._known[member] = list(map(max, self._known[member], counts))",
        "self._known[member] = list(counts)",
        "tests/core/test_stability.py",
    ),
    Mutant(
        "stable-from-anybody",
        "only the coordinator says what is stable",
        "core/stability.py",
        "if member != self._members[0] or not len(counts) == len(lasts) == len(self._members):",
        "if not len(counts) == len(lasts) == len(self._members):",
        "tests/core/test_stability.py",
    ),
    Mutant(
        "own-pause-accuses",
        "who did not run accuses nobody of silence",
        "core/stability.py",
        """            self._heard_at[member] = now
""",
        """            self._heard_at[member] = max(now, now) - 10**6
""",
        "tests/core/test_stability.py",
    ),
    Mutant(
        "ack-of-what-is-ahead",
        "what lies beyond a gap is not acknowledged",
        "core/unicast.py",
        """        return self._next - 1
""",
        """        return max(self._ahead, default=self._next - 1)
""",
        "tests/core/test_unicast.py",
    ),
    Mutant(
        "ahead-unbounded",
        "what waits behind a gap is bounded",
        "core/unicast.py",
        "if number < self._next or number >= self._next + AHEAD_MAX:",
        "if number < self._next:",
        "tests/core/test_unicast.py",
    ),
    Mutant(
        "duplicate-not-acked",
        "a lost acknowledgement is said again",
        "core/unicast.py",
        """        self.ack_due = True
        if number < self._next or number >= self._next + AHEAD_MAX:
            return []
""",
        """        if number < self._next or number >= self._next + AHEAD_MAX:
            return []
        self.ack_due = True
""",
        "tests/core/test_unicast.py",
    ),
    Mutant(
        "resend-timer-stays",
        "what was acknowledged is not sent again",
        "core/unicast.py",
        "self._resend_at = now + self._retry_ms if self._unacked else None",
        "self._resend_at = now + self._retry_ms",
        "tests/core/test_unicast.py",
    ),
    Mutant(
        "backoff-never-resets",
        "after a success trouble begins with a short wait",
        "core/unicast.py",
        """        if len(self._unacked) < before:
            self._tries = 0
""",
        """        if len(self._unacked) < before:
""",
        "tests/core/test_unicast.py",
    ),
    Mutant(
        "vector-not-taken-back",
        "a cast whose causes are missing waits",
        "core/causal.py",
        """            vector[place] -= 1
        super()""",
        "        super()",
        "tests/core/test_causal.py",
    ),
    Mutant(
        "foreign-count-believed",
        "nobody counts casts of mine that I never sent",
        "core/causal.py",
        "if stamp[self.mine] > vector[self.mine]:",
        "if stamp[self.mine] > vector[self.mine] + 1:",
        "tests/core/test_causal.py",
    ),
    Mutant(
        "shared-vector",
        "a stamp is what was seen when the cast was sent",
        "core/causal.py",
        "return self.vector.copy()",
        "return self.vector",
        "tests/core/test_causal.py tests/core/test_group.py",
    ),
    Mutant(
        "sequencer-skips",
        "the coordinator's casts are delivered without a gap",
        "core/sequencer.py",
        """        if message.number > self._delivered + 1:
""",
        """        if message.number > self._delivered + 2:
""",
        "tests/core/test_sequencer.py",
    ),
    Mutant(
        "held-one-only",
        "all that waited for a cast is delivered after it",
        "core/sequencer.py",
        "while self._held and self._delivered + 1 in self._held:",
        "if self._held and self._delivered + 1 in self._held:",
        "tests/core/test_sequencer.py",
    ),
    Mutant(
        "admission-takes-gaps",
        "a member's messages are ordered as it sent them",
        "core/sequencer.py",
        "if bundle.origin != origin or bundle.number != last:",
        "if bundle.origin != origin:",
        "tests/core/test_sequencer.py",
    ),
    Mutant(
        "forwarded-size-leaks",
        "what waits to be ordered is bounded, and frees its room",
        "core/sequencer.py",
        """            self.size -= len(bundle.payload)
""",
        """            pass
""",
        "tests/core/test_sequencer.py",
    ),
    Mutant(
        "cut-not-checked",
        "who is told that it has all of the union has it",
        "core/transition.py",
        "if member.casting is None or not member.casting.nakack.holds(part.union):",
        "if member.casting is None:",
        "tests/core/test_transition.py tests/core/test_transition_refusals.py",
    ),
    Mutant(
        "installs-out-of-turn",
        "a view is installed behind the one before it",
        "core/transition.py",
        "is_next = install.previous == epoch or installed is None",
        "is_next = True",
        "tests/core/test_transition.py tests/core/test_transition_refusals.py",
    ),
    Mutant(
        "install-from-anybody",
        "only the coordinator of the view installs it",
        "core/transition.py",
        "if peer == self.coordinator and epoch < install.view.epoch",
        "if epoch < install.view.epoch",
        "tests/core/test_transition.py tests/core/test_transition_refusals.py",
    ),
    Mutant(
        "spreads-before-it-has-all",
        "the coordinator fills in what others lack once it has all",
        "core/transition.py",
        "if self._spread or gathering.union is None or self._lacking():",
        "if self._spread or gathering.union is None:",
        "tests/core/test_transition.py",
    ),
    Mutant(
        "behind-not-asked-again",
        "who missed a view installs it before it reports",
        "core/transition.py",
        """                del gathering.reports[other]
""",
        """                pass
""",
        "tests/core/test_transition.py tests/core/test_gathering.py tests/core/test_group_changes.py",
        survives="it is complained of for what it does not acknowledge: only messages are repeated",
    ),
    Mutant(
        "settled-in-other-view",
        "closing waits until all have one's casts, or a new view is there",
        "core/settling.py",
        "return epoch != member.casting.epoch or nakack.are_stable(counts)",
        "return epoch != member.casting.epoch or not nakack.unstable or True",
        "tests/core/test_settling.py",
    ),
    Mutant(
        "newcomer-hears-early",
        "a newcomer is told nothing before it has the state",
        "core/newcomer.py",
        """        if self.waits:
            self._held.append(deliver)
""",
        """        if self.waits and self._held:
            self._held.append(deliver)
""",
        "tests/core/test_newcomer.py",
    ),
    Mutant(
        "early-state-lost",
        "a state that came before its view is not lost",
        "core/newcomer.py",
        """            self._early = epoch, payload
        if not""",
        """            self._early = None
        if not""",
        "tests/core/test_newcomer.py",
    ),
    Mutant(
        "state-of-another-view",
        "a newcomer takes the state of its own view",
        "core/newcomer.py",
        "if not self.waits or epoch != self._epoch:",
        "if not self.waits:",
        "tests/core/test_newcomer.py",
    ),
    Mutant(
        "held-twice",
        "what was held for a newcomer is delivered once",
        "core/newcomer.py",
        """            self._emit(deliver)
        self._held.clear()
        return True""",
        """            self._emit(deliver)
        return True""",
        "tests/core/test_newcomer.py",
    ),
    Mutant(
        "forged-own-cast",
        "nobody casts in another's name",
        "core/casting.py",
        "if cast.sender == self._me and cast.number >= self.nakack.next_number():",
        "if cast.sender == self._me and cast.number > self.nakack.next_number():",
        "tests/core/test_casting.py",
    ),
    Mutant(
        "refused-counts-as-had",
        "a cast that found no room comes again",
        "core/casting.py",
        """        elif not self._order(cast, is_fill):
            return
""",
        """        else:
            self._order(cast, is_fill)
""",
        "tests/core/test_casting.py",
    ),
    Mutant(
        "fill-of-other-view",
        "what fills in a view is of that view",
        "core/casting.py",
        """            if cast.epoch == self.epoch:
                self.on_cast(now, cast, is_fill=True)
""",
        """            self.on_cast(now, cast, is_fill=True)
""",
        "tests/core/test_casting.py",
    ),
)
