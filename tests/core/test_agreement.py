"""One order for all members of a view, held against a dumb twin that compares whole sequences."""

from __future__ import annotations

import random

import pytest

from octoloom.core import agreement as agreement_module
from octoloom.core.agreement import Agreement, Disagreement, TooFarApart
from octoloom.core.errors import ProtocolError

MEMBERS = ("ada", "bob", "cy")


def test_members_that_are_not_equally_far_agree() -> None:
    agreement = Agreement(MEMBERS)
    for member, count in (("ada", 5), ("bob", 3), ("cy", 4), ("bob", 2)):
        start = {"bob": 3}.get(member, 0) if count == 2 else 0
        for number in range(start, start + count):
            assert agreement.take(member, "ada", number + 1) is None


def test_who_delivers_something_else_is_named_with_the_place() -> None:
    agreement = Agreement(MEMBERS)
    for number in (1, 2, 3):
        agreement.take("ada", "bob", number)
    assert agreement.take("cy", "bob", 1) is None
    assert agreement.take("cy", "bob", 3) == Disagreement("cy", 1, ("bob", 3), ("bob", 2))
    assert agreement.take("cy", "bob", 3) is None


@pytest.mark.parametrize("known", [True, False])
def test_any_interleaving_finds_what_comparing_whole_sequences_finds(known: bool) -> None:
    dice = random.Random(3)
    for _ in range(300):
        order = [(dice.choice("xyz"), number) for number in range(12)]
        sequences = {member: order[: dice.randint(0, 12)] for member in MEMBERS}
        if dice.random() < 0.5:
            wrong = dice.choice(MEMBERS)
            if len(sequences[wrong]) > 1:
                place = dice.randrange(len(sequences[wrong]) - 1)
                changed = list(sequences[wrong])
                changed[place], changed[place + 1] = changed[place + 1], changed[place]
                sequences[wrong] = changed
        common = [min(len(sequences[a]), len(sequences[b])) for a in MEMBERS for b in MEMBERS]
        pairs = [(sequences[a], sequences[b]) for a in MEMBERS for b in MEMBERS]
        agree = all(a[:count] == b[:count] for count, (a, b) in zip(common, pairs, strict=True))
        agreement = Agreement(MEMBERS if known else ())
        left = {member: list(sequence) for member, sequence in sequences.items()}
        found = []
        while any(left.values()):
            member = dice.choice([member for member, sequence in left.items() if sequence])
            found.append(agreement.take(member, *left[member].pop(0)))
            copy = Agreement(MEMBERS if known else ())
            copy.restore(agreement.snapshot())
            agreement = copy
        assert (not any(found)) == agree


def test_what_all_have_delivered_is_forgotten() -> None:
    agreement = Agreement(MEMBERS)
    for number in range(50):
        for member in MEMBERS:
            agreement.take(member, "ada", number)
    assert len(agreement.snapshot().sequence) <= 1


def test_strangers_and_stragglers_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(agreement_module, "AHEAD_MAX", 4)
    agreement = Agreement(MEMBERS)
    with pytest.raises(ProtocolError, match="not-a-member"):
        agreement.take("eve", "ada", 1)
    for number in range(4):
        agreement.take("ada", "ada", number)
    with pytest.raises(TooFarApart, match="ada is 4 casts ahead"):
        agreement.take("ada", "ada", 4)
    assert agreement.take("bob", "ada", 0) is None
