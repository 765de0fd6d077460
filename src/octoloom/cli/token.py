"""`octoloom token`: the token that a device shows to a chain with a secret."""

from __future__ import annotations

from pathlib import Path

import click

from octoloom.cli.options import read_secret
from octoloom.core import tokens
from octoloom.runtime.follower import check_name


@click.command(short_help="Print the token of a device.")
@click.argument("device")
@click.option(
    "--secret-file",
    type=click.Path(path_type=Path, dir_okay=False),
    required=True,
    help="The file with the secret that the links were started with.",
)
def command(device: str, secret_file: Path) -> None:
    """Print the token for DEVICE: Device.connect(..., token=...) takes it.

    \b
    Examples:
      openssl rand -hex 32 > secret
      octoloom link --name one --register 127.0.0.1:7070 --secret-file secret
      octoloom token ada --secret-file secret
    """
    check_name("device", device)
    click.echo(tokens.sign(read_secret(secret_file), device))
