"""`octoloom console`, and the console's options of `octoloom up`, as a stranger meets them."""

from __future__ import annotations

import socket
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from octoloom.cli import octoloom


def run(*arguments: str) -> Result:
    return CliRunner().invoke(octoloom, list(arguments))


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["console", "--data", "nowhere"], "no cluster runs in nowhere: start one with `octoloom up --data nowhere`"),
        (["console", "--data", "x", "--register", "127.0.0.1:1"], "leave one of them out"),
        (["console", "--register", "nowhere"], "write host:port"),
        (["console", "--register", "127.0.0.1:1", "--pages", "nowhere"], "name the one with your pages with --pages"),
        (["console", "--port", "70000"], "'--port'"),
        (["up", "--pages", "nowhere"], "nowhere is no directory"),
        (["up", "--pages", ".", "--no-console"], "leave --no-console out"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_wrong_usage_is_one_clear_line(
    arguments: list[str], says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    result = run(*arguments)
    assert result.exit_code == 2, result.output
    assert says in result.output
    assert "Traceback" not in result.output


def test_a_port_that_is_taken_is_named_with_its_option(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        free = ["--port", "0", "--register-port", "0", "--broker-port", "0", "--data", str(tmp_path)]
        result = run("up", *free, "--console-port", port)
        assert result.exit_code == 2
        assert f"127.0.0.1:{port}" in result.output
        assert "name another port with --console-port, or use --ephemeral-ports" in result.output
        alone = run("console", "--register", "127.0.0.1:1", "--port", port)
        assert alone.exit_code == 2
        assert "name another port with --port" in alone.output


def test_other_commands_do_not_load_the_web_server() -> None:
    program = """
import sys
from click.testing import CliRunner
from octoloom.cli import octoloom
for name in ("up", "status", "link", "register", "broker", "console"):
    assert CliRunner().invoke(octoloom, [name, "--help"]).exit_code == 0
print([name for name in ("starlette", "uvicorn", "anyio", "h11") if name in sys.modules])
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
