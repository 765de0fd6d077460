"""Our sources in one file: everything that an executor imports, and that it imports from there."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from octoloom.spark import shipping


def names_in(path: Path) -> list[str]:
    with zipfile.ZipFile(path) as archive:
        return archive.namelist()


def test_the_zip_holds_all_modules() -> None:
    names = names_in(shipping.sources())
    assert set(names) >= {"octoloom/__init__.py", "octoloom/core/app.py", "octoloom/spark/log4j2.properties"}
    root = shipping.root()
    assert sorted(name for name in names if name.endswith(".py")) == sorted(
        str(path.relative_to(root)) for package in shipping.PACKAGES for path in (root / package).rglob("*.py")
    )


def test_nothing_compiled_and_nothing_of_others_is_in_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("octoloom/a.py", "octoloom/__pycache__/a.pyc", "octoloom/b.so", "other/c.py", "d.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    monkeypatch.setattr(shipping, "root", lambda: tmp_path)
    assert names_in(shipping.sources.__wrapped__()) == ["octoloom/a.py"]


def test_equal_sources_make_an_equal_file_of_the_same_name(tmp_path: Path) -> None:
    first = shipping.sources()
    assert shipping.sources() == first, "it is made once"
    shipping.sources.cache_clear()
    second = shipping.sources()
    assert (second.name, second.read_bytes()) == (first.name, first.read_bytes())
    assert second != first


def test_it_stands_before_what_is_installed(tmp_path: Path) -> None:
    code = (
        f"import sys; sys.path.insert(0, {str(shipping.sources())!r}); import octoloom.core.app as m; print(m.__file__)"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=tmp_path).stdout
    assert said.startswith(str(shipping.sources()))
