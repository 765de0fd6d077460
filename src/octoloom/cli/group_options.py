"""Options that the commands for ordered groups share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

REGISTER = "127.0.0.1:7070"

Command = TypeVar("Command", bound=Callable[..., Any])


def register_option(command: Command) -> Command:
    return click.option(
        "--register",
        default=REGISTER,
        show_default=True,
        metavar="HOST:PORT",
        help="The register that the members find each other through; `octoloom up` runs one, too.",
    )(command)
