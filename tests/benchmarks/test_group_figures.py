"""Aims are met and missed as they should be, and what was not measured is neither."""

from __future__ import annotations

import pytest

from group_case import Failover
from group_figures import BLACKOUT, JGROUPS, MS, OURS, PER_SECOND, Figure, Figures, tables


def ended(blackout_ms: float, agree: bool = True, fault: str = "") -> Failover:
    counts = {name: int(name == fault) for name in ("duplicates", "inversions", "missing", "unsent", "stuck")}
    return Failover(sent=9, blackouts_ms=[blackout_ms, 1.0], agree=agree, differ_at=None if agree else 4, **counts)


def figures(ours: float, theirs: float, mine: list[Failover], their: list[Failover]) -> Figures:
    rates = [Figure("1 sender, 100 B", PER_SECOND, OURS, [1.0, ours, 1e9])]
    rates.append(Figure("1 sender, 100 B", PER_SECOND, JGROUPS, [theirs]))
    rates.append(Figure("latency p50", MS, OURS, [0.25]))
    return Figures(rates, {OURS: mine, JGROUPS: their})


def results(found: Figures) -> list[bool | None]:
    return [each.met for each in found.verdicts()]


def test_aims_are_met_at_their_limits_and_missed_beyond() -> None:
    assert results(figures(50_000, 50_000, [ended(500)], [ended(1_500)])) == [True, True, True]
    assert results(figures(49_999, 50_000, [ended(501)], [ended(1_500)])) == [False, False, True]


def test_a_median_is_compared_and_its_ratio_is_ours_to_theirs() -> None:
    found = figures(30_000, 60_000, [ended(100), ended(300), ended(5_000)], [ended(1_000)])
    assert found.ratio("1 sender, 100 B") == pytest.approx(0.5)
    assert found.ratio(BLACKOUT) == pytest.approx(0.3)
    assert found.ratio("latency p50") is None


@pytest.mark.parametrize("fault", ["duplicates", "inversions", "missing", "unsent", "stuck"])
def test_one_fault_in_one_failover_of_ours_misses_the_aim(fault: str) -> None:
    bad = ended(1, fault=fault)
    assert results(figures(1, 1, [ended(1), bad], [ended(9)]))[-1] is False
    assert results(figures(1, 1, [ended(1), ended(1)], [bad]))[-1] is True


def test_a_disagreement_of_ours_misses_the_aim_and_is_shown() -> None:
    found = figures(1, 1, [ended(1), ended(1, agree=False)], [ended(9)])
    verdict = found.verdicts()[-1]
    assert (verdict.met, verdict.seen, verdict.result) == (False, "1 of 2 failovers", "missed")
    assert "no, from delivery 4" in tables(found, every=False)[1].markdown()


def test_what_was_not_measured_is_neither_met_nor_missed() -> None:
    found = Figures([Figure("1 sender, 100 B", PER_SECOND, JGROUPS, [5.0])], {OURS: [], JGROUPS: []})
    assert results(found) == [None, None, None]
    assert {each.result for each in found.verdicts()} == {"not measured"}
    assert "| 1 sender, 100 B | messages/s | – | 5 | – | higher |" in tables(found, every=True)[0].markdown()
