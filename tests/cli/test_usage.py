"""What a stranger meets first: help with examples, and errors that name the next step."""

from __future__ import annotations

import socket
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result

from octoloom.cli import COMMANDS, octoloom
from octoloom.core import tokens
from octoloom.runtime.status import Status

SUBCOMMANDS = [
    *(["chain", name] for name in ("show", "kill", "update")),
    *(["topic", name] for name in ("create", "list", "describe", "delete", "produce", "consume")),
    *(["group", name] for name in ("chat", "list", "trace")),
    ["spark", "run"],
    *(["simulate", name] for name in ("chain", "log", "consumers", "group")),
]


def run(*arguments: str) -> Result:
    return CliRunner().invoke(octoloom, list(arguments))


@pytest.mark.parametrize("command", [[], *([name] for name in COMMANDS), *SUBCOMMANDS], ids=" ".join)
def test_every_help_has_examples(command: list[str]) -> None:
    result = run(*command, "--help")
    assert result.exit_code == 0
    assert "Examples:" in result.output
    assert f"octoloom {' '.join(command)}".strip() in result.output


def test_every_command_of_the_table_is_there() -> None:
    with click.Context(octoloom) as context:
        assert all(octoloom.get_command(context, name) is not None for name in COMMANDS)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["dance"], "No such command 'dance'"),
        (["link", "--name", "x"], "Missing option '--register'"),
        (["link", "--name", "x", "--register", "nowhere"], "write host:port"),
        (["link", "--name", "x", "--register", "127.0.0.1:1", "--app", "no_such_module:app"], "no module"),
        (["up", "nothing.py:app"], "there is no file nothing.py"),
        (["up", "no_such_module:app"], "no module"),
        (["up", "--replicas", "0"], "'--replicas'"),
        (["up", "--brokers", "0", "--durability", "journal"], "start at least one with --brokers"),
        (["up", "--durability", "for ever"], "'for ever'"),
        (["status", "--register", "127.0.0.1:1"], "start one with `octoloom register`"),
        (["group", "chat", "lunch"], "Missing option '--as'"),
        (["group", "chat", "lunch", "--as", "ada", "--register", "127.0.0.1:1"], "start one with `octoloom register`"),
        (["group", "list", "--register", "127.0.0.1:1"], "start one with `octoloom register`"),
        (["simulate", "chain"], "either --seeds N"),
        (["chain", "kill", "head", "--signal", "SMILE"], "'SMILE'"),
        (["token", "ada", "--secret-file", "no-such-file"], "cannot be read"),
        (["token", "@timer", "--secret-file", "no-such-file"], "the chain's own"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_wrong_usage_is_one_clear_line_and_exit_code_2(
    arguments: list[str], says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    result = run(*arguments)
    assert result.exit_code == 2, result.output
    assert says in result.output
    assert "Traceback" not in result.output
    assert result.output.strip().splitlines()[-1].startswith("Error: ")


@pytest.mark.parametrize("command", [["status"], ["chain", "show"], ["chain", "kill", "head"], ["chain", "update"]])
def test_without_a_cluster_the_command_that_starts_one_is_named(command: list[str], tmp_path: Path) -> None:
    result = run(*command, "--data", str(tmp_path))
    assert result.exit_code == 2
    assert result.output == f"Error: no cluster runs in {tmp_path}: start one with `octoloom up --data {tmp_path}`\n"


def test_an_unknown_order_is_not_shown_as_an_empty_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("octoloom.cli.chain.look", lambda data, register: Status("127.0.0.1:1", [], []))
    result = run("chain", "show")
    assert result.exit_code == 1
    assert result.output == "Error: no link has come yet, or the register is down: see `octoloom status`\n"


def test_a_damaged_note_is_named(tmp_path: Path) -> None:
    (tmp_path / "cluster.json").write_text("{")
    result = run("status", "--data", str(tmp_path))
    assert result.exit_code == 2
    assert "cannot be read" in result.output


def test_a_token_is_the_one_that_links_accept(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("0123456789abcdef0123\n")
    result = run("token", "ada", "--secret-file", str(secret))
    assert result.exit_code == 0
    assert tokens.verify(b"0123456789abcdef0123", "ada", result.output.strip())
    secret.write_text("short")
    assert "openssl rand" in run("token", "ada", "--secret-file", str(secret)).output


def test_the_doctor_names_what_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("octoloom.cli.doctor.PACKAGES", ("click", "no-such-package"))
    result = run("doctor", "--data", str(tmp_path / "new"))
    assert result.exit_code == 1
    assert "ok       click" in result.output
    assert "missing  no-such-package" in result.output
    assert "pip install no-such-package" in result.output
    assert not (tmp_path / "new").exists()


def test_the_doctor_looks_at_the_brokers_ports_and_says_what_kcat_is_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
        monkeypatch.setattr("octoloom.cli.doctor.PORTS", {port: "Kafka clients"})
        monkeypatch.setattr("octoloom.cli.doctor.shutil.which", lambda *_, **__: None)
        result = run("doctor", "--data", str(tmp_path))
    assert result.exit_code == 0
    assert f"low      port {port}" in result.output
    assert "--broker-port" in result.output
    assert "not installed; optional: a Kafka client" in result.output


def test_a_port_that_is_taken_is_named_with_its_option(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
        free = ["--port", "0", "--register-port", "0"]
        result = run("up", *free, "--broker-port", str(port), "--data", str(tmp_path / "data"))
    assert result.exit_code == 2
    assert f"cannot listen on 127.0.0.1:{port}" in result.output
    assert "--broker-port" in result.output


def test_the_doctor_is_content_with_this_machine(tmp_path: Path) -> None:
    assert run("doctor", "--data", str(tmp_path)).exit_code == 0


def test_a_search_that_finds_nothing_is_content() -> None:
    result = run("simulate", "chain", "--seeds", "3", "--jobs", "1")
    assert result.exit_code == 0
    assert "3 seeds from 0 on" in result.output
    assert "every promise held" in result.output


def test_a_broken_promise_is_shown_with_the_command_that_replays_it(monkeypatch: pytest.MonkeyPatch) -> None:
    from octoloom.simulation.search import Found

    monkeypatch.setattr("octoloom.cli.simulate.search", lambda *_: Found(17, "order: d1 was swapped"))
    monkeypatch.setattr("octoloom.cli.simulate.transcript", lambda *_: ([f"line {n}" for n in range(100)], "order"))
    result = run("simulate", "chain", "--seeds", "3")
    assert result.exit_code == 1
    assert "seed 17 breaks a promise: order: d1 was swapped" in result.output
    assert "line 40\n" in result.output
    assert "line 39\n" not in result.output
    assert result.output.endswith("octoloom simulate chain --seed 17\n")


def test_a_replay_prints_the_transcript_and_the_verdict() -> None:
    result = run("simulate", "chain", "--seed", "3")
    assert result.exit_code == 0
    assert " ms  " in result.output
    assert result.output.endswith("seed 3: every promise held\n")
