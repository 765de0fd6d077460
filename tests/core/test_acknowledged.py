"""What devices were told, against what the kills say."""

from __future__ import annotations

import pytest

from octoloom.core.acknowledged import Promises, Settled
from octoloom.core.event import Kill, Outcome
from octoloom.core.findings import Findings


def judged(told: Settled, *kills: tuple[int, Kill]) -> dict[str, int]:
    findings, promises = Findings("hall"), Promises([told])
    for version, kill in kills:
        promises.on_kill(1, version, kill)
    promises.finish(findings)
    return findings.counts


def kill(outcome: Outcome = Outcome.APPLIED, sequencer: int = 5) -> Kill:
    return Kill(100 + sequencer, "ada", sequencer, outcome)


@pytest.mark.parametrize(
    ("outcome", "version", "expected"),
    [
        ("applied", 7, {}),
        ("applied", 0, {}),
        ("forgotten", 0, {}),
        ("superseded", 0, {}),
        ("rejected", 7, {"acknowledged-otherwise": 1}),
        ("applied", 8, {"acknowledged-otherwise": 1}),
    ],
)
def test_what_was_told_must_be_so(outcome: str, version: int, expected: dict[str, int]) -> None:
    told = Settled("hall", "ada", 5, outcome, version)
    assert judged(told, (6, kill(sequencer=4)), (7, kill())) == expected


def test_what_is_not_there_is_lost() -> None:
    assert judged(Settled("hall", "ada", 5, "applied"), (7, kill(sequencer=4))) == {"acknowledged-lost": 1}
    assert judged(Settled("hall", "ada", 5, "nonsense")) == {"acknowledged-lost": 1}
    assert judged(Settled("hall", "ada", 5, "superseded")) == {}


def test_what_is_undone_has_to_come_again() -> None:
    findings, promises = Findings("hall"), Promises([Settled("hall", "ada", 5, "applied")])
    promises.on_kill(1, 7, kill(Outcome.REJECTED))
    promises.on_undone(7)
    assert len(promises) == 0
    promises.on_undone(6)
    assert len(promises) == 1
    promises.on_kill(2, 7, kill())
    promises.finish(findings)
    assert findings.counts == {}
