"""The code keeps its own rules. Each rule is a function from a source's text to complaints, and is shown to bite."""

from __future__ import annotations

import ast
import re
import subprocess
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SOURCES = sorted((ROOT / "src" / "octoloom").rglob("*.py"))
CORE = sorted((ROOT / "src" / "octoloom" / "core").rglob("*.py"))

MODULE_LINES_MAX = 400
FUNCTION_LINES_MAX = 70


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


def complaints_of(paths: list[Path], rule: Callable[[str, Path], list[str]]) -> dict[str, list[str]]:
    """What a rule says of these files, by file. Those that it says nothing of are not named."""
    said = {name_of(path): rule(path.read_text(), path) for path in paths}
    return {name: complaints for name, complaints in said.items() if complaints}


def test_a_file_that_breaks_a_rule_is_named() -> None:
    assert len(SOURCES) > len(CORE) > 50
    assert complaints_of(CORE[:2], lambda text, path: []) == {}
    assert complaints_of(CORE[:2], lambda text, path: [path.stem]) == {name_of(path): [path.stem] for path in CORE[:2]}


# The core has no IO, no clock, no randomness, no async, no logging, and never iterates a set.

PURE_MODULES = """
    __future__ abc bisect collections contextlib copy dataclasses enum functools hashlib heapq hmac itertools math
    msgspec octoloom operator re string struct traceback types typing zlib
"""
IMPURE_CALLS = "breakpoint eval exec globals hash input open print"
DICE_MODULE = "app.py"
"""The one core module that makes dice, from a seed that comes with the event."""


def impurities(text: str, module: str = "some.py") -> list[str]:
    complaints = []
    for node in nodes_of(text):
        for name in imported(node):
            top = name.split(".")[0]
            if top not in PURE_MODULES.split() and (name, module) != ("random", DICE_MODULE):
                complaints.append(f"line {line_of(node)}: imports {name}")
        if isinstance(node, ast.AsyncFunctionDef | ast.AsyncFor | ast.AsyncWith | ast.Await):
            complaints.append(f"line {node.lineno}: is asynchronous")
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in IMPURE_CALLS.split():
            complaints.append(f"line {node.lineno}: calls {node.func.id}()")
        if isinstance(node, ast.For | ast.comprehension) and is_set(node.iter):
            complaints.append(f"line {node.iter.lineno}: iterates a set")
        if is_unseeded_dice(node):
            complaints.append(f"line {line_of(node)}: uses random other than as random.Random(seed)")
    return complaints


def is_set(node: ast.expr) -> bool:
    if isinstance(node, ast.Call):
        return isinstance(node.func, ast.Name) and node.func.id in ("set", "frozenset")
    if isinstance(node, ast.BinOp):
        return is_set(node.left) or is_set(node.right)
    return isinstance(node, ast.Set | ast.SetComp)


def is_unseeded_dice(node: ast.AST) -> bool:
    """`random.Random` as a type is fine, `random.random()` and `random.Random()` are not."""
    if isinstance(node, ast.ImportFrom) and node.module == "random":
        return True
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "random":
        return node.attr != "Random"
    is_call = isinstance(node, ast.Call) and ast.unparse(node.func) == "random.Random"
    return is_call and isinstance(node, ast.Call) and not node.args


def test_the_core_is_pure() -> None:
    assert complaints_of(CORE, lambda text, path: impurities(text, path.name)) == {}


@pytest.mark.parametrize(
    "text",
    [
        "import os",
        "import time as clock",
        "import os.path",
        "from datetime import datetime",
        "if TYPE_CHECKING:\n    import asyncio",
        "def f():\n    from pathlib import Path",
        "from random import random",
        "import random",
        "import sys",
        "import a_new_dependency",
        "import logging",
        "async def f(): ...",
        "open('x')",
        "print('x')",
        "for x in {1, 2}: ...",
        "for x in set(y): ...",
        "for x in set(y) | z: ...",
        "[x for x in frozenset(y)]",
        "{x: 1 for x in {y for y in z}}",
        "hash('x')",
    ],
)
def test_an_impure_core_is_noticed(text: str) -> None:
    assert impurities(text) != []


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("import random\nrandom.Random(seed)", 0),
        ("import random\ndef f() -> random.Random: ...", 0),
        ("import random\nrandom.Random()", 1),
        ("import random\nrandom.shuffle(x)", 1),
        ("from random import random", 1),
        ("x = {1, 2}\nfor y in sorted({1, 2}): ...", 0),
        ("self.random.randrange(5)", 0),
    ],
)
def test_dice_come_from_a_seed_and_sets_are_sorted(text: str, count: int) -> None:
    assert len(impurities(text, DICE_MODULE)) == count


# Imports point downward: cli → console | spark → runtime | simulation → storage → wire → core.

