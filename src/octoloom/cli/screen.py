"""What people see: one console, and the pictures that several commands draw."""

from __future__ import annotations

import sys

from rich.console import Console
from rich.table import Table
from rich.text import Text

from octoloom.runtime.status import Chain, Process, Status

WIDTH_PIPED = 100
COLOURS = {
    "register": "magenta",
    "broker": "bright_magenta",
    "head": "green",
    "middle": "cyan",
    "tail": "blue",
    "learner": "yellow",
}


def console() -> Console:
    """The terminal's own width and colours; plain text of 100 columns in a pipe."""
    if sys.stdout.isatty():
        return Console(highlight=False)
    return Console(highlight=False, width=WIDTH_PIPED, no_color=True, force_terminal=False)


def role_text(role: str) -> Text:
    return Text(role, style=COLOURS.get(role.split("+")[0], "red"))


def chain_text(chain: Chain) -> Text:
    """link1 → link2 → link3, in order; what is not whole yet is marked."""
    parts = [_link_text(link, "" if link in chain.whole else " (catching up)") for link in chain.links]
    text = Text(" → ").join(parts) if parts else Text("no links", style="red")
    if chain.learner:
        text += Text("  + ") + _link_text(chain.learner, " (learning)")
    return text


def _link_text(link: str, mark: str) -> Text:
    return Text(link.rpartition("#")[0]) + Text(mark, style="yellow")


def processes_table(status: Status) -> Table:
    narrow = console().width < WIDTH_PIPED
    table = Table(box=None, pad_edge=False, padding=(0, 1 if narrow else 2, 0, 0), header_style="bold")
    for heading in ("role", "name", "pid", "address", "chain", "epoch", "spaces", "clients", "changes"):
        left = heading in ("role", "name", "address", "chain")
        table.add_column(heading, justify="left" if left else "right", no_wrap=True)
    for process in status.processes:
        for row in _rows(process, process.address.removeprefix("ws://") if narrow else process.address):
            table.add_row(*row)
    return table


def _rows(process: Process, address: str) -> list[list[Text | str]]:
    """One row per chain that a link is in; one for everything else."""
    name, pid = process.name, str(process.pid or "?")
    if process.role == "register" or process.state != "up":
        role = process.role if process.state == "up" else process.state
        return [[role_text(role), name, pid, address, *[""] * 5]]
    if process.role == "broker":
        leads = f"leads {process.leaders} of {process.partitions}"
        return [[role_text("broker"), name, pid, address, leads, *[""] * 4]]
    rows: list[list[Text | str]] = []
    for place in process.places:
        if place.role != "outside" or len(process.places) == 1:
            counts = (place.epoch, place.spaces, process.connections, place.versions)
            rows.append([role_text(place.role), name, pid, address, place.chain, *(str(count) for count in counts)])
            name = pid = address = ""
    return rows or [[role_text("outside"), name, pid, address, *[""] * 5]]


def chains_table(chains: list[Chain]) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for heading in ("chain", "epoch", "generation", "links, head first", ""):
        table.add_column(heading)
    for chain in chains:
        missing = max(chain.replicas - len(chain.whole), 0)
        mark = Text("whole", style="green") if chain.is_whole else Text(f"{missing} to go", style="yellow")
        table.add_row(chain.chain, str(chain.epoch), str(chain.generation), chain_text(chain), mark)
    return table


def topics_text(status: Status) -> Text | None:
    """One line: how many topics there are, and what is not as it should be. None if there is nothing to tell."""
    topics, brokers = status.topics, [process for process in status.processes if process.role == "broker"]
    if topics is None or not (topics.topics or brokers):
        return None
    if not topics.topics:
        return Text("no topics")
    text = Text(f"{_count(topics.topics, 'topic')}, {_count(topics.partitions, 'partition')}: ")
    if not topics.leaderless and not topics.shrunk:
        return text + Text("all led, all replicas in sync", style="green")
    parts = []
    if topics.leaderless:
        parts.append(Text(f"{topics.leaderless} without a leader", style="red"))
    if topics.shrunk:
        parts.append(Text(f"{topics.shrunk} with a smaller in-sync set", style="yellow"))
    return text + Text(", ").join(parts)


def _count(number: int, word: str) -> str:
    return f"{number} {word}{'' if number == 1 else 's'}"
