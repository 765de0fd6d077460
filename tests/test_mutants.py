"""The catalogue of planted bugs follows the code, and `run` tells a bug that is noticed from one that is not."""

from __future__ import annotations

import ast
import shlex
from collections import Counter
from pathlib import Path

import pytest

from tests.mutants import run
from tests.mutants.catalogue import ROOMS
from tests.mutants.mutant import PROJECT, DoesNotApplyError, Mutant

MUTANTS = [mutant for mutants in ROOMS.values() for mutant in mutants]


def test_every_mutant_applies_to_the_code_as_it_is() -> None:
    faults = []
    for mutant in MUTANTS:
        try:
            text = mutant.planted(mutant.read())
            ast.parse(text)
        except (DoesNotApplyError, SyntaxError) as error:
            faults.append(f"{mutant.name}: {error}")
        if mutant.old == mutant.new or not mutant.promise:
            faults.append(f"{mutant.name}: changes nothing, or nobody knows what it breaks")
    assert faults == [], "change tests/mutants so that it follows the code"


def test_no_two_mutants_have_one_name() -> None:
    assert [name for name, count in Counter(mutant.name for mutant in MUTANTS).items() if count > 1] == []


def test_whoever_should_notice_is_there() -> None:
    for mutant in MUTANTS:
        words = shlex.split(mutant.notices)
        if words[0] == "simulate":
            assert len(words) == 3, mutant.name
        else:
            paths = [word for word in words if word.startswith("tests/")]
            assert paths, mutant.name
            assert [path for path in paths if not (PROJECT / path.partition("::")[0]).exists()] == [], mutant.name


TAGS = "core/tags.py"
BOUND = "ABOVE_MAX = 65_536"


def a_mutant(notices: str, new: str = "ABOVE_MAX = 7", old: str = BOUND) -> Mutant:
    return Mutant("example", "there is room", TAGS, old, new, notices)


def test_what_is_noticed_what_is_not_and_what_cannot_be_planted(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(
        "from octoloom.core import tags\n\n\ndef test_it():\n    assert tags.ABOVE_MAX > 10\n"
    )
    tree = run.Tree(tmp_path / "tree")
    tests = f"-c {PROJECT}/pyproject.toml {tmp_path}/test_it.py"
    found = run.try_out(a_mutant(tests), tree)
    assert found.verdict == run.FOUND, found.detail
    assert run.try_out(a_mutant(tests, new="ABOVE_MAX = 12"), tree).verdict == run.SURVIVED
    assert run.try_out(a_mutant(tests, old="no such text"), tree).verdict == run.FAULTY
    assert run.try_out(a_mutant(f"{tests} -k nothing_of_that_name"), tree).verdict == run.FAULTY
    assert BOUND in (PROJECT / "src" / "octoloom" / TAGS).read_text(), "the working tree is as it was"


def test_the_exit_code_says_whether_all_is_well(capsys: pytest.CaptureFixture[str]) -> None:
    real = a_mutant("tests/test_mutants.py")
    explained = Mutant("harmless", "nothing", TAGS, "a", "b", "tests/test_mutants.py", survives="it is only faster")
    found, survived = run.Result(real, run.FOUND, "", 1.0), run.Result(real, run.SURVIVED, "", 1.0)
    assert run.report([found, run.Result(explained, run.SURVIVED, "", 1.0)]) == 0
    assert run.report([found] * 99 + [survived]) == 1
    assert run.report([found, run.Result(real, run.FAULTY, "", 0.0)]) == 1
    assert "99 of 100 real bugs were found: 99.0%" in capsys.readouterr().out
