"""Lives of a group, told by hand: what each member wrote down of one and the same story."""

from __future__ import annotations

from octoloom.runtime.group_lives import Heard, Life, Line, Moved

ADA, BOB, EVE, DAN = "ada#1", "bob#1", "eve#1", "dan#2"


def heard(at_ms: float, sender: str, number: int, **seen: int) -> Heard:
    return Heard(at_ms, sender, number, {f"{name}#1": count for name, count in seen.items()})


def total() -> list[Life]:
    """Ada orders, and dies; Bob and Eve live; Dan comes in her place. Ada had one thing that nobody else has."""
    begin: list[Line] = [heard(10, ADA, 1), heard(11, BOB, 1), heard(12, EVE, 1), heard(13, ADA, 2)]
    rest: list[Line] = [heard(60, EVE, 2), heard(61, DAN, 1), heard(62, BOB, 2)]
    changes: list[Line] = [
        Moved(50, "leave", "ada", ["bob", "eve", "dan"]),
        Moved(50, "join", "dan", ["bob", "eve", "dan"]),
    ]
    return [
        Life(ADA, founded=True, lived=False, lines=[*begin, heard(14, BOB, 2)]),
        Life(BOB, founded=True, to_send=2, lines=[*begin, *changes, *rest]),
        Life(EVE, founded=True, to_send=2, lines=[*begin, *changes, *rest]),
        Life(DAN, founded=False, to_send=1, lines=[*rest]),
    ]


def causal() -> list[Life]:
    """The same, in causal order: nobody is handed what it sent itself, and Bob and Eve differ in what is concurrent."""
    changes: list[Line] = [
        Moved(50, "leave", "ada", ["bob", "eve", "dan"]),
        Moved(50, "join", "dan", ["bob", "eve", "dan"]),
    ]
    bob, eve = heard(62, BOB, 2, eve=1, ada=2), heard(60, EVE, 2, bob=1, ada=2)
    dan = Heard(61, DAN, 1, {EVE: 2})
    return [
        Life(ADA, founded=True, lived=False, lines=[heard(11, BOB, 1, ada=1)]),
        Life(BOB, founded=True, to_send=2, lines=[
            heard(10, ADA, 1), heard(12, EVE, 1, ada=1, bob=1), heard(13, ADA, 2, bob=1), *changes, eve, dan,
        ]),
        Life(EVE, founded=True, to_send=2, lines=[
            heard(10, ADA, 1), heard(11, BOB, 1, ada=1), heard(13, ADA, 2, bob=1), *changes, dan, bob,
        ]),
        Life(DAN, founded=False, to_send=1, lines=[eve, bob]),
    ]  # fmt: skip
