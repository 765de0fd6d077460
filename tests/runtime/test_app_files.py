"""Whether an app's code has changed."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from octoloom.core.errors import UsageError
from octoloom.runtime.app_files import AppFiles


def test_a_written_a_new_and_a_removed_file_are_each_one_change(tmp_path: Path) -> None:
    game, rules = tmp_path / "game.py", tmp_path / "rules.py"
    game.write_text("a = 1")
    files = AppFiles(f"{game}:app")
    assert not files.changed()
    rules.write_text("b = 1")
    assert files.changed()
    os.utime(game, ns=(1, 1))
    assert files.changed()
    rules.unlink()
    assert files.changed()
    assert not files.changed()


def test_modules_are_found_without_being_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "loud.py").write_text("raise SystemExit('I was run')")
    assert not AppFiles("loud:app").changed()
    assert not AppFiles("octoloom.arena:app").changed()
    with pytest.raises(UsageError, match="there is no module 'quiet'"):
        AppFiles("quiet:app")
    with pytest.raises(UsageError, match=r"there is no file quiet\.py"):
        AppFiles("quiet.py:app")
