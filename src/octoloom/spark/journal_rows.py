"""The rules of the journal's reader (`core/journal.py`, docs/journal.md) over Arrow batches, without Spark.

A task feeds it the batches of its partitions, in the order of the log, and gets each version of each space once:

1. a mark is skipped; a record of an older generation than one that was seen is late, a version that was seen is a
   double: both are told from the headers and dropped unopened;
2. any version but the next is a gap, and what is not as documented is bad: dead letters, or the end, as one asks for;
3. the `start` of a newer generation at a lower version than the space had voids the versions above it.

Every row ends in exactly one of the counts `taken`, `doubles`, `late`, `marks` and `dead`. A record after a gap is dead
and so are those that follow it, until a `start`: nobody can know the state in between. Nothing that a stranger writes
moves a space, so the true next version is still taken.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from octoloom.core.errors import OctoloomError, ProtocolError, UsageError
from octoloom.core.event import Outcome
from octoloom.wire.journal import Headers, Tag, is_mark, read_space, read_tag
from octoloom.wire.journal_values import CHANGE, START, ChangeValue, StartValue

if TYPE_CHECKING:
    import pyarrow as pa

LONG_MAX = 2**63 - 1
DICE_MAX = 2**64 - 1

COLUMNS = ("topic", "partition", "offset", "key", "value", "headers")
"""What is needed of the source's columns."""
Seen = dict[str, tuple[int, int]]
"""Generation and version of each space."""

DEAD_LETTER = "dead-letter"
FAIL = "fail"
ON_ERROR = (DEAD_LETTER, FAIL)

_decoder = msgspec.json.Decoder[ChangeValue | StartValue](ChangeValue | StartValue)
_NAMES = ["version", "epoch", "generation", "kind"]
"""The headers in the order in which heads write them."""
_KINDS = {b"change": CHANGE, b"start": START}
_OUTCOMES = {outcome.word: None for outcome in Outcome}


class BadJournal(OctoloomError):  # noqa: N818
    """A record of the journal cannot be right, and whoever reads has asked to end there."""


class Counts(msgspec.Struct):
    """What became of the rows. `voided` versions were taken before a `start` voided them."""

    rows: int = 0
    taken: int = 0
    doubles: int = 0
    late: int = 0
    marks: int = 0
    dead: int = 0
    voided: int = 0

    def add(self, other: Counts) -> None:
        for name in self.__struct_fields__:
            setattr(self, name, getattr(self, name) + getattr(other, name))


class Place(NamedTuple):
    topic: str
    partition: int
    offset: int


class Taken(NamedTuple):
    """A record that is the next of its space."""

    space: str
    tag: Tag
    value: ChangeValue | StartValue
    place: Place


class Dead(NamedTuple):
    code: str
    detail: str
    place: Place
    key: bytes | None
    value: bytes | None


class Void(NamedTuple):
    """The versions of older generations above `version`, up to `last`, are not part of the space's history."""

    space: str
    generation: int
    version: int
    last: int
    place: Place


