"""Options that several commands share, and what stands behind them."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from octoloom.core.errors import UsageError

DATA = Path("octoloom-data")
APP = "octoloom.arena:app"

Command = TypeVar("Command", bound=Callable[..., Any])

PORT = click.IntRange(0, 65535)


def data_option(command: Command) -> Command:
    return click.option(
        "--data",
        type=click.Path(path_type=Path, file_okay=False),
        default=DATA,
        show_default=True,
        help="The directory of the cluster.",
    )(command)


def json_option(command: Command) -> Command:
    return click.option("--json", "as_json", is_flag=True, help="Print JSON, for programs.")(command)


def read_secret(path: Path) -> bytes:
    """The secret that device tokens are made with."""
    try:
        secret = path.read_bytes().strip()
    except OSError as error:
        raise UsageError(f"the secret file {path} cannot be read: {error.strerror}") from error
    if len(secret) < 16:
        text = f"the secret in {path} is shorter than 16 bytes: make one with `openssl rand -hex 32 > {path}`"
        raise UsageError(text)
    return secret


def log_to_stderr() -> None:
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)-7s %(message)s")
