"""`octoloom status`: every process, in which role."""

from __future__ import annotations

import asyncio
from pathlib import Path

import click
import msgspec

from octoloom.cli.options import data_option, json_option
from octoloom.cli.screen import chains_table, console, processes_table, topics_text
from octoloom.runtime import cluster_file, status


def look(data: Path, register: str | None) -> status.Status:
    """What runs in a data directory, or around a register."""
    if register:
        return asyncio.run(status.of_register(register))
    return asyncio.run(status.of_cluster(cluster_file.read(data)))


register_option = click.option(
    "--register", metavar="HOST:PORT", help="Ask this register, wherever it runs, instead of looking into --data."
)


@click.command(short_help="Show every process and its role.")
@json_option
@data_option
@register_option
def command(as_json: bool, data: Path, register: str | None) -> None:
    """Show every process: its role, address, view, epoch, spaces and connections; and how the topics are.

    Exits with 2 if nothing runs, and with 1 if a process is down or silent.

    \b
    Examples:
      octoloom status
      octoloom status --json --data /tmp/arena
      octoloom status --register 127.0.0.1:7070
    """
    found = look(data, register)
    if as_json:
        click.echo(msgspec.json.format(msgspec.json.encode(found), indent=2).decode())
    else:
        screen = console()
        screen.print(processes_table(found), soft_wrap=True)
        screen.print()
        screen.print(chains_table(found.chains), soft_wrap=True)
        if (topics := topics_text(found)) is not None:
            screen.print()
            screen.print(topics, soft_wrap=True)
        if found.update:
            screen.print(f"\nupdate: {found.update}")
    if any(process.state != "up" for process in found.processes):
        raise click.exceptions.Exit(1)
