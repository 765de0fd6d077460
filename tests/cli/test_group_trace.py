"""`octoloom group trace` as people call it."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from octoloom.cli import COMMANDS, octoloom
from octoloom.core.steps import VIEW, Step
from octoloom.runtime.step_file import StepWriter
from tests.runtime.lunch import lunch


@pytest.fixture
def traces(tmp_path: Path) -> list[str]:
    """One file for each member."""
    steps = lunch("causal")
    for name in ("ada", "bob", "cathy"):
        with StepWriter(tmp_path / f"{name}.steps") as writer:
            writer.write([step for step in steps if step.member == f"{name}#1"])
    return [str(tmp_path / f"{name}.steps") for name in ("cathy", "ada", "bob")]


@pytest.fixture(autouse=True)
def _registered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(COMMANDS, "group", "group")


def run(*arguments: str, standard_input: str | bytes = "") -> Result:
    return CliRunner().invoke(octoloom, ["group", "trace", *arguments], input=standard_input)


def test_files_of_several_members_are_one_diagram(traces: list[str]) -> None:
    result = run(*traces)
    assert result.exit_code == 0
    lines = result.output.splitlines()
    assert lines[0].split() == ["s", "ada", "bob", "cathy"]
    assert "view 1, causal: ada, bob, cathy" in lines[1]
    assert "waits for ada:1" in result.output
    assert max(map(len, lines)) <= 100
    assert "\x1b" not in result.output


def test_standard_input_is_a_file_too(traces: list[str]) -> None:
    joined = b"".join(Path(path).read_bytes() for path in traces)
    assert run("-", standard_input=joined).output == run(*traces).output


def test_a_part_of_it(traces: list[str]) -> None:
    result = run(*traces, "--members", "cathy, bob", "--last", "3", "--width", "80")
    assert result.output.splitlines()[0] == " … 9 earlier marks are left out (--last shows more)"
    assert result.output.splitlines()[1].split() == ["s", "bob", "cathy"]


def test_every_step(traces: list[str]) -> None:
    assert "bob:1 leaves the buffer" in run(*traces, "--steps", "all").output
    assert "bob:1 leaves the buffer" not in run(*traces).output


def test_a_picture(traces: list[str], tmp_path: Path) -> None:
    picture = tmp_path / "lunch.svg"
    result = run(*traces, "--svg", str(picture), "--last", "10")
    assert result.exit_code == 0
    assert result.output == f"{picture}: 3 members, 10 marks, 7 earlier ones left out\n"
    assert picture.read_text(encoding="utf-8").startswith("<svg ")


def test_an_empty_trace_is_told_kindly(tmp_path: Path) -> None:
    empty, picture = tmp_path / "empty.steps", tmp_path / "x.svg"
    empty.touch()
    result = run(str(empty), "--svg", str(picture))
    assert result.exit_code == 1
    assert result.output == f"Error: there is nothing to draw: no member has written a step to {empty} yet\n"
    assert not picture.exists()


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ([], "Missing argument 'FILE...'"),
        (["{tmp}/nothing"], "cannot be read: No such file"),
        (["{tmp}"], "is a directory"),
        (["{tmp}/bad"], "bad, line 1: this is no step of a group"),
        (["{tmp}/good", "--members", "zoe"], "nobody in this trace is called 'zoe'"),
        (["{tmp}/good", "--steps", "some"], "'some'"),
        (["{tmp}/good", "--last", "0"], "'--last'"),
        (["{tmp}/good", "--svg", "{tmp}/nowhere/x.svg"], "x.svg cannot be written: No such file"),
        (["{tmp}/crowd", "--width", "60"], "do not fit into 60 columns: name some of them with --members"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_wrong_usage_is_one_clear_line(arguments: list[str], says: str, tmp_path: Path) -> None:
    (tmp_path / "bad").write_text("hello\n")
    for name, count in (("good", 2), ("crowd", 40)):
        with StepWriter(tmp_path / name) as writer:
            writer.write([Step(VIEW, "m0", members=[f"m{number}" for number in range(count)], epoch=1)])
    result = run(*(argument.format(tmp=tmp_path) for argument in arguments))
    assert result.exit_code == 2, result.output
    assert says in result.output
    assert "Traceback" not in result.output
    assert result.output.strip().splitlines()[-1].startswith("Error: ")


@pytest.mark.parametrize("command", [["group"], ["group", "trace"]])
def test_help_has_examples(command: list[str]) -> None:
    result = CliRunner().invoke(octoloom, [*command, "--help"])
    assert "Examples:" in result.output
    assert "octoloom group trace" in result.output
