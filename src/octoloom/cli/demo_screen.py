"""What the demo shows: a live picture in a terminal, the same story as plain lines in a pipe, tables at the end."""

from __future__ import annotations

import contextlib
import time
from dataclasses import dataclass
from statistics import median

from rich.console import Group, RenderableType
from rich.live import Live
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from octoloom.cli.screen import COLOURS, console
from octoloom.core.register_messages import View
from octoloom.runtime.proof import Evidence, Move, Verdict
from octoloom.runtime.stage import Stage


@dataclass(frozen=True, slots=True)
class Played:
    """An act that is over."""

    title: str
    begun_ms: float
    ended_ms: float
    outcome: str


class DemoScreen:
    def __init__(self, acts: int) -> None:
        self.console = console()
        self._acts = acts
        self._begun = time.monotonic()
        self._title = "setting the stage"
        self._stage: Stage | None = None

    def live(self, stage: Stage) -> contextlib.AbstractContextManager[object]:
        """While this is open, a terminal shows what goes on below the story."""
        self._stage = stage
        if not self.console.is_terminal:
            return contextlib.nullcontext()
        return Live(console=self.console, get_renderable=self._picture, refresh_per_second=8, transient=True)

    # The story.

    def begin(self, number: int, title: str, story: str) -> None:
        self._title = title
        heading = f"Act {number} of {self._acts}: {title}" if number else title[0].upper() + title[1:]
        self.console.print(f"\n[bold]{heading}[/]")
        self.console.print(f"         {story}", style="dim")

    def tell(self, text: str) -> None:
        self.console.print(f"{time.monotonic() - self._begun:6.1f} s {text}", markup=False)

    # The live picture.

    def _picture(self) -> RenderableType:
        stage = self._stage
        views = stage.cluster.views() if stage is not None else []
        rows: list[RenderableType] = [self._chain(views[0]) if views else Text("no chain yet", style="dim")]
        if stage is not None and (leaders := stage.journal_leaders()):
            rows.append(Text(f"journal: {leaders}"))
        if stage is not None and stage.progress:
            sent, settled = stage.total("sent"), stage.total("applied") + stage.total("rejected")
            lags = f"{median(stage.lags_ms):.0f} ms" if stage.lags_ms else "?"
            counts = f"{sent} events sent, {settled} settled, {sent - settled} on their way, lag {lags}"
            rows.append(Text(f"{counts}, {stage.total('connected')} connected"))
        return Panel(Group(*rows), title=self._title, width=min(self.console.width, 100))

    @staticmethod
    def _chain(view: View) -> Text:
        text = Text("players ⇄ ")
        last = len(view.links) - 1
        for at, link in enumerate(view.links):
            role = "head" if at == 0 else "tail" if at == last else "middle"
            name = link.rpartition("#")[0] + ("" if link in view.whole else " …")
            text += Text(f"[{role} {name}]", style=COLOURS[role]) + Text("" if at == last else " ⇄ ")
        return text + Text(f"   epoch {view.epoch}", style="dim")

    # The end.

    def conclude(self, played: list[Played], evidence: Evidence, verdicts: list[Verdict]) -> None:
        moves = [move for player in evidence.players for move in player.moves]
        self.console.print()
        self.console.print(acts_table(played, moves))
        self.console.print()
        self.console.print(_verdicts_table(verdicts))
        self.console.print()
        applied, rejected = (sum(move.status == status for move in moves) for status in ("applied", "rejected"))
        other = len(moves) - applied - rejected
        sums = f"{applied} applied, {rejected} rejected by the rules of the game, {other} with another end"
        self.console.print(f"{len(moves)} events sent: {sums}.")
        if all(verdict.held for verdict in verdicts):
            self.console.print("[bold green]Every promise held.[/]")
        else:
            self.console.print("[bold red]A promise was broken: this is a bug in Octoloom, please report it.[/]")


def acts_table(played: list[Played], moves: list[Move]) -> Table:
    """How each act felt: the time from a move to its outcome, for all that were sent or settled while it lasted."""
    table = Table(title="From a move to its outcome, as the players saw it", title_justify="left", title_style="bold")
    table.add_column("act")
    for heading in ("events", "median", "p99", "longest"):
        table.add_column(heading, justify="right")
    table.add_column("what followed")
    for act in played:
        lags = sorted(
            move.lag_ms
            for move in moves
            if move.status and move.settled_ms >= act.begun_ms and move.sent_ms < act.ended_ms
        )
        table.add_row(act.title, str(len(lags)), *_summary(lags), act.outcome)
    return table


def _summary(lags: list[float]) -> list[str]:
    if not lags:
        return ["-", "-", "-"]
    figures = (median(lags), lags[min(int(0.99 * len(lags)), len(lags) - 1)], lags[-1])
    return [f"{figure:.1f} ms" if figure < 10 else f"{figure:.0f} ms" for figure in figures]


def _verdicts_table(verdicts: list[Verdict]) -> Table:
    table = Table(title="The promises", title_justify="left", title_style="bold")
    for heading in ("promise", "held", "by"):
        table.add_column(heading)
    for verdict in verdicts:
        held = Text("yes", style="bold green") if verdict.held else Text("NO", style="bold red")
        table.add_row(verdict.promise, held, verdict.detail)
    return table
