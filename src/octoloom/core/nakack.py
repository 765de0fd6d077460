"""NAKACK: every member gets every cast of a view, once, over a network that loses, doubles and reorders.

A sender's casts are numbered. A receiver keeps what it got and sees the gaps; it asks for what it lacks, first its
sender, then the others in turn, for any member can send it again. A cast is kept until it is *stable*, which means that
all members have delivered it: then nobody will ask for it any more, and whoever dies, no survivor lacks it.

1. A cast is new once.
2. What a member has, it can send again until it knows it to be stable.
3. A gap is asked for until it is filled. The end of a stream that nobody sees the end of is no gap: the coordinator
   tells the last number that it knows of each sender.
4. What is kept is bounded: what arrives beyond `kept_bytes_max` is not taken, unless it fills a gap, and comes again.

Order is not its business: what is new goes up at once.
"""

from __future__ import annotations

from collections.abc import Sequence

from octoloom.core.errors import ProtocolError
from octoloom.core.group_messages import Cast, Nak
from octoloom.core.tags import Seen

SPARSE_MAX = 65_536
"""How far ahead of a gap a cast may be; one further ahead is not taken yet."""
RANGES_MAX = 64
ASKED_MAX = 512
"""So many ranges and casts are asked for at once."""
RESENT_BYTES_MAX = 1024 * 1024
"""So much is sent again at once: who asks again while it is on its way must not make it pile up."""
SENDER_TRIES = 2
"""So often the sender itself is asked before the others."""


class Stream:
    """One sender's casts in one view."""

    __slots__ = ("ask_at", "asked", "asked_at_mark", "kept", "last", "seen", "stable")

    def __init__(self, count: int) -> None:
        self.seen = Seen(count, above_max=SPARSE_MAX)
        self.kept: dict[int, Cast] = {}
        self.stable = count
        self.last = count
        """The last number that is known of."""
        self.ask_at: int | None = None
        self.asked = 0
        self.asked_at_mark = count

    def missing(self) -> list[tuple[int, int]]:
        """The first gaps, as (first, last)."""
        ranges: list[tuple[int, int]] = []
        number, budget = self.seen.watermark + 1, ASKED_MAX
        for there in [*sorted(self.seen.above), self.last + 1]:
            if there > number and budget > 0 and len(ranges) < RANGES_MAX:
                last = min(there - 1, number + budget - 1)
                ranges.append((number, last))
                budget -= last - number + 1
            number = max(number, there + 1)
        return ranges


def size_of(cast: Cast) -> int:
    return sum(len(bundle.payload) for bundle in cast.bundles)


def _first_of(casts: list[Cast]) -> list[Cast]:
    """As many as may be sent at once, and one at least."""
    size = 0
    for at, cast in enumerate(casts):
        size += size_of(cast)
        if size > RESENT_BYTES_MAX and at:
            return casts[:at]
    return casts


