"""`octoloom chain`: look at the chains of a cluster, end or stop one of its links, bring them up to date."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import click
import msgspec

from octoloom.cli.options import data_option, json_option
from octoloom.cli.screen import chains_table, console
from octoloom.cli.status import look, register_option
from octoloom.core.errors import UsageError
from octoloom.runtime import cluster_file
from octoloom.runtime.cluster_file import ProcessNote
from octoloom.runtime.processes import is_same
from octoloom.runtime.status import Chain, Status

ROLES = ("head", "middle", "tail")
UPDATE_S = 600.0


@click.group(short_help="Show, kill and update the links of a cluster.")
def command() -> None:
    """Look at the chains of a cluster, and try what they survive.

    \b
    Examples:
      octoloom chain show
      octoloom chain kill head
      octoloom chain update
    """


@command.command()
@json_option
@data_option
@register_option
def show(as_json: bool, data: Path, register: str | None) -> None:
    """Show the order of each chain, head first, as the register has decided it.

    \b
    Examples:
      octoloom chain show
      octoloom chain show --json --register 127.0.0.1:7070
    """
    chains = look(data, register).chains
    if not chains:
        raise click.ClickException("no link has come yet, or the register is down: see `octoloom status`")
    if as_json:
        click.echo(msgspec.json.format(msgspec.json.encode(chains), indent=2).decode())
    else:
        console().print(chains_table(chains), soft_wrap=True)


@command.command()
@click.argument("victim", metavar="head|middle|tail|NAME")
@data_option
@click.option("--chain", "chain_name", help="Which chain's head, middle or tail; the first if not named.")
@click.option(
    "--signal",
    "signal_name",
    type=click.Choice(["KILL", "STOP", "CONT", "TERM"], case_sensitive=False),
    default="KILL",
    show_default=True,
    help="What it gets: KILL ends it, STOP freezes it, CONT wakes it up, TERM asks it to leave.",
)
def kill(victim: str, data: Path, chain_name: str | None, signal_name: str) -> None:
    """Send a signal to one process of the cluster in DATA. It is started again, and rejoins.

    Only processes that this cluster started can be named: a link by its role or name, a broker by its name, or
    `register`.

    \b
    Examples:
      octoloom chain kill head
      octoloom chain kill link2 --signal STOP && sleep 5 && octoloom chain kill link2 --signal CONT
      octoloom chain kill broker1
      octoloom chain kill register
    """
    note = cluster_file.read(data)
    name = _name_of_role(victim, look(data, None), chain_name) if victim in ROLES else victim
    process = next((process for process in note.processes if process.name == name), None)
    if process is None:
        names = ", ".join(process.name for process in note.processes)
        raise UsageError(f"this cluster has no process {name!r}: name head, middle, tail or one of {names}")
    if process.pid == note.pid:
        text = f"{name} lives in the process of `octoloom up`: start it with --replicas 2 or more to kill links"
        raise UsageError(text)
    _send(process, signal.Signals[f"SIG{signal_name.upper()}"])
    role = f"the {victim}, " if victim in ROLES else ""
    click.echo(f"sent {signal_name.upper()} to {role}{name}, process {process.pid}")


def _name_of_role(role: str, found: Status, chain_name: str | None) -> str:
    if not found.chains:
        raise UsageError("the register does not answer, so nobody knows the roles: name a link instead")
    names = [chain.chain for chain in found.chains]
    if chain_name and chain_name not in names:
        raise UsageError(f"there is no chain {chain_name!r}: name one of {', '.join(names)}")
    chain = found.chains[names.index(chain_name) if chain_name else 0]
    return _link_at(role, chain).rpartition("#")[0]


def _link_at(role: str, chain: Chain) -> str:
    if role == "middle" and len(chain.links) < 3:
        raise UsageError(f"{chain.chain} has no middle right now, it is {len(chain.links)} long: wait, or name a link")
    return {"head": chain.links[0], "middle": chain.links[len(chain.links) // 2], "tail": chain.links[-1]}[role]


def _send(process: ProcessNote, number: signal.Signals) -> None:
    if not process.pid or not is_same(process.pid, process.created):
        raise UsageError(f"{process.name} is down, and about to be started again: try again in a second")
    os.kill(process.pid, number)


@command.command()
@data_option
def update(data: Path) -> None:
    """Put links with the app's newest code in the place of the old ones, one by one.

    No state is lost, and no device is cut off for longer than when a link dies. If the new code cannot be loaded, the
    old links stay.

    \b
    Examples:
      octoloom chain update
      octoloom chain update --data /tmp/arena
    """
    note = cluster_file.read(data)
    os.kill(note.pid, signal.SIGHUP)
    told = note.update
    deadline = time.monotonic() + UPDATE_S
    while time.monotonic() < deadline:
        now = cluster_file.read(data)
        if now.update != told or now.updates > note.updates:
            told = now.update
            click.echo(f"update: {told}")
        if now.updates > note.updates:
            if told != "done":
                raise click.ClickException("the update did not succeed, the old links stay: see above")
            return
        time.sleep(0.05)
    raise click.ClickException(f"the update is still under way after {UPDATE_S:.0f} s: see `octoloom status`")
