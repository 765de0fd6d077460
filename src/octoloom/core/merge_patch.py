"""JSON merge patches (RFC 7396) on plain Python values: how one state becomes the next.

A value is what JSON has: dict with str keys, list, str, int, float, bool, None. A patch is a value too: an object
merges member by member, null deletes a member, anything else replaces what is there, arrays as a whole.

1. `apply` costs the size of the patch, never of the target, and the target shares no dict or list with the patch.
2. `apply(old, diff(old, new))` is `new`, down to JSON's types: True, 1 and 1.0 are three values, so are 0.0 and -0.0.
3. What a patch cannot say raises `CannotPatch`: a null as a member of an object, unless it was there before. Arrays
   are taken verbatim, so nulls inside them (in objects inside them too) are fine.
4. Patches are not merged with each other, for "delete this object, then set another in its place" has no single
   patch. `difference` brings an older state up to date with at most two, without the older state, at the cost of
   what was touched.

Depth is the caller's to bound (`nests_deeper`): the functions here recurse.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import accumulate
from math import copysign
from typing import Any

from octoloom.core.errors import OctoloomError

Value = Any
"""A JSON value: dict[str, Value], list[Value], str, int, float, bool or None."""
Touched = dict[str, "Touched | None"]
"""Members that patches touched: merged into (with the members below) or replaced wholesale (None)."""

# Possessive, and content with a missing end quote: it never steps back, so hostile text costs linear time too.
_STRING = re.compile(rb'"(?:[^"\\]++|\\.)*+"?', re.DOTALL)
_NO_BRACKETS = bytes(byte for byte in range(256) if byte not in b"[]{}")
_STEP = [1 if byte in b"[{" else -1 for byte in range(256)]


class CannotPatch(OctoloomError):  # noqa: N818
    """No merge patch says this change; send the whole state in its place."""


def apply(target: Value, patch: Value) -> Value:
    """The patched value. A dict target is changed in place and returned."""
    if not isinstance(patch, dict):
        return copied(patch)
    if not isinstance(target, dict):
        target = {}
    for key, value in patch.items():
        if value is None:
            target.pop(key, None)
        elif isinstance(value, dict):
            _apply_member(target, key, value)
        else:
            target[key] = copied(value)
    return target


def _apply_member(target: dict[str, Value], key: str, patch: dict[str, Value]) -> None:
    current = target.get(key)
    if isinstance(current, dict):
        apply(current, patch)
    else:
        target[key] = apply({}, patch)


def diff(old: Value, new: Value) -> Value:
    """The smallest patch that makes `new` of `old`; raises CannotPatch where there is none.

    A root that is no object, before or after, is replaced by a patch that is the new value.
    """
    if not isinstance(new, dict):
        return copied(new)
    if not isinstance(old, dict):
        return _whole(new)
    patch: dict[str, Value] = {key: None for key in old if key not in new}
    for key, value in new.items():
        if key not in old:
            patch[key] = _whole(value)
        elif isinstance(value, dict) and isinstance(old[key], dict):
            if inner := diff(old[key], value):
                patch[key] = inner
        elif not same(old[key], value):
            patch[key] = _whole(value)
    return patch


def difference(patches: Sequence[Value], state: Value) -> list[Value]:
    """At most two patches that bring the state from before `patches` to `state`, which is the one after them.

    The first deletes: an object now stands where something was replaced wholesale, and its remains must not
    shine through. The second sets what stands at the touched paths now.
    """
    if not patches:
        return []
    touched: Touched | None = {}
    for patch in patches:
        touched = _touch(touched, patch)
    if not isinstance(state, dict):
        return [copied(state)]
    if touched is None:
        return [None, _whole(state)]
    deletes, sets = _deletes(touched, state), _sets(touched, state)
    return [deletes, sets] if deletes else [sets]


def _touch(touched: Touched | None, patch: Value) -> Touched | None:
    """What was replaced wholesale stays so, whatever is merged into it later."""
    if touched is None or not isinstance(patch, dict):
        return None
    for key, value in patch.items():
        touched[key] = _touch(touched.get(key, {}), value)
    return touched


def _deletes(touched: Touched, state: dict[str, Value]) -> dict[str, Value]:
    patch: dict[str, Value] = {}
    for key, below in touched.items():
        current = state.get(key)
        if not isinstance(current, dict):
            continue
        if below is None:
            patch[key] = None
        elif inner := _deletes(below, current):
            patch[key] = inner
    return patch


def _sets(touched: Touched, state: dict[str, Value]) -> dict[str, Value]:
    patch: dict[str, Value] = {}
    for key, below in touched.items():
        if key not in state:
            patch[key] = None
        elif below is not None and isinstance(state[key], dict):
            patch[key] = _sets(below, state[key])
        else:
            patch[key] = _whole(state[key])
    return patch


def _whole(value: Value) -> Value:
    """A copy of `value`, as the member of a patch that puts it where no object was."""
    if value is None or has_null_member(value):
        raise CannotPatch("a merge patch cannot set an object's member to null; replace the whole state")
    return copied(value)


def copied(value: Value) -> Value:
    """A deep copy in plain dicts and lists."""
    if isinstance(value, dict):
        return {key: copied(member) for key, member in value.items()}
    if isinstance(value, list):
        return [copied(item) for item in value]
    return value


def same(one: Value, other: Value) -> bool:
    """Whether both are the same JSON, members in any order."""
    if isinstance(one, dict):
        if not isinstance(other, dict) or len(one) != len(other):
            return False
        return all(key in other and same(value, other[key]) for key, value in one.items())
    if isinstance(one, list):
        if not isinstance(other, list) or len(one) != len(other):
            return False
        return all(map(same, one, other))
    if type(one) is not type(other) or one != other:
        return False
    return type(one) is not float or copysign(1.0, one) == copysign(1.0, other)


def has_null_member(value: Value) -> bool:
    """Whether an object, outside of any array, has a member that is null."""
    if not isinstance(value, dict):
        return False
    return any(member is None or has_null_member(member) for member in value.values())


def nests_deeper(text: bytes, depth_max: int) -> bool:
    """Whether JSON text nests arrays and objects deeper than `depth_max`, told before anything parses it."""
    if text.count(b"{") + text.count(b"[") <= depth_max:
        return False
    brackets = _STRING.sub(b"", text).translate(None, _NO_BRACKETS)
    return max(accumulate(_STEP[byte] for byte in brackets), default=0) > depth_max