class Nakack:
    """The casts of one view, at one member."""

    def __init__(self, epoch: int, me: str, counts: dict[str, int], nak_ms: int, kept_bytes_max: int) -> None:
        self.epoch = epoch
        self._me = me
        self._members = list(counts)
        self._streams = {member: Stream(count) for member, count in counts.items()}
        self._nak_ms = nak_ms
        self._kept_bytes_max = kept_bytes_max
        self.kept_bytes = 0

    @property
    def congested(self) -> bool:
        return self.kept_bytes > self._kept_bytes_max

    def has(self, sender: str, number: int) -> bool:
        return self._streams[sender].seen.has(number)

    def is_next(self, cast: Cast) -> bool:
        """Whether a cast closes a gap, or there is none before it."""
        return cast.number == self._streams[cast.sender].seen.watermark + 1

    def takes(self, cast: Cast) -> bool:
        """Whether there is room for a cast that is new."""
        ahead = cast.number - self._streams[cast.sender].seen.watermark
        return ahead == 1 or (ahead <= SPARSE_MAX and not self.congested)

    def add(self, now: int, cast: Cast) -> None:
        """Keeps a cast that is new."""
        stream = self._streams[cast.sender]
        is_new = stream.seen.add(cast.number)
        assert is_new, "a cast that was there before was added again"
        stream.kept[cast.number] = cast
        stream.last = max(stream.last, cast.number)
        self.kept_bytes += size_of(cast)
        self._watch(now, stream)

    def next_number(self) -> int:
        """The number of one's own next cast."""
        return self._streams[self._me].last + 1

    def _watch(self, now: int, stream: Stream) -> None:
        if stream.last <= stream.seen.watermark:
            stream.ask_at = None
            stream.asked = 0
        elif stream.ask_at is None:
            stream.ask_at = now + self._nak_ms

    # Gaps.

    def deadline(self) -> int | None:
        return min((stream.ask_at for stream in self._streams.values() if stream.ask_at is not None), default=None)

    def ask(self, now: int) -> list[tuple[str, Nak]]:
        """Whom to ask for what, now."""
        asks: list[tuple[str, Nak]] = []
        for sender, stream in self._streams.items():
            if stream.ask_at is None or now < stream.ask_at:
                continue
            if stream.seen.watermark > stream.asked_at_mark:
                stream.asked = 0
            stream.asked += 1
            stream.asked_at_mark = stream.seen.watermark
            stream.ask_at = now + self._nak_ms * min(1 + stream.asked, 8)
            missing = [(sender, first, last) for first, last in stream.missing()]
            asks.append((self._whom(sender, stream.asked), Nak(self.epoch, missing)))
        return asks

    def _whom(self, sender: str, asked: int) -> str:
        others = [member for member in self._members if member not in (sender, self._me)]
        if asked <= SENDER_TRIES or not others:
            return sender
        turn = asked - SENDER_TRIES - 1
        return [*others, sender][turn % (len(others) + 1)]

    def find(self, missing: Sequence[tuple[str, int, int]]) -> list[Cast]:
        """Those of the missing casts that are here, not more than are asked for at once."""
        found: list[Cast] = []
        for sender, first, last in missing[:RANGES_MAX]:
            stream = self._streams.get(sender)
            if stream is not None:
                numbers = range(max(first, stream.stable + 1), min(last, first + ASKED_MAX, stream.last) + 1)
                found.extend(stream.kept[number] for number in numbers if number in stream.kept)
        return _first_of(found[:ASKED_MAX])

    def get(self, wanted: Sequence[tuple[str, int]]) -> list[Cast]:
        """Casts that are kept here for certain, since somebody in the view lacks them: or who asks has lied."""
        for sender, number in wanted:
            if sender not in self._streams or number not in self._streams[sender].kept:
                raise ProtocolError("bad-fetch", f"{self._me} does not keep {sender}:{number}")
        return [self._streams[sender].kept[number] for sender, number in wanted]

    def unstable_casts(self) -> list[Cast]:
        """All that is kept, each sender's in order: not everybody is known to have it."""
        return [stream.kept[number] for stream in self._streams.values() for number in sorted(stream.kept)]

    # Stability.

    def counts(self) -> list[int]:
        """Up to where each sender's casts are here without a hole."""
        return [stream.seen.watermark for stream in self._streams.values()]

    def lasts(self) -> list[int]:
        return [stream.last for stream in self._streams.values()]

    def on_stable(self, now: int, counts: Sequence[int], lasts: Sequence[int]) -> None:
        """All members have so much; nobody will ask for it any more."""
        for (sender, stream), count, last in zip(self._streams.items(), counts, lasts, strict=True):
            for number in range(stream.stable + 1, min(count, stream.seen.watermark) + 1):
                self.kept_bytes -= size_of(stream.kept.pop(number))
                stream.stable = number
            if last > stream.last and sender != self._me:
                stream.last = last
                self._watch(now, stream)

    def are_stable(self, counts: Sequence[int]) -> bool:
        """Whether all members have so much of each sender."""
        return all(stream.stable >= count for stream, count in zip(self._streams.values(), counts, strict=True))

    @property
    def unstable(self) -> bool:
        return any(stream.stable < stream.last for stream in self._streams.values())

    # The end of a view.

    def snapshot(self) -> dict[str, tuple[int, list[int]]]:
        """What is here: by sender (watermark, the numbers above it)."""
        return {sender: stream.seen.snapshot() for sender, stream in self._streams.items()}

    def holds(self, union: dict[str, tuple[int, list[int]]]) -> bool:
        for sender, (watermark, above) in union.items():
            stream = self._streams.get(sender)
            if stream is None or stream.seen.watermark < watermark or not all(map(stream.seen.has, above)):
                return False
        return True
