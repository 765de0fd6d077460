"""Causal order: no cast is delivered before its causes (Birman, Schiper and Stephenson).

The causes of a cast are what its sender had sent and delivered before. Its stamp counts them, for each member, with the
cast itself: the sender's whole vector, copied at the send, since the vector goes on and a stamp must not. A cast may be
delivered as soon as

- it is the next of its sender, and
- nothing that it counts of the others is missing here.

The slides ask for a successor of one's own vector instead. Concurrent casts never are, and would be held for ever.

Concurrency is known exactly at delivery: what was delivered here of others and is not counted by the cast is not among
its causes, and cannot be among its effects, for those come after it. These are reported, as ranges of numbers; with
them each pair of concurrent casts is reported once, by the one that comes later here. One's own casts count as others
do: those that the sender had not seen are concurrent. What follows is a choice (setting `concurrent`):

- `flag`: deliver, and say so (the default);
- `raise`: `ConcurrentMessages`, for apps to which concurrency is a mistake. If a cast, or one that it would release, is
  concurrent with something that was delivered, then nothing happens at all: the cast is not taken, nothing is
  delivered, and the same cast may come again with the same result;
- `paths`: deliver, and say which chain of causes the cast continues (see `paths`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from operator import lt

from octoloom.core.errors import OctoloomError, ProtocolError, UsageError
from octoloom.core.filters import Delivery, OrderContext, orders
from octoloom.core.group_messages import Cast
from octoloom.core.paths import Paths
from octoloom.core.steps import CONCURRENT, PATH_CREATED
from octoloom.core.turns import Lack, Turns
from octoloom.core.vector_time import ahead

POLICIES = ("flag", "raise", "paths")


class ConcurrentMessages(OctoloomError):  # noqa: N818
    """Two casts of which neither is among the causes of the other: (member, number) of each."""

    def __init__(self, later: tuple[str, int], earlier: tuple[str, int]) -> None:
        texts = [f"cast {number} of {member}" for member, number in (later, earlier)]
        super().__init__(f"{texts[0]} and {texts[1]} are concurrent")
        self.later = later
        self.earlier = earlier


class Causal(Turns):
    def __init__(self, context: OrderContext) -> None:
        super().__init__(context)
        policy = context.settings.get("concurrent", "flag")
        if policy not in POLICIES:
            raise UsageError(f"there is no policy {policy!r} for concurrent messages: use one of {', '.join(POLICIES)}")
        self._raises = policy == "raise"
        self._paths = Paths() if policy == "paths" else None
        self._may_be_quick = policy == "flag" and not self._tells

    def _receive(self, cast: Cast) -> None:
        """Most casts have seen exactly what is here: then one comparison stands for all the checks below."""
        place, vector = self.places.get(cast.sender, self.mine), self.vector
        if self._may_be_quick and cast.number == vector[place] + 1 and (place, cast.number) not in self._held:
            vector[place] += 1
            if cast.stamp == vector and place != self.mine:
                self.receive.processor(Delivery(cast))
                if self._waiting:
                    self._wake(place, cast.number)
                return
            vector[place] -= 1
        super()._receive(cast)

    def stamp(self, cast: Cast) -> list[int]:
        if self._paths is not None:
            self._paths.follow(self.mine, self.vector)
        return self.vector.copy()

    def check(self, place: int, cast: Cast) -> None:
        stamp, vector = cast.stamp, self.vector
        if len(stamp) != len(vector):
            raise ProtocolError("bad-stamp", f"{cast.sender} counts {len(stamp)} members of {len(vector)}")
        if stamp[place] != cast.number:
            raise ProtocolError("bad-stamp", f"cast {cast.number} of {cast.sender} calls itself {stamp[place]}")
        if stamp[self.mine] > vector[self.mine]:
            raise ProtocolError("bad-stamp", f"{cast.sender} counts {stamp[self.mine]} casts of mine")
        # All in the view have seen what lies before it, and no count is below zero.
        if any(map(lt, stamp, self.begin)):
            raise ProtocolError("bad-stamp", f"cast {cast.number} of {cast.sender} lacks what lies before the view")
        if self._raises:
            self._foresee(cast)

    def lack(self, place: int, cast: Cast, last: Lack | None = None) -> Lack | None:
        return lack_of(place, cast, self.vector, last)

    def deliver(self, place: int, cast: Cast) -> Delivery:
        vector, stamp = self.vector, cast.stamp
        # The sender's own count is the one before this cast, so it is not ahead of the stamp.
        unseen = tuple([(self.names[k], stamp[k] + 1, vector[k]) for k in ahead(vector, stamp)])
        vector[place] = cast.number
        if unseen and self._tells:
            member, _, number = unseen[0]
            self.tell(CONCURRENT, cast, text=f"with cast {number} of {member}")
        return Delivery(cast, unseen, self._path_of(place, cast) if self._paths is not None else 0)

    def _path_of(self, place: int, cast: Cast) -> int:
        assert self._paths is not None
        path, is_new = self._paths.follow(place, cast.stamp)
        if is_new and self._tells:
            self.tell(PATH_CREATED, cast, text=f"path {path}")
        return path

    def _foresee(self, cast: Cast) -> None:
        """Go through all that the cast would release, on copies, and raise at the first that is concurrent."""
        # For the cast itself that is certain even if it must wait: the counts of a vector only grow.
        self._refuse_concurrent(cast, self.vector)
        vector, moved, woken = self.vector.copy(), dict[Lack, list[Cast]](), deque([cast])
        while woken:
            cast = woken.popleft()
            place = self.places[cast.sender]
            lack = lack_of(place, cast, vector)
            if lack is not None:
                moved.setdefault(lack, []).append(cast)
                continue
            self._refuse_concurrent(cast, vector)
            vector[place] = cast.number
            woken.extend(self._waiting.get((place, cast.number), ()))
            woken.extend(moved.pop((place, cast.number), ()))

    def _refuse_concurrent(self, cast: Cast, vector: Sequence[int]) -> None:
        for other in ahead(vector, cast.stamp):
            raise ConcurrentMessages((cast.sender, cast.number), (self.names[other], vector[other]))


def lack_of(place: int, cast: Cast, vector: Sequence[int], last: Lack | None = None) -> Lack | None:
    """The first thing that is missing: the one before it of its sender, then the others' in the view's order.

    Counts only grow, so the search goes on behind what it waited for last.
    """
    stamp, previous = cast.stamp, cast.number - 1
    if vector[place] < previous:
        return place, previous
    start = 0 if last is None or last[0] == place else last[0] + 1
    for other in ahead(stamp, vector, start):
        if other != place:
            return other, stamp[other]
    return None


orders.add("causal", Causal)
