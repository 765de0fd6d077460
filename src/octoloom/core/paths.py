"""The tree of message paths: which chain of causes does a cast continue?

While nothing is concurrent, all casts form one chain, path 1. A cast that does not follow the last one of any path
branches off: it begins a new path, with a vector of its own. Each path ends in a leaf, a cast that nothing follows yet.
A cast that follows several leaves joins their paths: it continues the lowest and the others end.

All that must be known of a leaf is its sender and number, for a later cast follows it exactly if it counts that number.
Each cast follows the one before it of its sender, so a member has at most one leaf: there are never more than members.
The numbers of paths are a member's own, by the sequence in which it delivers; another may number them otherwise.
"""

from __future__ import annotations

from collections.abc import Sequence

FIRST_PATH = 1


class Paths:
    def __init__(self) -> None:
        self._leaves: dict[int, tuple[int, int]] = {}
        """By the place of its sender: (its number, its path)."""
        self._newest = FIRST_PATH - 1

    def __len__(self) -> int:
        return len(self._leaves)

    def leaves(self) -> dict[int, tuple[int, int]]:
        return dict(self._leaves)

    def follow(self, place: int, stamp: Sequence[int]) -> tuple[int, bool]:
        """Put a delivered or sent cast of the member at `place` into the tree: (its path, whether that is new).

        The first path of all is no new one: it begins with the view.
        """
        followed = [(path, leaf) for leaf, (number, path) in self._leaves.items() if stamp[leaf] >= number]
        for _, leaf in followed:
            del self._leaves[leaf]
        is_new = not followed and self._newest >= FIRST_PATH
        if not followed:
            self._newest += 1
        path = min(followed)[0] if followed else self._newest
        self._leaves[place] = (stamp[place], path)
        return path, is_new