LAYERS = {
    "core": 0,
    "arena": 1,
    "storage": 1,
    "wire": 1,
    "runtime": 2,
    "simulation": 2,
    "console": 3,
    "spark": 3,
    "cli": 4,
}
BESIDE = [("storage", "wire")]
"""The record batch is the log's format on the wire and on disk."""
ON_TOP = ("__init__", "__main__")


def upward_imports(text: str, place: str) -> list[str]:
    """Complaints about a module at `place`, such as `octoloom.core.chain`."""
    mine = layer_of(place)
    if mine not in LAYERS and mine not in ON_TOP:
        return [f"{place} has no layer"]
    complaints = []
    for node in nodes_of(text):
        for name in imported(node, place):
            theirs = layer_of(name)
            if name.split(".")[0] != "octoloom" or theirs == mine or mine in ON_TOP or (mine, theirs) in BESIDE:
                continue
            if theirs not in LAYERS or LAYERS[theirs] >= LAYERS[mine]:
                complaints.append(f"line {line_of(node)}: {place} imports {name}")
    return complaints


def layer_of(name: str) -> str:
    parts = name.split(".")
    return parts[1] if len(parts) > 1 else "__init__"


def place_of(path: Path) -> str:
    parts = path.relative_to(ROOT / "src").with_suffix("").parts
    return ".".join(parts)


def test_imports_point_downward() -> None:
    assert complaints_of(SOURCES, lambda text, path: upward_imports(text, place_of(path))) == {}


@pytest.mark.parametrize(
    ("place", "text"),
    [
        ("octoloom.core.chain", "from octoloom.wire import link"),
        ("octoloom.core.chain", "import octoloom.runtime.link"),
        ("octoloom.core.chain", "if TYPE_CHECKING:\n    from octoloom.storage.device_store import DeviceStore"),
        ("octoloom.core.chain", "from ..wire import link"),
        ("octoloom.core.chain", "from octoloom import App"),
        ("octoloom.wire.link", "from octoloom.storage import device_store"),
        ("octoloom.runtime.link", "def f():\n    from octoloom.simulation.world import World"),
        ("octoloom.runtime.link", "from octoloom import cli"),
        ("octoloom.spark.source", "import octoloom.console.app"),
        ("octoloom.somewhere.new", "from octoloom.cli import main"),
    ],
)
def test_an_upward_import_is_noticed(place: str, text: str) -> None:
    assert upward_imports(text, place) != []


@pytest.mark.parametrize(
    ("place", "text"),
    [
        ("octoloom.core.chain", "from octoloom.core.space import Space\nfrom . import ring\nimport msgspec"),
        ("octoloom.storage.log", "from octoloom.wire.kafka.batches import BatchHeader"),
        ("octoloom.cli.demo", "from octoloom.runtime import link\nfrom octoloom.core.app import App"),
        ("octoloom.__main__", "from octoloom.cli import main"),
    ],
)
def test_a_downward_import_is_fine(place: str, text: str) -> None:
    assert upward_imports(text, place) == []


def test_every_package_has_a_layer() -> None:
    packages = [path.name for path in (ROOT / "src" / "octoloom").iterdir() if (path / "__init__.py").exists()]
    assert [package for package in packages if package not in LAYERS] == []


# Files and functions stay small, and every module says what it is for.


def oversizes(text: str) -> list[str]:
    lines = len(text.splitlines())
    complaints = [f"has {lines} lines, {MODULE_LINES_MAX} are allowed"] if lines > MODULE_LINES_MAX else []
    for node in nodes_of(text):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            length = (node.end_lineno or node.lineno) - node.lineno + 1
            if length > FUNCTION_LINES_MAX:
                complaints.append(f"line {node.lineno}: {node.name} has {length} lines")
    return complaints


def missing_docstring(text: str) -> list[str]:
    tree = nodes_of(text)[0]
    assert isinstance(tree, ast.Module)
    return ["has no docstring"] if tree.body and ast.get_docstring(tree) is None else []


def test_modules_and_functions_are_small() -> None:
    assert complaints_of(SOURCES, lambda text, path: oversizes(text)) == {}


def test_every_module_says_what_it_is_for() -> None:
    assert complaints_of(SOURCES, lambda text, path: missing_docstring(text)) == {}


def test_an_oversize_is_noticed() -> None:
    body = "    x = 1\n"
    assert oversizes("x = 1\n" * 400) == []
    assert len(oversizes("x = 1\n" * 401)) == 1
    assert oversizes("def f():\n" + body * 69) == []
    assert len(oversizes("def f():\n" + body * 70)) == 1
    assert len(oversizes("class A:\n    async def f():\n" + "    " * 2 + "y = 1\n" + ("    " + body) * 70)) == 1


