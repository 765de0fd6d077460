"""How a benchmark shows what it found: what it was made with, tables for a terminal or a page, and what failed."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from typing import Protocol

import click
from rich.console import Console
from rich.table import Table as RichTable


class Shown(Protocol):
    """A table, as `log_tables.Table` is one."""

    @property
    def rows(self) -> object: ...
    def rich(self) -> RichTable: ...
    def markdown(self) -> str: ...


def show(
    facts: Mapping[str, str], tables: Iterable[Shown], failures: Iterable[str], markdown: bool, note: str = ""
) -> None:
    console = Console(width=None if sys.stdout.isatty() else 160, highlight=False, markup=False)
    console.print(", ".join(f"{name} {value}" for name, value in facts.items()))
    for table in tables:
        if table.rows and markdown:
            click.echo(f"\n{table.markdown()}")
        elif table.rows:
            console.print(table.rich())
    if note:
        console.print(note)
    for failure in failures:
        console.print(f"Failed: {failure}", style="bold")
