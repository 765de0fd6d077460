"""What one member was delivered, and what can be said of it. All judging of a run is here, and none in the members.

A member writes three columns of eight bytes per delivery, little-endian, in the order of delivery: the message (its
sender in the upper half, its number in the lower), when it was sent, and when it was delivered. Both times are of the
machine's monotonic clock, which all processes share.
"""

from __future__ import annotations

import sys
from array import array
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from statistics import quantiles

import msgspec

from group_case import Failover, GroupError, Latency, Throughput

NUMBER_BITS = 32
NUMBERS = (1 << NUMBER_BITS) - 1


@dataclass(frozen=True, slots=True)
class Deliveries:
    messages: array[int]
    sent_ns: array[int]
    at_ns: array[int]

    @classmethod
    def of(cls, rows: Iterable[tuple[int, int, int, int]]) -> Deliveries:
        """From rows of sender, number, time of sending, time of delivery."""
        found = list(rows)
        return cls(
            array("q", [sender << NUMBER_BITS | number for sender, number, _, _ in found]),
            array("q", [sent for _, _, sent, _ in found]),
            array("q", [at for _, _, _, at in found]),
        )

    @classmethod
    def read(cls, path: Path) -> Deliveries:
        data = path.read_bytes()
        third, rest = divmod(len(data), 3)
        if rest or third % 8:
            raise GroupError(f"{path.name} is damaged: {len(data)} bytes are no three columns")
        return cls(*(_column(data[place * third : (place + 1) * third]) for place in range(3)))

    def write(self, path: Path) -> None:
        path.write_bytes(b"".join(_bytes(column) for column in (self.messages, self.sent_ns, self.at_ns)))

    def __len__(self) -> int:
        return len(self.messages)


def _column(data: bytes) -> array[int]:
    column = array("q", data)
    if sys.byteorder == "big":
        column.byteswap()
    return column


def _bytes(column: array[int]) -> bytes:
    return _column(column.tobytes()).tobytes()


class Faults(msgspec.Struct, frozen=True):
    duplicates: int = 0
    inversions: int = 0
    missing: int = 0
    unsent: int = 0

    def __bool__(self) -> bool:
        return bool(self.duplicates or self.inversions or self.missing or self.unsent)


def faults(deliveries: Deliveries, sent: Mapping[int, int]) -> Faults:
    """What is wrong with one member's sequence; `sent` says how many messages each sender has sent."""
    seen: set[int] = set()
    highest = dict.fromkeys(sent, -1)
    duplicates = inversions = unsent = 0
    for message in deliveries.messages:
        sender, number = message >> NUMBER_BITS, message & NUMBERS
        if not number < sent.get(sender, 0):
            unsent += 1
        elif message in seen:
            duplicates += 1
        else:
            seen.add(message)
            inversions += number < highest[sender]
            highest[sender] = max(number, highest[sender])
    return Faults(duplicates, inversions, sum(sent.values()) - len(seen), unsent)


def first_difference(all_members: Sequence[Deliveries]) -> int | None:
    """The first place at which two members were delivered different messages; having fewer is no difference."""
    longest, *others = sorted((each.messages for each in all_members), key=len, reverse=True)
    pairs = [enumerate(zip(longest, other, strict=False)) for other in others if longest[: len(other)] != other]
    return min((next(place for place, (one, two) in pair if one != two) for pair in pairs), default=None)


def blackout_ns(deliveries: Deliveries, killed_ns: int, ended_ns: int) -> int:
    """The longest time without a delivery that ended after the kill.

    `ended_ns` is when the senders ended: with nothing delivered up to then, the blackout lasted at least so long.
    """
    before = [at for at in deliveries.at_ns if at <= killed_ns]
    times = [max(before, default=killed_ns), *(at for at in deliveries.at_ns if at > killed_ns)]
    gaps = [later - earlier for earlier, later in pairwise(times)]
    return max([*gaps, ended_ns - times[-1], 0])


def check_whole(all_members: Sequence[Deliveries], sent: Mapping[int, int]) -> None:
    """Raises unless every member was delivered everything, once, in one order."""
    for number, deliveries in enumerate(all_members):
        if found := faults(deliveries, sent):
            raise GroupError(f"member {number} was not delivered what was sent, once and in order: {found}")
    if (place := first_difference(all_members)) is not None:
        raise GroupError(f"the members disagree on the order, first at delivery {place}")


def throughput(all_members: Sequence[Deliveries], sent: Mapping[int, int]) -> Throughput:
    check_whole(all_members, sent)
    total = sum(sent.values())
    if not total:
        raise GroupError("nothing was sent")
    began = min(min(each.sent_ns) for each in all_members)
    return Throughput(total, [total / (max(each.at_ns) - began) * 1e9 for each in all_members])


def latency(all_members: Sequence[Deliveries], sent: Mapping[int, int]) -> Latency:
    """Of each sender's own deliveries; members are in the order of their numbers."""
    check_whole(all_members, sent)
    found = []
    for sender in sent:
        own = all_members[sender]
        rows = zip(own.messages, own.sent_ns, own.at_ns, strict=True)
        found += [(at - began) / 1e6 for message, began, at in rows if message >> NUMBER_BITS == sender]
    if len(found) < 2:
        raise GroupError("a latency needs more than one message")
    cuts = quantiles(found, n=100, method="inclusive")
    return Latency(len(found), cuts[49], cuts[98])


def failover(
    survivors: Sequence[Deliveries], sent: Mapping[int, int], killed_ns: int, ended_ns: int, stuck: int
) -> Failover:
    found = [faults(each, sent) for each in survivors]
    place = first_difference(survivors)
    return Failover(
        sent=sum(sent.values()),
        blackouts_ms=[blackout_ns(each, killed_ns, ended_ns) / 1e6 for each in survivors],
        agree=place is None,
        differ_at=place,
        duplicates=max(each.duplicates for each in found),
        inversions=max(each.inversions for each in found),
        missing=max(each.missing for each in found),
        unsent=max(each.unsent for each in found),
        stuck=stuck,
    )
