"""The nodes of a state that records its own writes: `Record` is a dict, `RecordList` a list, reads are theirs.

A node stands at one place all its life: values are copied in (`planted`), never moved. Before a write, the node
notes what was there: in the log of the open transaction, so that the write can be put back, and as an original
value, so that the change since the last take is known. `core/recorder.py` has the theory and reads the notes.

A dict forgets where a deleted key stood. To put it back there, a Record ranks its keys from its first delete on: the
first costs a walk over the keys, all others are O(1).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from math import isfinite
from operator import index
from typing import Any, Final, SupportsIndex

from octoloom.core.errors import UsageError
from octoloom.core.merge_patch import Value, copied

DEPTH_MAX = 64
"""How deep a state nests; the root is the first level."""
INTEGER_MIN, INTEGER_MAX = -(2**63), 2**64 - 1
PATH_LENGTH_MAX = 200
# Half of a surrogate pair is a str in Python and nothing in UTF-8.
_HALF_PAIR = re.compile("[\ud800-\udfff]")

MISSING: Final[Any] = object()


class NotJSON(UsageError, TypeError):  # noqa: N818
    """A value was written into the state that JSON does not have."""


class Ledger:
    """Where the nodes of one state note their writes."""

    __slots__ = ("generation", "log", "touched", "transaction")

    def __init__(self) -> None:
        self.generation = 0
        self.transaction = 0
        # (node, key, what was there, the key's rank), in the order of the writes
        self.log: list[tuple[Node, str, Any, int]] | None = None
        self.touched: list[Node] = []  # The nodes that hold originals.


class Record(dict[str, Any]):
    __slots__ = ("born", "depth", "key", "ledger", "originals", "parent", "ranks", "top")

    def __init__(self, ledger: Ledger, parent: Node | None = None, key: str = "") -> None:
        self.ledger = ledger
        self.parent = parent
        self.key = key
        self.born = ledger.generation
        self.depth: int = 1 if parent is None else parent.depth + 1
        self.top = None if parent is None else _top_at(parent)
        self.originals: dict[str, Any] | None = None
        self.ranks: dict[str, int] | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        # Copies and pickles are plain: they are no part of the state.
        return dict, (dict(self),)

    def _note(self, key: str, old: Value, rank: int) -> None:
        ledger = self.ledger
        if self.top is not None:
            self.top.note_original()
        elif self.originals is not None:
            self.originals.setdefault(key, old)
        elif self.born != ledger.generation:
            self.originals = {key: old}
            ledger.touched.append(self)
        if ledger.log is not None:
            ledger.log.append((self, key, old, rank))

    def _set(self, key: str, old: Value, planted_value: Value) -> None:
        self._note(key, old, 0)
        if old is MISSING and self.ranks is not None:
            self.ranks[key] = next(reversed(self.ranks.values()), 0) + 1
        dict.__setitem__(self, key, planted_value)

    def __setitem__(self, key: str, value: Value) -> None:
        key = _checked_key(self, key)
        # `state["cells"] |= more` ends by writing back what it has changed in place: that must not copy it.
        old = self.get(key, MISSING)
        if old is not value:
            self._set(key, old, planted(self, key, value))

    def __delitem__(self, key: str) -> None:
        old = self[key]
        if self.ranks is None and self.ledger.log is not None:
            self.ranks = dict(zip(self, range(len(self)), strict=True))
        self._note(key, old, 0 if self.ranks is None else self.ranks.pop(key))
        dict.__delitem__(self, key)

    def pop(self, key: str, *default: Any) -> Any:
        if key not in self:
            return dict.pop(self, key, *default)
        value = self[key]
        del self[key]
        return value

    def popitem(self) -> tuple[str, Any]:
        if self:
            key = next(reversed(self))
            return key, self.pop(key)
        raise KeyError("the object is empty")

    def clear(self) -> None:
        for key in list(self):
            del self[key]

    def setdefault(self, key: str, default: Value = None) -> Any:
        if key not in self:
            self[key] = default
        return self[key]

    def update(self, *others: Any, **members: Any) -> None:
        values = dict(*others, **members)
        checked = ((_checked_key(self, key), value) for key, value in values.items())
        for key, value in [(key, planted(self, key, value)) for key, value in checked]:
            self._set(key, self.get(key, MISSING), value)

    def __ior__(self, other: Any) -> Record:  # type: ignore[override,misc]
        self.update(other)
        return self

    def put_back(self, key: str, old: Value, rank: int) -> bool:
        """Takes one write back, the latest first. Whether `restore_order` has to follow."""
        if old is MISSING:
            dict.__delitem__(self, key)
            if self.ranks is not None:
                del self.ranks[key]
            return False
        was_deleted = key not in self
        dict.__setitem__(self, key, old)
        if was_deleted:
            assert self.ranks is not None
            self.ranks[key] = rank
        return was_deleted

    def restore_order(self) -> None:
        ranks, self.ranks = self.ranks or {}, None
        members = sorted(self.items(), key=lambda member: ranks[member[0]])
        dict.clear(self)
        dict.update(self, members)


class RecordList(list[Any]):
    __slots__ = ("born", "depth", "key", "ledger", "original", "parent", "saved_in", "top")

    def __init__(self, ledger: Ledger, parent: Node, key: str) -> None:
        self.ledger = ledger
        self.parent = parent
        self.key = key
        self.born = ledger.generation
        self.depth: int = parent.depth + 1
        self.top = _top_at(parent)
        self.original: list[Any] | None = None
        self.saved_in = 0

    def __reduce__(self) -> tuple[Any, ...]:
        return list, (list(self),)

    def note_original(self) -> None:
        if self.original is None and self.born != self.ledger.generation:
            self.original = copied(self)
            self.ledger.touched.append(self)

    def _note(self) -> None:
        """Once per transaction the list is saved whole: it is sent whole too."""
        (self if self.top is None else self.top).note_original()
        ledger = self.ledger
        if ledger.log is not None and self.saved_in != ledger.transaction:
            self.saved_in = ledger.transaction
            ledger.log.append((self, "", list(self), 0))

    def put_back(self, _key: str, old: list[Any], _rank: int) -> bool:
        list.__setitem__(self, slice(None), old)
        return False

    def __setitem__(self, place: Any, value: Any) -> None:
        if isinstance(place, slice):
            value = [planted(self, "", item) for item in value]
        elif self[place] is value:
            return
        else:
            value = planted(self, "", value)
        self._note()
        list.__setitem__(self, place, value)

    def __delitem__(self, place: SupportsIndex | slice) -> None:
        self._note()
        list.__delitem__(self, place)

    def append(self, value: Value) -> None:
        value = planted(self, "", value)
        self._note()
        list.append(self, value)

    def extend(self, values: Iterable[Value]) -> None:
        self[len(self) :] = values

    def insert(self, place: SupportsIndex, value: Value) -> None:
        value = planted(self, "", value)
        self._note()
        list.insert(self, place, value)

    def pop(self, place: SupportsIndex = -1) -> Any:
        self._note()
        return list.pop(self, place)

    def remove(self, value: Value) -> None:
        self._note()
        list.remove(self, value)

    def clear(self) -> None:
        del self[:]

    def sort(self, **options: Any) -> None:
        self._note()
        list.sort(self, **options)

    def reverse(self) -> None:
        self._note()
        list.reverse(self)

    def __iadd__(self, values: Iterable[Value]) -> RecordList:  # type: ignore[misc]
        self.extend(values)
        return self

    def __imul__(self, times: SupportsIndex) -> RecordList:
        if index(times) < 1:
            self.clear()
        self.extend(list(self) * (index(times) - 1))
        return self


Node = Record | RecordList


def _top_at(parent: Node) -> RecordList | None:
    """The outermost list that a child of `parent` is in."""
    return parent if parent.top is None and isinstance(parent, RecordList) else parent.top


def planted(parent: Node, key: str, value: Value) -> Value:
    """A copy of `value` for its place in `parent`, where it is not yet. Raises NotJSON."""
    kind = type(value)
    if kind is int and INTEGER_MIN <= value <= INTEGER_MAX:
        return value
    if value is None or kind is bool or (kind is str and value.isascii()):
        return value
    if isinstance(value, dict):
        record = Record(parent.ledger, _not_too_deep(parent, key), key)
        for name, member in value.items():
            name = _checked_key(record, name)
            dict.__setitem__(record, name, planted(record, name, member))
        return record
    if isinstance(value, (list, tuple)):
        items = RecordList(parent.ledger, _not_too_deep(parent, key), key)
        list.extend(items, [planted(items, "", item) for item in value])
        return items
    return _checked_scalar(parent, key, value)


def planting(root: Record, state: dict[str, Any], nodes_max: int) -> Iterator[None]:
    """Plant a whole state, with a pause after about `nodes_max` values: a large one takes long, and others wait."""
    waiting: list[tuple[Node, Any]] = [(root, state)]
    count = 0
    while waiting:
        node, content = waiting.pop()
        if isinstance(node, Record):
            for key, value in content.items():
                key = _checked_key(node, key)
                dict.__setitem__(node, key, _seedling(node, key, value, waiting))
        else:
            list.extend(node, [_seedling(node, "", value, waiting) for value in content])
        count += len(content) + 1
        if count >= nodes_max:
            count = 0
            yield


def _seedling(parent: Node, key: str, value: Value, waiting: list[tuple[Node, Any]]) -> Value:
    """A value in its place; of an object or a list, only the empty node for now."""
    if isinstance(value, dict):
        waiting.append((Record(parent.ledger, _not_too_deep(parent, key), key), value))
    elif isinstance(value, (list, tuple)):
        waiting.append((RecordList(parent.ledger, _not_too_deep(parent, key), key), value))
    else:
        return planted(parent, key, value)
    return waiting[-1][0]


def _checked_scalar(parent: Node, key: str, value: Value) -> Value:
    """Subclasses (enumerations too) become the plain value that they carry, for that is what JSON keeps."""
    if isinstance(value, int) and INTEGER_MIN <= value <= INTEGER_MAX:
        return int.__int__(value)
    if isinstance(value, float) and isfinite(value):
        return float.__float__(value)
    if isinstance(value, str) and not _HALF_PAIR.search(value):
        return str.__str__(value)
    if isinstance(value, (int, float, str)):
        raise NotJSON(f"{_path(parent, key)}: this {type(value).__name__} has no place in JSON; it is out of range")
    raise NotJSON(f"{_path(parent, key)}: {type(value).__name__} is not JSON; write dict, list, str, number or bool")


def _checked_key(parent: Node, key: object) -> str:
    if type(key) is str and key.isascii():
        return key
    if isinstance(key, str) and not _HALF_PAIR.search(key):
        return str.__str__(key)
    raise NotJSON(f"{_path(parent, key)}: the key is {type(key).__name__}; JSON's are str")


def _not_too_deep(parent: Node, key: str) -> Node:
    if parent.depth >= DEPTH_MAX:
        raise NotJSON(f"{_path(parent, key)}: nests deeper than {DEPTH_MAX} levels")
    return parent


def _path(node: Node | None, key: object) -> str:
    if node is None:
        return "state"
    step = "[…]" if isinstance(node, RecordList) else f"[{key!r}]"
    return (_path(node.parent, node.key) + step)[:PATH_LENGTH_MAX]
