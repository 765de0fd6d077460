"""Those who play in the demo see what there is to see, bad things included."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any, cast

from octoloom.runtime.follower import Change, Follower, SendOutcome
from octoloom.runtime.players import Watcher
from octoloom.runtime.proof import digest_of


class Scripted:
    """A follower that tells what it was given."""

    def __init__(self, changes: list[Change]) -> None:
        self._changes = changes
        self.version = 9
        self.state: dict[str, Any] = {"a": 1}

    async def changes(self) -> AsyncIterator[Change]:
        for change in self._changes:
            yield change


def watch(*changes: Change) -> Watcher:
    watcher = Watcher("eve", cast(Follower, Scripted(list(changes))))
    asyncio.run(watcher.watch())
    return watcher


def test_a_watcher_notes_every_outcome_in_order() -> None:
    first, second = SendOutcome("applied", "", 1, 1), SendOutcome("rejected", "no", 2, 2)
    watcher = watch(Change(1, (first,)), Change(2, (second, second)))
    assert watcher.told == [(1, "applied"), (2, "rejected"), (2, "rejected")]
    assert (watcher.witness.fell, watcher.witness.resets) == (0, 0)


def test_a_watcher_notes_a_state_that_goes_back_and_one_that_begins_anew() -> None:
    assert watch(Change(5), Change(4), Change(6)).witness.fell == 1
    assert watch(Change(5), Change(6, reset=True)).witness.resets == 1


def test_a_watcher_tells_in_the_end_what_it_sees() -> None:
    watcher = watch(Change(9))
    asyncio.run(watcher.see(9))
    assert watcher.witness.digest == digest_of({"a": 1})
    assert (watcher.witness.name, watcher.witness.version) == ("eve", 9)
