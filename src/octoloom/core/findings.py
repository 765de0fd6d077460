"""What an audit finds: each kind of damage has a name, a place and an explanation.

Names are for machines and stay as they are; `MEANINGS` says in a sentence what each one means. All findings are
counted, and the first `KEPT_MAX` of each subject are kept in full: damage at one place often shows at a thousand.
"""

from __future__ import annotations

import msgspec

KEPT_MAX = 20
TEXT_MAX = 400

MEANINGS = {
    # The journal.
    "unreadable": "a record is not what the journal is documented to hold",
    "two-partitions": "records of one space lie in two partitions, in no order",
    "version-missing": "a change was lost: the next version is not there",
    "version-forged": "a version has another number than its place says",
    "version-misplaced": "two versions stand in the log in the wrong order",
    "version-forked": "a version comes again and says something else",
    "epoch-back": "a change was computed in an older view than the one before it",
    "start-missing": "a generation goes on with a space and does not say with what",
    "start-differs": "a generation began with something else than the one before it left",
    "event-missing": "a change does not tell the events that it settles",
    "event-mismatch": "the events beside a change are not those that it settles",
    "digest-differs": "an event's name or payload is not what was settled",
    "outcome-invalid": "an event ends as none ever ends",
    "settled-twice": "an event was settled, and perhaps took effect, more than once",
    "out-of-order": "a device's events took effect in another order than it sent them, and none was deferred",
    "chain-order": "the chain's order of a device's events is not the order of their numbers",
    "waiting-settled": "an event is said to wait that was settled before",
    "time-back": "time went back from one event to the next",
    "timer-unset": "a timer went off that was not set",
    "timer-dropped": "a timer that was set did not go off",
    "timer-number": "a timer has a number that was given before, or leaves one out",
    "presence-differs": "who came and went is not what the events say",
    "patch-idle": "a patch says what is so already: the state before it is not the one that it was made for",
    "effect-without-cause": "the state changed, and no event was applied",
    "replay-differs": "the given code computes something else than was recorded",
    "acknowledged-lost": "a device was told of an outcome that the journal does not have",
    "acknowledged-otherwise": "a device was told something else than the journal says",
    # The brokers' logs.
    "offset-gap": "offsets are missing in a partition",
    "offset-overlap": "offsets are there twice, or go back",
    "batch-damaged": "the bytes of a batch are not those that were written",
    "producer-gap": "a producer's sequence leaves numbers out: batches were lost",
    "producer-double": "a producer's batch is there twice",
    "producer-back": "a producer that was fenced has written again",
    "leader-epoch-back": "an older leader's batch lies behind a newer one's",
    "time-insane": "a timestamp is no time at which this can have been written",
    "replicas-differ": "two replicas hold different bytes at the same offset",
    "record-lost": "an acknowledged record is not in the log",
    "key-differs": "an acknowledged record has another key in the log",
    # Groups.
    "no-trace": "there is nothing to judge by",
    "view-differs": "one view has other members, or another order, at different members",
    "view-back": "a member went back to an older view",
    "view-misplaced": "a view begins at another place among the messages than at other members",
    "order-differs": "members saw the messages of one total order in different orders",
    "fifo-broken": "a member got one sender's messages in another order than they were sent",
    "cause-missing": "a member got a message before one of its causes",
    "vector-differs": "a member's vector is not what its own steps add up to",
    "delivered-twice": "a member got a message twice",
    "never-sent": "a member got a message that nobody sent",
    "lost-at-member": "a member did not get a message that those beside it got",
    "not-a-member": "a member got a message from, or was, somebody who is not in its view",
}


class Finding(msgspec.Struct, frozen=True, omit_defaults=True):
    """One piece of damage. `about` is the space, the group, or the partition as topic-number."""

    name: str
    about: str
    text: str
    generation: int = 0
    version: int = 0
    device: str = ""
    """Or the member of a group."""
    sequencer: int = 0
    partition: int = -1
    offset: int = -1

    @property
    def place(self) -> str:
        """Where it is, for people."""
        parts = [f"generation {self.generation}"] if self.generation > 1 else []
        parts += [f"version {self.version}"] if self.version else []
        parts += [f"{self.device}:{self.sequencer}" if self.sequencer else self.device] if self.device else []
        parts += [f"partition {self.partition}"] if self.partition >= 0 else []
        parts += [f"offset {self.offset}"] if self.offset >= 0 else []
        return ", ".join(parts)


class Findings:
    """Those about one subject: counted by name, the first ones in full."""

    def __init__(self, about: str, counts: dict[str, int] | None = None, kept: list[Finding] | None = None) -> None:
        self.about = about
        self.counts: dict[str, int] = dict(counts or {})
        self.kept: list[Finding] = list(kept or [])

    def __len__(self) -> int:
        return sum(self.counts.values())

    def add(
        self,
        name: str,
        text: str,
        *,
        generation: int = 0,
        version: int = 0,
        device: str = "",
        sequencer: int = 0,
        partition: int = -1,
        offset: int = -1,
    ) -> None:
        assert name in MEANINGS, name
        self.counts[name] = self.counts.get(name, 0) + 1
        # Of each kind at least one is kept, however many there are of another.
        if len(self.kept) < KEPT_MAX or self.counts[name] == 1:
            shown = text if len(text) <= TEXT_MAX else text[: TEXT_MAX - 1] + "…"
            place = (generation, version, device, sequencer, partition, offset)
            self.kept.append(Finding(name, self.about, shown, *place))
