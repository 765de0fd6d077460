"""Our sources in one file: everything that an executor imports, and that it imports from there."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

from octoloom.spark import shipping


def test_the_zip_holds_all_modules_and_nothing_compiled() -> None:
    with zipfile.ZipFile(shipping.sources()) as archive:
        names = archive.namelist()
    assert set(names) >= {"octoloom/__init__.py", "octoloom/core/app.py", "octoloom/spark/log4j2.properties"}
    assert [name for name in names if name.endswith(".pyc") or "__pycache__" in name] == []
    root = shipping.root()
    assert sorted(name for name in names if name.endswith(".py")) == sorted(
        str(path.relative_to(root)) for package in shipping.PACKAGES for path in (root / package).rglob("*.py")
    )


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
