"""Plants the bugs of the catalogue one at a time, each in a copy of the source tree, and asks the tests.

A bug is *found* if the tests that should notice it fail or hang, and *survives* if they pass. The working tree is never
touched: the copies come first on Python's path. Exits with 1 if a bug survives that is not explained in the catalogue,
if less than `SHARE_MIN` of the real ones were found, or if one could not be tried.
"""

from __future__ import annotations

import argparse
import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue

from tests.mutants.catalogue import ROOMS
from tests.mutants.mutant import PROJECT, DoesNotApplyError, Mutant

SHARE_MIN = 0.95
TIMEOUT_S = 400
TEST_TIMEOUT_S = 60
FOUND, SURVIVED, FAULTY = "found", "SURVIVED", "FAULTY"
TESTS_FAILED = 1
"""What pytest and a search exit with if they have found something. All else is a fault of the catalogue."""


@dataclass(frozen=True, slots=True)
class Result:
    mutant: Mutant
    verdict: str
    detail: str
    seconds: float


class Tree:
    """A copy of the source tree, for one bug at a time."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        shutil.copytree(PROJECT / "src", folder / "src")

    @contextmanager
    def planted(self, mutant: Mutant) -> Iterator[None]:
        original = PROJECT / "src" / "octoloom" / mutant.file
        copy = self._folder / "src" / "octoloom" / mutant.file
        text = mutant.planted(mutant.read())
        for compiled in (copy.parent / "__pycache__").glob(f"{copy.stem}.*.pyc"):
            compiled.unlink()
        copy.write_text(text)
        try:
            yield
        finally:
            shutil.copy2(original, copy)

    def ask(self, notices: str, timeout_s: float = TIMEOUT_S) -> tuple[int | None, str]:
        """The exit code of whoever should notice (None: they hang), and the end of what they said."""
        # What fails here must not be remembered as an example for the tests of the project.
        own = {"HYPOTHESIS_STORAGE_DIRECTORY": str(self._folder / "hypothesis"), "PYTHONDONTWRITEBYTECODE": "1"}
        environment = {**os.environ, **own, "PYTHONPATH": str(self._folder / "src")}
        process = subprocess.Popen(
            command_of(notices),
            cwd=PROJECT,
            env=environment,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            said, _ = process.communicate(timeout=timeout_s)
            return process.returncode, said[-4000:]
        except subprocess.TimeoutExpired:
            return None, f"no end after {timeout_s} s"
        finally:
            # Tests that were stopped in the middle leave processes behind.
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def command_of(notices: str) -> list[str]:
    words = shlex.split(notices)
    if words[0] == "simulate":
        _, kind, seeds = words
        return [sys.executable, "-m", "octoloom", "simulate", kind, "--seeds", seeds, "--jobs", "1"]
    options = [
        "-q",
        "-x",
        "-p",
        "no:cacheprovider",
        "--hypothesis-seed=0",
        f"--timeout={TEST_TIMEOUT_S}",
        "--timeout-method=thread",
    ]
    return [sys.executable, "-m", "pytest", *options, *words]


def try_out(mutant: Mutant, tree: Tree) -> Result:
    start = time.monotonic()
    try:
        with tree.planted(mutant):
            code, said = tree.ask(mutant.notices)
    except DoesNotApplyError as error:
        return Result(mutant, FAULTY, str(error), 0.0)
    seconds = time.monotonic() - start
    if code == 0:
        return Result(mutant, SURVIVED, mutant.notices, seconds)
    if code is None:
        return Result(mutant, FOUND, said, seconds)
    if code == TESTS_FAILED:
        failed = [line for line in said.splitlines() if line.startswith(("FAILED", "ERROR"))]
        return Result(mutant, FOUND, failed[-1] if failed else said.strip().splitlines()[-1], seconds)
    return Result(mutant, FAULTY, f"exit code {code}: {said}", seconds)


def chosen(rooms: Sequence[str], names: Sequence[str]) -> list[Mutant]:
    mutants = [mutant for room, all_of_it in ROOMS.items() if not rooms or room in rooms for mutant in all_of_it]
    return [mutant for mutant in mutants if not names or any(name in mutant.name for name in names)]


def run(mutants: Sequence[Mutant], jobs: int) -> list[Result]:
    results = []
    with tempfile.TemporaryDirectory(prefix="octoloom-mutants-") as folder:
        trees: SimpleQueue[Tree] = SimpleQueue()
        for number in range(jobs):
            trees.put(Tree(Path(folder) / str(number)))

        def try_in_some_tree(mutant: Mutant) -> Result:
            tree = trees.get()
            try:
                return try_out(mutant, tree)
            finally:
                trees.put(tree)

        with ThreadPoolExecutor(jobs) as pool:
            for done in as_completed([pool.submit(try_in_some_tree, mutant) for mutant in mutants]):
                result = done.result()
                results.append(result)
                place = f"[{len(results):3}/{len(mutants)}]"
                print(f"{place} {result.verdict:8} {result.seconds:6.1f} s  {result.mutant.name}", flush=True)
                if result.verdict != FOUND:
                    print(f"          {result.detail}", flush=True)
    return results


def check_tests(mutants: Sequence[Mutant], jobs: int) -> list[str]:
    """Who complains although no bug is planted."""
    with tempfile.TemporaryDirectory(prefix="octoloom-mutants-") as folder, ThreadPoolExecutor(jobs) as pool:
        tree = Tree(Path(folder))
        asked = list(dict.fromkeys(mutant.notices for mutant in mutants))
        answers = zip(asked, pool.map(tree.ask, asked), strict=True)
        return [f"{notices}\n{said}" for notices, (code, said) in answers if code != 0]


def report(results: Sequence[Result]) -> int:
    """Prints what became of all; the exit code."""
    print(f"\n{'room':10} {'bugs':>5} {'found':>6} {'explained':>10} {'survived':>9}")
    for room, mutants in ROOMS.items():
        mine = [result for result in results if result.mutant in mutants]
        found = sum(result.verdict == FOUND for result in mine)
        explained = sum(result.verdict == SURVIVED and bool(result.mutant.survives) for result in mine)
        if mine:
            survived = sum(result.verdict == SURVIVED for result in mine) - explained
            print(f"{room:10} {len(mine):5} {found:6} {explained:10} {survived:9}")
    real = [result for result in results if not result.mutant.survives]
    found = sum(result.verdict == FOUND for result in real)
    share = found / len(real) if real else 1.0
    print(f"{found} of {len(real)} real bugs were found: {share:.1%}")
    bad = [result for result in real if result.verdict == SURVIVED]
    bad += [result for result in results if result.verdict == FAULTY]
    for result in bad:
        print(f"{result.verdict}: {result.mutant.name}\n    promised: {result.mutant.promise}\n    {result.detail}")
    for result in results:
        if result.mutant.survives and result.verdict == FOUND:
            print(f"found, although it is said to be harmless: {result.mutant.name} ({result.detail})")
    return 1 if bad or share < SHARE_MIN else 0


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="make mutants", description=__doc__)
    parser.add_argument("--room", action="append", default=[], choices=list(ROOMS), help="only bugs of this room")
    parser.add_argument("--only", action="append", default=[], metavar="NAME", help="only bugs with this in their name")
    parser.add_argument("--jobs", type=int, default=2, help="so many at a time")
    parser.add_argument("--check", action="store_true", help="first see that the tests pass where no bug is planted")
    options = parser.parse_args(arguments)
    mutants = chosen(options.room, options.only)
    if options.check and (complaints := check_tests(mutants, options.jobs)):
        print("They fail without any bug:", *complaints, sep="\n")
        return 1
    return report(run(mutants, options.jobs))


if __name__ == "__main__":
    sys.exit(main())