def test_a_missing_docstring_is_noticed() -> None:
    assert missing_docstring("") == []
    assert missing_docstring('"""Theory."""\nx = 1') == []
    assert missing_docstring("x = 1") != []


# Nothing in the repository points at the machine or the registry that it was made on.

# A registry's host may be called anything, but what it serves looks the same everywhere.
REGISTRY = re.compile(r"https?://[^\s\"'/]+/(?:\S*/)?(?:simple/|packages/|-/|\S+\.(?:whl|tgz|tar\.gz)\b)\S*", re.I)
MACHINE_PATH = re.compile(r"(?<![\w.:/~-])/(?:home|Users|root|workspace|workspaces|mnt|private|builds)/[\w.-]+")
URL = re.compile(r"\b[a-z][a-z0-9+.-]*://\S+|--(?:extra-)?index-url|--find-links", re.I)


def traces(text: str) -> list[str]:
    return [match.group() for pattern in (REGISTRY, MACHINE_PATH) for match in pattern.finditer(text)]


def tracked_texts() -> Iterator[tuple[str, str]]:
    names = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=False).stdout.decode()
    for name in filter(None, names.split("\0")):
        path = ROOT / name
        if path.is_file():
            yield name, path.read_text(errors="ignore")


def test_no_tracked_file_names_a_machine_or_a_registry() -> None:
    texts = dict(tracked_texts())
    if not texts:
        pytest.skip("this is no git repository")
    texts.pop("tests/test_tidy.py", None)  # its own examples of what is not allowed
    found = {name: traces(text) for name, text in texts.items()}
    assert {name: complaints for name, complaints in found.items() if complaints} == {}


@pytest.mark.parametrize(
    "text",
    [
        "see /home/ada/octoloom",
        'path = "/Users/ada/x"',
        "(/mnt/disk)",
        "https://files.example.org/packages/x",
        '"resolved": "https://registry.example.org/ws/-/ws-8.tgz"',
        "https://mirror.example.com/index/simple/",
    ],
)
def test_a_trace_of_a_machine_is_noticed(text: str) -> None:
    assert traces(text) != []


@pytest.mark.parametrize(
    "text", ["ws://127.0.0.1:7080", "docs/home/page", "/tmp/arena", "a/mnt/b", "~/mnt/x", "https://example.org/docs"]
)
def test_what_is_no_trace_is_left_alone(text: str) -> None:
    assert traces(text) == []


def test_the_lock_file_holds_hashes_and_no_addresses() -> None:
    text = (ROOT / "requirements.lock").read_text()
    assert URL.findall(text) == []
    pins = re.findall(r"^([\w.-]+)==", text, re.M)
    assert len(pins) > 10
    assert text.count("--hash=sha256:") >= len(pins)
    assert URL.findall("x @ https://example.com/x.whl") != []
    assert URL.findall("--index-url https://example.com") != []


# Each core module has a test of its own name.

WORDS_ONLY = (
    "__init__",
    "consumer_member_messages",
    "device_effects",
    "device_messages",
    "effects",
    "errors",
    "link_messages",
    "register_messages",
)
"""Modules that hold messages and values, and nothing that could be wrong by itself."""
TESTED_THROUGH = {
    "chain_order": "test_register",
    "neighbours": "test_chain",
    "place": "test_chain",
    "reports": "test_chain",
}
"""Parts of a larger core, told as that core's scenarios."""


def untested(modules: list[str], tests: list[str]) -> list[str]:
    return [
        module
        for module in modules
        if module not in WORDS_ONLY and f"test_{module}" not in tests and TESTED_THROUGH.get(module) not in tests
    ]


def test_each_core_module_has_a_test_of_its_name() -> None:
    tests = [path.stem for path in (ROOT / "tests" / "core").glob("test_*.py")]
    assert untested([path.stem for path in CORE], tests) == []


def test_an_untested_module_is_noticed() -> None:
    assert untested(["chain", "ring", "errors", "place"], ["test_chain"]) == ["ring"]
    assert untested(["place"], []) == ["place"]


# Reading sources.


@cache
def nodes_of(text: str) -> list[ast.AST]:
    """All nodes of a source. Several rules look at the same files."""
    return list(ast.walk(ast.parse(text)))


def imported(node: ast.AST, place: str = "") -> list[str]:
    """The modules that a statement imports, relative ones resolved; `from a import b` may mean the module a.b."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if not isinstance(node, ast.ImportFrom):
        return []
    base = ".".join(place.split(".")[: -node.level]) if node.level else ""
    module = ".".join(part for part in (base, node.module) if part)
    if module == "octoloom":
        return [f"{module}.{alias.name}" for alias in node.names]
    return [module]


def line_of(node: ast.AST) -> int:
    return getattr(node, "lineno", 0)
