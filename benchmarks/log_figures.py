"""What was measured, as ratios, and the goals.

A ratio above 1 means that ours is ahead: records per second of ours to theirs, and time of theirs to ours. Each is
against the peer with as many replicas and the same promise about syncing. A peer that cannot promise it is taken with
what it can, and marked.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

import msgspec

from log_case import Setup, Sync

OURS, OWN, NATS, REDIS, RAW = "octoloom", "octoloom's client", "nats", "redis", "raw"
CLIENTS = {OURS: "librdkafka", OWN: "our own"}
"""The ways to our log."""
OTHERS = {NATS: "NATS", REDIS: "Redis", RAW: "raw"}
LATENCY = "latency"
WEAKER = "*"


class Figure(msgspec.Struct, frozen=True):
    """One case of one log, over all rounds: records per second, or milliseconds in the cases of latency."""

    case: str
    setup: Setup
    rounds: list[float]
    client_cpu: float
    """The client's CPU in cores, and that of all servers together; medians as well."""
    server_cpu: float

    @property
    def value(self) -> float:
        return median(self.rounds)


class Ratio(msgspec.Struct, frozen=True):
    """Ours against one other, in one case. `their_case` differs where only they pack blobs."""

    case: str
    client: str
    replicas: int
    sync: Sync
    peer: str
    their_case: str
    ratio: float
    weaker: bool
    """Whether the peer did not sync as it should."""

    def __str__(self) -> str:
        return f"{self.ratio:,.2f}{WEAKER if self.weaker else ''}"


class Goal(msgspec.Struct, frozen=True):
    text: str
    case: str
    their_case: str
    peer: str
    at_least: float


class Verdict(msgspec.Struct, frozen=True):
    goal: Goal
    ratio: Ratio

    @property
    def met(self) -> bool:
        return self.ratio.ratio >= self.goal.at_least


def produce_case(size: int, way: str = "batched") -> str:
    return f"produce {_size(size)}{_WAYS[way]}"


def consume_case(size: int, way: str = "batched") -> str:
    return f"consume {_size(size)}{_WAYS[way]}"


def records_case(case: str) -> str:
    """The same case with a record per message."""
    return case.removesuffix(_WAYS["blobs"])


_WAYS = {"batched": "", "blobs": ", in blobs of 64 KB", "single": ", one per request"}


def _size(size: int) -> str:
    return f"{size // 1000} KB" if size >= 1000 else f"{size} B"


def goals(sizes: Sequence[int]) -> list[Goal]:
    found = []
    for size in sizes:
        for case_of in (produce_case, consume_case):
            case, blobs = case_of(size), case_of(size, "blobs")
            found += [
                Goal(f"{case}: 10 times NATS", case, case, NATS, 10.0),
                Goal(f"{case}: 5 times Redis", case, case, REDIS, 5.0),
                Goal(f"{case}: 3 times NATS in blobs", case, blobs, NATS, 3.0),
                Goal(f"{case}: 3 times Redis in blobs", case, blobs, REDIS, 3.0),
            ]
    p50 = f"{LATENCY} p50"
    return [*found, Goal("latency p50: no worse than NATS", p50, p50, NATS, 1.0)]


class Figures:
    """All figures of a run, by case and log."""

    def __init__(self, figures: Sequence[Figure]) -> None:
        self.all = list(figures)
        self._found = {(figure.case, figure.setup): figure for figure in figures}

    @property
    def cases(self) -> list[str]:
        return list(dict.fromkeys(figure.case for figure in self.all))

    @property
    def ours(self) -> list[Setup]:
        return list(dict.fromkeys(figure.setup for figure in self.all if figure.setup.system in CLIENTS))

    @property
    def others(self) -> list[str]:
        return [peer for peer in OTHERS if any(figure.setup.system == peer for figure in self.all)]

    def of(self, case: str, setup: Setup) -> Figure | None:
        return self._found.get((case, setup))

    def theirs(self, case: str, peer: str, mine: Setup) -> tuple[Figure, bool] | None:
        """The matching figure of a peer, and whether it promises less."""
        for sync in dict.fromkeys([mine.sync, "os"]):
            figure = self.of(case, Setup(peer, mine.replicas, sync))
            if figure is not None:
                return figure, sync != mine.sync
        return None

    def ratio(self, case: str, mine: Setup, peer: str, their_case: str = "") -> Ratio | None:
        figure, found = self.of(case, mine), self.theirs(their_case or case, peer, mine)
        if figure is None or found is None:
            return None
        theirs, weaker = found
        is_time = case.startswith(LATENCY)
        ratio = theirs.value / figure.value if is_time else figure.value / theirs.value
        return Ratio(case, CLIENTS[mine.system], mine.replicas, mine.sync, peer, their_case or case, ratio, weaker)

    def ratios(self) -> list[Ratio]:
        pairs = [(case, case) for case in self.cases]
        pairs += [(case, blobs) for blobs in self.cases if (case := records_case(blobs)) != blobs]
        found = [self.ratio(case, mine, peer, their) for case, their in pairs for mine in self.ours for peer in OTHERS]
        return [ratio for ratio in found if ratio is not None]

    def verdicts(self, sizes: Sequence[int]) -> list[Verdict]:
        """How the goals, which are for three replicas, were met."""
        found = []
        for goal in goals(sizes):
            for mine in self.ours:
                ratio = self.ratio(goal.case, mine, goal.peer, goal.their_case)
                if mine.replicas == 3 and ratio is not None:
                    found.append(Verdict(goal, ratio))
        return found
