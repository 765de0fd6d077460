"""`octoloom group trace`: a run of an ordered group as a space-time diagram, in the terminal or as a picture."""

from __future__ import annotations

from pathlib import Path

import click
from rich.text import Text

from octoloom.cli.screen import console
from octoloom.core.errors import UsageError
from octoloom.runtime.space_time import MARKS_MAX, SpaceTime, space_time
from octoloom.runtime.space_time_svg import svg
from octoloom.runtime.space_time_text import WIDTH_MIN, text_rows
from octoloom.runtime.step_file import read_steps

LAST = 500
WIDTH_MAX = 500
COLOURS = {
    "name": "bold",
    "time": "dim",
    "line": "dim",
    "flight": "dim",
    "note": "dim",
    "vector": "cyan",
    "view": "bold blue",
    "sent": "bold green",
    "delivered": "bold",
    "held": "yellow",
    "concurrent": "magenta",
    "early": "bold red",
    "ordered": "bold cyan",
}
"""Style of a part of the diagram → how the terminal shows it."""


@click.command(short_help="Draw a run as a space-time diagram.")
@click.argument(
    "files",
    nargs=-1,
    required=True,
    metavar="FILE...",
    type=click.Path(path_type=Path, dir_okay=False, allow_dash=True),
)
@click.option(
    "--svg", "picture", type=click.Path(path_type=Path, dir_okay=False), help="Draw a picture into this file instead."
)
@click.option("--members", default="", metavar="NAME,...", help="The lifelines to draw; all if not named.")
@click.option(
    "--steps",
    type=click.Choice(["messages", "all"]),
    default="messages",
    show_default=True,
    help="What to draw: what became of the messages, or every step of the algorithm.",
)
@click.option(
    "--last", type=click.IntRange(1, MARKS_MAX), default=LAST, show_default=True, help="How many marks, from the end."
)
@click.option("--width", type=click.IntRange(WIDTH_MIN, WIDTH_MAX), help="Columns of text; as wide as the terminal.")
def trace(
    files: tuple[Path, ...], picture: Path | None, members: str, steps: str, last: int, width: int | None
) -> None:
    """Draw what the members of a group did as a space-time diagram: a lifeline for each, time downward.

    FILE holds steps, one JSON object on each line, of one member or of several; - is the standard input. The order of
    the lines does not matter, and clocks may differ: a delivery never stands before its send.

    \b
    Examples:
      octoloom group trace room.steps
      octoloom group trace ada.steps bob.steps cathy.steps --svg lunch.svg
      octoloom group trace *.steps --members ada,bob --last 40
      octoloom group trace room.steps --steps all | less
      octoloom topic consume room-steps -e | octoloom group trace -
    """
    found = read_steps(files)
    if not found:
        names = ", ".join(map(str, files))
        raise click.ClickException(f"there is nothing to draw: no member has written a step to {names} yet")
    wanted = [name.strip() for name in members.split(",") if name.strip()]
    diagram = space_time(found, wanted, every_step=steps == "all", last=last)
    if picture is not None:
        _write(picture, svg(diagram))
        click.echo(f"{picture}: {_told(diagram)}")
    else:
        _show(diagram, width)


def _show(diagram: SpaceTime, width: int | None) -> None:
    screen = console()
    for row in text_rows(diagram, width or min(screen.width, WIDTH_MAX)):
        line = Text(end="\n")
        for text, style in row.spans():
            line.append(text, style=COLOURS.get(style, ""))
        screen.print(line, soft_wrap=True)


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise UsageError(f"the picture {path} cannot be written: {error.strerror}") from error


def _told(diagram: SpaceTime) -> str:
    left_out = f", {diagram.left_out:,} earlier ones left out" if diagram.left_out else ""
    return f"{len(diagram.members)} members, {len(diagram.marks):,} marks{left_out}"
