"""The state that a reducer sees records its own writes, so that a patch costs the size of the change.

Reads are those of dict and list. Each write notes what was there before, twice: in the log of the open transaction,
to undo one event, and as the node's original value, to tell at `take` what changed since the last one.

1. A written value is copied in, deep. The state is a tree: no two places share a node, no node ever moves, and a
   node that was taken out keeps its content, while writes into it reach no patch. Hence a value that was assigned
   is not the one in the state: write `state["p"] = {}; state["p"]["x"] = 1`, or use what `setdefault` returns.
2. A value that is not JSON raises `NotJSON`, and nothing has changed.
3. `undo` restores every node that was written since `begin`, the order of keys included.
4. For each node, its content with the originals put back is its content at the last `take`. Undoing keeps that
   true, so originals are never undone. A node made since the last `take` needs none: its place in an older node has
   one. A list is sent as a whole, so its original is a copy of the list, and speaks for everything inside it.
5. `take` is the smallest patch: what ended as it began is not in it. Where a patch cannot say it, it is the state.

The order of keys is not part of the state: a replica that merges patches holds an equal state, perhaps in another
order, and texts are compared with their keys sorted. A reducer that lets order decide should sort.
"""

from __future__ import annotations

from typing import Any

from octoloom.core.merge_patch import CannotPatch, Value, copied, diff
from octoloom.core.records import MISSING, Ledger, Node, NotJSON, Record, RecordList, planting

LOAD_NODES = 5_000

__all__ = ["NotJSON", "Record", "RecordList", "Recorder"]


class Recorder:
    """A state, and what was written to it: per event (`begin`, then `keep` or `undo`) and per change (`take`)."""

    def __init__(self, state: dict[str, Any], nodes_max: int = 0) -> None:
        """Takes in the state; with `nodes_max`, only as `load` is called, about that many values at a time."""
        self._ledger = Ledger()
        self.state = Record(self._ledger)
        self._planting = planting(self.state, state, nodes_max or LOAD_NODES)
        while not nodes_max and not self.load():
            pass

    def load(self) -> bool:
        """Takes in the next part of the state; True once all of it is there."""
        if not self._ledger.generation:
            for _ in self._planting:
                return False
            self._ledger.generation += 1
        return True

    def begin(self) -> None:
        """Opens a transaction. Writes outside of one are kept."""
        assert self._ledger.log is None, "keep or undo comes before the next begin"
        self._ledger.transaction += 1
        self._ledger.log = []

    def keep(self) -> None:
        assert self._ledger.log is not None, "nothing was begun"
        self._ledger.log = None

    def undo(self) -> None:
        """Takes back every write since `begin`, into nodes that were taken out of the state as well."""
        log, self._ledger.log = self._ledger.log, None
        assert log is not None, "nothing was begun"
        disordered: dict[int, Record] = {}
        for node, key, old, rank in reversed(log):
            if node.put_back(key, old, rank) and isinstance(node, Record):
                disordered[id(node)] = node
        for record in disordered.values():
            record.restore_order()

    def take(self) -> tuple[bool, Value]:
        """(False, patch) for all writes since the last take, or (True, state) where no patch can say them."""
        assert self._ledger.log is None, "keep or undo comes before take"
        try:
            return False, self._patch()
        except CannotPatch:
            return True, copied(self.state)
        finally:
            self.forget()

    def _patch(self) -> dict[str, Any]:
        patch: dict[str, Any] = {}
        for node in self._ledger.touched:
            path = _path_to(node)
            if path is None or not (delta := _delta(node)):
                continue
            place = patch
            for key in path:
                place = place.setdefault(key, {})
            place.update(delta)
        return patch

    def forget(self) -> None:
        """As `take`, for those who want no patch."""
        for node in self._ledger.touched:
            if isinstance(node, Record):
                node.originals = None
            else:
                node.original = None
        self._ledger.touched = []
        self._ledger.generation += 1


def _path_to(node: Node) -> list[str] | None:
    """The keys from the root to the record that a node's delta is for, or None if the node is no longer in there."""
    path = []
    inner, outer = node, node.parent
    while outer is not None:
        if not isinstance(outer, Record) or outer.get(inner.key) is not inner:
            return None
        path.append(inner.key)
        inner, outer = outer, outer.parent
    # A list has no patch of its own: its delta is for the record that holds it.
    return path[::-1] if isinstance(node, Record) else path[:0:-1]


def _delta(node: Node) -> dict[str, Any]:
    """The patch of one record's own members, or of the one member that a list is."""
    before: dict[str, Any] = {}
    after: dict[str, Any] = {}
    if isinstance(node, RecordList):
        before[node.key], after[node.key] = node.original, node
    else:
        for key, old in (node.originals or {}).items():
            _compare(key, old, node.get(key, MISSING), before, after)
    delta: dict[str, Any] = diff(before, after)
    return delta


def _compare(key: str, old: Value, now: Value, before: dict[str, Any], after: dict[str, Any]) -> None:
    # The same node still stands there: if anything changed inside, it speaks for itself.
    if old is now:
        return
    if old is not MISSING:
        # What a scalar replaced need not be looked into, however large it was.
        before[key] = _as_taken(old) if isinstance(now, (dict, list)) else old
    if now is not MISSING:
        after[key] = now


def _as_taken(value: Value) -> Value:
    """What the value was at the last take."""
    if isinstance(value, RecordList):
        return value if value.original is None else value.original
    if not isinstance(value, Record):
        return value
    originals = value.originals or {}
    view = {key: _as_taken(member) for key, member in value.items() if key not in originals}
    view.update((key, _as_taken(old)) for key, old in originals.items() if old is not MISSING)
    return view
