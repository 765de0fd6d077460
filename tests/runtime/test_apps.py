from __future__ import annotations

import sys
from pathlib import Path

import pytest

from octoloom.core.errors import UsageError
from octoloom.runtime.apps import load_app

GAME = """
from octoloom.core.app import App
from rules_of_{name} import LIMIT

app = App("{name}", state={{"limit": LIMIT}})
other = App("other")
number = 3
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def game(folder: Path, name: str) -> Path:
    (folder / f"rules_of_{name}.py").write_text("LIMIT = 7\n")
    path = folder / f"{name}.py"
    path.write_text(GAME.format(name=name))
    return path


def test_a_file_and_its_neighbours_are_found(folder: Path) -> None:
    app = load_app(f"{game(folder, 'arena_a')}:app")
    assert (app.name, app.initial) == ("arena_a", {"limit": 7})


def test_the_name_is_app_if_left_out(folder: Path) -> None:
    assert load_app(str(game(folder, "arena_b"))).name == "arena_b"


def test_a_module_in_the_current_folder_is_found(folder: Path) -> None:
    game(folder, "arena_c")
    assert load_app("arena_c:other").name == "other"


@pytest.mark.parametrize(
    ("target", "words"),
    [
        (":app", "module:app"),
        ("nowhere.py:app", "there is no file nowhere.py"),
        ("no_such_module_at_all:app", "there is no module"),
        ("arena_d.py:number", "is a int, not an octoloom App"),
        ("arena_d.py:nothing", "did you mean arena_d.py:app?"),
        ("empty_e.py", 'app = App("app")'),
        ("broken_f.py", "ZeroDivisionError"),
        ("broken_f", "ZeroDivisionError"),
        ("lacking_g", "ModuleNotFoundError"),
    ],
)
def test_what_is_wrong_is_said_with_the_next_step(folder: Path, target: str, words: str) -> None:
    game(folder, "arena_d")
    (folder / "empty_e.py").write_text("")
    (folder / "broken_f.py").write_text("1 / 0\n")
    (folder / "lacking_g.py").write_text("import no_such_module_at_all\n")
    with pytest.raises(UsageError) as caught:
        load_app(target)
    assert words in str(caught.value)


def test_a_file_does_not_take_the_place_of_another_module(folder: Path) -> None:
    (folder / "json.py").write_text('from octoloom.core.app import App\napp = App("mine")\n')
    before = sys.modules["json"]
    assert load_app("json.py").name == "mine"
    assert sys.modules["json"] is before
