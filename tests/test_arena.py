"""The rules of the demo's game, and of the examples."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from octoloom.arena import app, follow_trail
from octoloom.core.app import App, encode_json
from octoloom.core.event import JOIN, PRESENCE, Event, Outcome
from octoloom.core.recorder import Recorder
from octoloom.runtime.apps import load_app

EXAMPLES = Path(__file__).parents[1] / "examples"


class Table:
    """One space of an app, without a chain."""

    def __init__(self, app: App) -> None:
        self.app = app
        self.recorder = Recorder(app.initial)
        self.dice = 0

    def do(self, device: str, name: str, payload: Any = None) -> str:
        self.dice += 1
        event = Event(self.dice, device, self.dice, name, encode_json(payload), 1000, self.dice)
        verdict = self.app.run(self.recorder, event, next_timer=1)
        assert not verdict.fault
        assert verdict.outcome is not None
        return verdict.reason if verdict.outcome is Outcome.REJECTED else "applied"

    def join(self, device: str) -> None:
        self.do(PRESENCE, JOIN, {"device": device})

    @property
    def state(self) -> Any:
        return self.recorder.state


def test_the_arena_counts_what_it_applies_and_nothing_else() -> None:
    table = Table(app)
    for player in ("ada", "bob"):
        table.join(player)
    applied: dict[str, list[int]] = {"ada": [], "bob": []}
    for number in range(1, 60):
        for player in ("ada", "bob"):
            if table.do(player, "claim", {"cell": f"a{number % 4 + 1}", "number": number}) == "applied":
                applied[player].append(number)
    for player, numbers in applied.items():
        trail = 0
        for number in numbers:
            trail = follow_trail(trail, number)
        held = list(table.state["cells"].values()).count(player)
        assert table.state["players"][player] == {"cells": held, "moves": len(numbers), "trail": trail}
    assert 0 < len(applied["ada"]) < 59


def test_the_arena_rejects_with_a_reason() -> None:
    table = Table(app)
    table.join("ada")
    assert table.do("ada", "claim", {"cell": "z9", "number": 1}) == "off the board"
    assert table.do("ada", "claim", {"cell": "a1", "number": 2}) == "applied"
    assert table.do("ada", "claim", {"cell": "a1", "number": 3}) == "yours already"


@pytest.mark.parametrize("numbers", [[1, 2], [1, 2, 3, 3], [2, 1, 3], [1, 3, 2]])
def test_a_trail_tells_lost_doubled_and_swapped_moves(numbers: list[int]) -> None:
    def trail(numbers: list[int]) -> int:
        value = 0
        for number in numbers:
            value = follow_trail(value, number)
        return value

    assert trail(numbers) != trail([1, 2, 3])


def test_the_example_games_play() -> None:
    arena = Table(load_app(f"{EXAMPLES / 'arena.py'}:app"))
    arena.join("ada")
    assert arena.do("ada", "claim", {"cell": "b4"}) == "applied"
    assert arena.do("ada", "claim", {"cell": "b4"}) == "yours already"
    assert arena.do("ada", "bell") == "only the clock rings the bell"
    chat = Table(load_app(f"{EXAMPLES / 'chat_room.py'}:app"))
    chat.join("ada")
    assert chat.do("ada", "say", " hello ") == "applied"
    assert chat.do("ada", "say", " ") == "say something"
    assert chat.state["lines"] == [["ada", "hello"]]


def test_every_example_fits_a_screen() -> None:
    for example in sorted(EXAMPLES.glob("*.py")):
        assert len(example.read_text().splitlines()) <= 70, example.name
