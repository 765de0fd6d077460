"""The pages tell the truth: their Python compiles, and what is marked as runnable prints what the page says.

`<!-- run -->` on the line before a Python block runs it as a program of its own, in an empty folder. `<!-- run against
APP -->` does so beside a chain that serves APP, whose url takes the place of ws://127.0.0.1:7080, and `<!-- run against
brokers -->` beside three brokers, whose addresses take the place of 127.0.0.1:9092. If a text block follows the Python
block at once, it is what the program prints.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.runtime.real_log import real_log
from tests.waiting import PATIENCE_S

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")), *sorted((ROOT / "benchmarks").glob("*.md"))]
URL = "ws://127.0.0.1:7080"
BROKERS, BOOTSTRAP = "brokers", "127.0.0.1:9092"

BLOCK = re.compile(
    r"(?:^<!-- run(?P<run>[^\n]*) -->\n)?^```python\n(?P<code>.*?)^```\n(?:^```text\n(?P<output>.*?)^```\n)?",
    re.MULTILINE | re.DOTALL,
)
LINK = re.compile(r"\]\((?P<target>[^)#:]+)(?:#[^)]*)?\)")


@dataclass(frozen=True, slots=True)
class Block:
    """One Python block of a page. `against` is the app that it wants to be served, or empty."""

    place: str
    code: str
    runs: bool
    against: str
    output: str | None


def blocks_of(text: str, name: str) -> Iterator[Block]:
    for found in BLOCK.finditer(text):
        line = text[: found.start("code")].count("\n")
        mark = found["run"]
        against = (mark or "").replace("against", "").strip()
        yield Block(f"{name}:{line}", found["code"], mark is not None, against, found["output"])


BLOCKS = [block for page in PAGES for block in blocks_of(page.read_text(), str(page.relative_to(ROOT)))]


def name_of(block: Block) -> str:
    return block.place


@pytest.mark.parametrize("block", BLOCKS, ids=name_of)
def test_python_on_a_page_compiles(block: Block) -> None:
    # A fragment may await without a function around it.
    compile("async def page():\n" + "".join(f"    {line}\n" for line in block.code.splitlines()), block.place, "exec")


@pytest.mark.parametrize("block", [block for block in BLOCKS if block.runs], ids=name_of)
def test_a_program_on_a_page_does_what_the_page_says(block: Block, tmp_path: Path) -> None:
    if block.against == BROKERS:
        with real_log(tmp_path, brokers=3) as log:
            said = run(block.code.replace(BOOTSTRAP, log.bootstrap), tmp_path)
    elif block.against:
        with served(block.against, tmp_path) as url:
            said = run(block.code.replace(URL, url), tmp_path)
    else:
        said = run(block.code, tmp_path)
    if block.output is not None:
        assert said == block.output


def run(code: str, folder: Path) -> str:
    program = folder / "page.py"
    program.write_text(code)
    done = subprocess.run(
        [sys.executable, str(program)], cwd=folder, capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@contextmanager
def served(app: str, folder: Path) -> Iterator[str]:
    """A chain of one for this app, on a free port."""
    command = [sys.executable, "-m", "octoloom", "up", app, "--ephemeral-ports", "--data", str(folder / "data")]
    up = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        assert up.stdout is not None
        found = re.search(r"ws://\S+", up.stdout.readline())
        assert found is not None
        yield found[0]
    finally:
        up.terminate()
        up.communicate(timeout=PATIENCE_S)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_between_pages_lead_somewhere(page: Path) -> None:
    targets = [found["target"] for found in LINK.finditer(page.read_text())]
    assert [target for target in targets if not (page.parent / target).exists()] == []


# The reader of pages, and that it bites.

PAGE = """
<!-- run -->
```python
print("a")
```
```text
a
```

<!-- run against examples/arena.py:app -->
```python
print("b")
```

```python
await nothing
```
"""


def test_blocks_are_found_with_their_marks() -> None:
    blocks = list(blocks_of(PAGE, "page"))
    assert [(block.runs, block.against, block.output) for block in blocks] == [
        (True, "", "a\n"),
        (True, "examples/arena.py:app", None),
        (False, "", None),
    ]
    assert [block.place for block in blocks] == ["page:3", "page:11", "page:15"]


def test_a_program_that_says_something_else_is_noticed(tmp_path: Path) -> None:
    wrong = Block("page:1", 'print("a")', runs=True, against="", output="b\n")
    with pytest.raises(AssertionError):
        test_a_program_on_a_page_does_what_the_page_says(wrong, tmp_path)