class JournalRows:
    """The spaces of one task. What `save` gives of a partition is what `saved` is asked for in the next batch.

    With `anywhere` the history of a space may begin with any version: for a part of the journal.
    """

    def __init__(
        self,
        on_error: str = DEAD_LETTER,
        saved: Callable[[str, int], bytes | None] | None = None,
        *,
        anywhere: bool = False,
    ) -> None:
        if on_error not in ON_ERROR:
            raise UsageError(f"on_error is one of {', '.join(ON_ERROR)}, not {on_error!r}")
        self.fails = on_error == FAIL
        self._saved = saved
        self._anywhere = anywhere
        self.seen: dict[tuple[str, int], Seen] = {}
        """Of each partition of a topic. A space that is in two of them has a gap in one: nobody knows their order."""
        self.counts = Counts()
        self.dead: list[Dead] = []
        self.voids: list[Void] = []
        """Both are for the owner to take away after each batch."""

    def save(self, topic: str, partition: int) -> bytes:
        return msgspec.msgpack.encode(self.seen[topic, partition])

    def _begin(self, topic: str, partition: int) -> Seen:
        saved = self._saved(topic, partition) if self._saved is not None else None
        seen: Seen = {} if saved is None else msgspec.msgpack.decode(saved, type=Seen)
        self.seen[topic, partition] = seen
        return seen

    def take(self, batch: pa.RecordBatch) -> Iterator[Taken]:
        """The records that are new, of a batch with the columns of the source."""
        columns = [batch.column(name).to_pylist() for name in COLUMNS[:-1]]
        headers = batch.column("headers")
        starts = headers.offsets.to_pylist()
        names, values = (child.to_pylist() for child in headers.values.flatten())
        self.counts.rows += batch.num_rows
        for number, (topic, partition, offset, key, value) in enumerate(zip(*columns, strict=True)):
            found = slice(starts[number], starts[number + 1])
            place = Place(topic, partition, offset)
            try:
                taken = self._read(place, key, value, names[found], values[found])
            except ProtocolError as error:
                self._bury(Dead(error.code, error.detail, place, key, value))
            else:
                if taken is not None:
                    yield taken

    def _read(
        self, place: Place, key: bytes | None, value: bytes | None, names: list[str], values: list[bytes | None]
    ) -> Taken | None:
        if key is None and is_mark(key, tuple(zip(names, values, strict=True))):
            self.counts.marks += 1
            return None
        space, tag = read_space(key), tag_of(names, values)
        seen = self.seen.get(place[:2])
        if seen is None:
            seen = self._begin(place.topic, place.partition)
        generation, version = seen.get(space) or self._before_first(tag)
        if tag.generation < generation:
            self.counts.late += 1
            return None
        if tag.generation == generation and tag.version <= version:
            self.counts.doubles += 1
            return None
        if tag.kind == CHANGE and tag.version != version + 1:
            text = f"{space}: version {tag.version} of generation {tag.generation} follows {version}"
            raise ProtocolError("gap", f"{text}: a record is missing")
        taken = Taken(space, tag, open_value(space, tag, value), place)
        if tag.version < version:
            self.voids.append(Void(space, tag.generation, tag.version, version, place))
            self.counts.voided += version - tag.version
        seen[space] = tag.generation, tag.version
        self.counts.taken += 1
        return taken

    def _before_first(self, tag: Tag) -> tuple[int, int]:
        return (tag.generation, tag.version - 1) if self._anywhere and tag.kind == CHANGE else (0, 0)

    def _bury(self, dead: Dead) -> None:
        if self.fails:
            topic, partition, offset = dead.place
            raise BadJournal(
                f"{topic}, partition {partition}, offset {offset}: {dead.code}: {dead.detail}. Look at it with "
                f"`octoloom topic consume {topic} -p {partition} --from {offset} -c 1 --json`, or go on without it "
                f"(--on-error {DEAD_LETTER})"
            )
        self.counts.dead += 1
        self.dead.append(dead)


def tag_of(names: list[str], values: list[bytes | None]) -> Tag:
    """What the headers say; those that heads write are read without a detour."""
    if names == _NAMES:
        version, epoch, generation, kind = values
        digits = (version or b"-") + (epoch or b"-") + (generation or b"-")
        # Three numbers that are as short as this together surely fit into 64 bits each.
        if kind in _KINDS and len(digits) <= 20 and digits.isdigit():
            return Tag(int(generation or 0), int(version or 0), int(epoch or 0), _KINDS[kind])
    headers: Headers = tuple(zip(names, values, strict=True))
    tag = read_tag(headers)
    if max(tag[:3]) > LONG_MAX:
        raise ProtocolError("bad-header", f"a number above {LONG_MAX} in {tag}")
    return tag


def open_value(space: str, tag: Tag, value: bytes | None) -> ChangeValue | StartValue:
    """The value, checked: as documented, of one mind with key and headers, and of numbers that a table holds."""
    if value is None:
        raise ProtocolError("no-value", "the journal has no tombstones: every record has a value")
    try:
        # Payloads and patches are handed on unopened; they must not be the next reader's surprise.
        if not value.isascii():
            value.decode()
        found: ChangeValue | StartValue = _decoder.decode(value)
    except msgspec.ValidationError as error:
        raise ProtocolError("bad-field", str(error)) from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ProtocolError("malformed", f"this is not JSON: {error}") from None
    kind = CHANGE if isinstance(found, ChangeValue) else START
    told = (found.space, found.generation, found.version, found.epoch, kind)
    if told != (space, *tag):
        raise ProtocolError("contradiction", f"key and headers say {(space, *tag)}, the value says {told}")
    _check(found)
    return found


def _check(value: ChangeValue | StartValue) -> None:
    inner = value.merge if isinstance(value, ChangeValue) else value.state
    if bytes(inner)[:1] != b"{":
        raise ProtocolError("bad-field", "a state, and a patch of one, is a JSON object")
    for event in value.events:
        if event.chain_sequencer > LONG_MAX or event.sequencer > LONG_MAX or event.time_ms > LONG_MAX:
            raise _too_large(max(event.chain_sequencer, event.sequencer, event.time_ms))
        if event.dice > DICE_MAX:
            raise _too_large(event.dice)
    for kill in value.kills if isinstance(value, ChangeValue) else ():
        if kill.chain_sequencer > LONG_MAX or kill.sequencer > LONG_MAX or kill.digest > LONG_MAX:
            raise _too_large(max(kill.chain_sequencer, kill.sequencer, kill.digest))
        if kill.outcome not in _OUTCOMES:
            raise ProtocolError("bad-field", f"an event ends as one of {', '.join(_OUTCOMES)}, not {kill.outcome!r}")
    if value.at_ms > LONG_MAX:
        raise _too_large(value.at_ms)


def _too_large(number: int) -> ProtocolError:
    return ProtocolError("bad-field", f"a number is larger than it can be: {number}")
