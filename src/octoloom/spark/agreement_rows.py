"""Whether the members of groups agree on one order: `core.agreement` over what they delivered, row by row.

A row is a delivery: `member` delivered the message `number` of `sender`, in its own order. The key is a view of a
group: in a view all members deliver the same sequence. For each member there is a row with how many deliveries were
looked at and how many of them were not what another member had delivered at that place, with the first of these.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec

from octoloom.core.agreement import Agreement, AgreementSnapshot, Disagreement
from octoloom.core.errors import UsageError
from octoloom.spark.state_files import Changes

if TYPE_CHECKING:
    import pyarrow as pa

AGREEMENT_COLUMNS = ("member", "sender", "number")
AGREED = "member string, delivered long, disagreements long, place long, found string, expected string"
"""What is said of each member, beside the key. A disagreement is at `place`, counted from 0 in the view."""

Seen = tuple[int, int, int, str, str]
"""delivered, disagreements, and of the first of these: place, found, expected"""


class _Saved(msgspec.Struct, array_like=True):
    agreement: AgreementSnapshot
    members: dict[str, Seen]


@dataclass(slots=True)
class _Member:
    delivered: int = 0
    disagreements: int = 0
    first: Disagreement | None = None

    def seen(self) -> Seen:
        first = self.first
        if first is None:
            return self.delivered, 0, -1, "", ""
        return self.delivered, self.disagreements, first.place, _text(first.found), _text(first.expected)


class AgreementRows:
    """A weaver."""

    def __init__(self, key: str) -> None:
        self._key = key
        self._agreements: dict[str, Agreement] = {}
        self._members: dict[str, dict[str, _Member]] = {}
        self._touched: dict[str, dict[str, None]] = {}
        self._unsaved: dict[str, None] = {}

    def take(self, rows: pa.RecordBatch) -> None:
        columns = [rows[column].to_pylist() for column in (self._key, *AGREEMENT_COLUMNS)]
        for key, name, sender, number in zip(*columns, strict=True):
            if key is None or name is None or sender is None or number is None:
                raise UsageError("a delivery says whose it is and of what: leave rows without that out first")
            agreement = self._agreements.get(key)
            if agreement is None:
                agreement = self._agreements[key] = Agreement()
                self._members[key] = {}
            member = self._members[key].setdefault(name, _Member())
            self._touched.setdefault(key, {})[name] = None
            member.delivered += 1
            if (wrong := agreement.take(name, sender, number)) is not None:
                member.disagreements += 1
                member.first = member.first or wrong

    def end(self, last: bool) -> pa.RecordBatch | None:
        import pyarrow as pa

        rows = [(key, name, *self._members[key][name].seen()) for key, names in self._touched.items() for name in names]
        self._unsaved.update(dict.fromkeys(self._touched))
        self._touched = {}
        if not rows:
            return None
        text, long = pa.string(), pa.int64()
        kinds = (text, text, long, long, long, text, text)
        names = [self._key, "member", "delivered", "disagreements", "place", "found", "expected"]
        columns = [pa.array(column, kind) for column, kind in zip(zip(*rows, strict=True), kinds, strict=True)]
        return pa.RecordBatch.from_arrays(columns, names=names)

    def load(self, saved: Changes) -> None:
        for key, text in saved.items():
            found = msgspec.msgpack.decode(text, type=_Saved)
            self._agreements[key] = Agreement()
            self._agreements[key].restore(found.agreement)
            self._members[key] = {name: _member(seen) for name, seen in found.members.items()}

    def changed(self) -> Changes:
        unsaved, self._unsaved = self._unsaved, {}
        return {key: self._save(key) for key in unsaved}

    def _save(self, key: str) -> bytes:
        members = {name: member.seen() for name, member in self._members[key].items()}
        return msgspec.msgpack.encode(_Saved(self._agreements[key].snapshot(), members))


def _text(tag: tuple[str, int]) -> str:
    return f"{tag[0]}:{tag[1]}"


def _member(seen: Seen) -> _Member:
    delivered, disagreements, place, found, expected = seen
    first = Disagreement("", place, _tag(found), _tag(expected)) if disagreements else None
    return _Member(delivered, disagreements, first)


def _tag(text: str) -> tuple[str, int]:
    sender, _, number = text.rpartition(":")
    return sender, int(number)
