"""The files that the console serves are there: in a checkout, and in a wheel."""

from __future__ import annotations

import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from octoloom.console.files import STATIC, client_folder, pages_folder
from octoloom.core.errors import UsageError

ROOT = Path(__file__).parent.parent.parent
MODULES = sorted(STATIC.glob("*.js"))
LINES_MAX = 250
MARKUP = re.compile(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|DOMParser|\beval\(|new Function")


def test_the_client_is_found_in_a_checkout_and_in_a_wheel(tmp_path: Path) -> None:
    assert (client_folder() / "octoloom.js").is_file()
    static = tmp_path / "octoloom" / "console" / "static"
    (static / "client").mkdir(parents=True)
    assert client_folder(static) == static / "client"


def test_a_wheel_brings_the_page_and_the_client(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    [wheel] = tmp_path.glob("*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    assert len(names) == len(set(names))
    inside = "octoloom/console/static"
    wanted = [f"{inside}/{path.name}" for path in STATIC.iterdir() if path.is_file()]
    wanted += [f"{inside}/client/{path.name}" for path in client_folder().iterdir() if path.is_file()]
    assert [name for name in wanted if name not in names] == []


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.name)
def test_a_module_is_small_and_takes_no_markup(path: Path) -> None:
    text = path.read_text()
    assert len(text.splitlines()) < LINES_MAX
    assert text.startswith("// ")
    assert MARKUP.findall(text) == []
    assert re.findall(r"https?://(?!www\.w3\.org)", text) == []
    assert max(map(len, text.splitlines())) <= 120


def test_the_page_loads_nothing_from_elsewhere() -> None:
    for path in (STATIC / "index.html", *STATIC.glob("*.css")):
        assert re.findall(r"https?://|//fonts|@import|url\(", path.read_text()) == []


def test_pages_have_to_be_a_directory(tmp_path: Path) -> None:
    assert pages_folder(tmp_path) == tmp_path
    with pytest.raises(UsageError, match="is no directory: name the one with your pages with --pages"):
        pages_folder(tmp_path / "nothing")
