"""`octoloom demo`: the story of a chain, a journal and groups that survive every crash, told with real processes.

The story is a list of acts. Each act has a title, does something to the cluster while the players play on, and is
remembered with its beginning and its end; the table at the end tells of each how it felt to the players.
"""

from __future__ import annotations

import asyncio
import signal
import tempfile
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

import click
import uvloop

from octoloom.cli.demo_examination import examined
from octoloom.cli.demo_screen import DemoScreen, Played
from octoloom.cli.options import APP
from octoloom.core.journal import Durability
from octoloom.runtime.hosting import first_of
from octoloom.runtime.plan import Plan
from octoloom.runtime.players import now_ms
from octoloom.runtime.proof import Evidence, Verdict, prove
from octoloom.runtime.stage import Stage

REPLICAS = 3
COUNTS = {
    Durability.CHAIN: "a move counts once all links have it; the brokers' journal follows a moment later",
    Durability.JOURNAL: "a move counts once it is in the journal, on the disks of the brokers",
}
PLAYER_PROCESSES = 2
SENDING_S = 1.5
"""So long a group sends before its coordinator is killed, and again after."""


@dataclass(frozen=True, slots=True)
class Act:
    title: str
    story: str
    perform: Callable[[Stage], Awaitable[str]]
    """Does it, and answers what happened, in a few words; empty if nothing did."""


async def play_in_peace(_stage: Stage) -> str:
    return ""


def kill(role: str) -> Callable[[Stage], Awaitable[str]]:
    async def perform(stage: Stage) -> str:
        killed_ms = await stage.kill(role)
        await stage.cluster.whole()
        return f"whole again after {(now_ms() - killed_ms) / 1000:.1f} s"

    return perform


async def kill_leader(stage: Stage) -> str:
    found = await stage.kill_leader()
    led_s = (found.led_ms - found.killed_ms) / 1000
    await stage.cluster.log_whole()
    whole_s = (now_ms() - found.killed_ms) / 1000
    return f"{found.leader} leads after {led_s:.1f} s, epoch {found.epoch}; whole again after {whole_s:.1f} s"


async def chat(stage: Stage) -> str:
    assert stage.groups is not None
    unordered, ordered = await stage.groups.chat("none"), await stage.groups.chat("causal")
    early, none = len(unordered.too_early), len(ordered.too_early)
    return f"{early} of {len(unordered.said)} words read before what they answer with none, {none} with causal"


async def kill_coordinator(stage: Stage) -> str:
    assert stage.groups is not None
    found = await stage.groups.kill_coordinator(SENDING_S)
    return f"{found.heir} orders on; the longest pause of the group was {found.pause_ms:.0f} ms"


ACTS = [
    Act(
        "in peace",
        "Players take cells from each other. Three links pass each move, three brokers keep it.",
        play_in_peace,
    ),
    Act(
        "a chat in causal order",
        "Cathy hears Ada late. Without an order she reads answers first, in causal order never.",
        chat,
    ),
    Act("head killed", "The head takes in every event. Its heir is promoted and the players call there.", kill("head")),
    Act("middle killed", "The middle's neighbours find each other and compare what they have.", kill("middle")),
    Act("tail killed", "The tail computes. Its heir computes on; what nobody saw is computed again.", kill("tail")),
    Act(
        "partition leader killed", "One broker leads this part of the journal. The register finds another.", kill_leader
    ),
    Act(
        "group coordinator killed",
        "Four members send through one. When it dies, the others agree on what it had ordered.",
        kill_coordinator,
    ),
]


@click.command(short_help="Kill links, a broker and a coordinator, and prove that nothing was lost.")
@click.option("--players", type=click.IntRange(1, 1000), default=30, show_default=True, help="How many play.")
@click.option("--seconds", type=click.FloatRange(1), default=52.0, show_default=True, help="How long they play.")
@click.option(
    "--durability",
    type=click.Choice([Durability.CHAIN.value, Durability.JOURNAL.value]),
    default=Durability.JOURNAL.value,
    show_default=True,
    help="When a move counts: once all links have it, or once it is on the brokers' disks.",
)
@click.option("--data", type=click.Path(path_type=Path, file_okay=False), help="Keep logs and records here.")
@click.option("--spark/--no-spark", default=True, help="Whether Spark examines it all in the end.  [default: it does]")
@click.option(
    "--report",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path("report"),
    show_default=True,
    help="Where Spark's tables and plots go.",
)
@click.option("--quick", is_flag=True, help="A short form: 8 players, 8 seconds.")
def command(
    players: int, seconds: float, durability: str, data: Path | None, spark: bool, report: Path, quick: bool
) -> None:
    """Play a game on a chain of three links, kill each of them and a broker, and prove that nothing was lost.

    Starts a register, three brokers, three links and the players as processes of their own, on free ports. The brokers
    keep a journal of every change. Beside the game a few chat in causal order with one who is slow, and the coordinator
    of a group in total order is killed. In the end the players' records, the replicas and the journal must tell the
    same, and so must the group's survivors. Then Spark computes the whole history again, audits journal, logs and
    traces, and draws what went on. Exits with 0 only if every promise held. Ctrl-C stops all that it started and
    nothing else.

    \b
    Examples:
      octoloom demo
      octoloom demo --quick --no-spark
      octoloom demo --players 100 --seconds 90 --data /tmp/demo
    """
    if quick:
        players, seconds = 8, 8.0
    with tempfile.TemporaryDirectory(prefix="octoloom-demo-") as temporary:
        story = Story(data or Path(temporary), players, seconds, Durability(durability), report if spark else None)
        exit_code = uvloop.run(story.run())
    raise click.exceptions.Exit(exit_code)


class Story:
    def __init__(
        self, data: Path, players: int, seconds: float, durability: Durability, report: Path | None = None
    ) -> None:
        self.players, self.seconds = players, seconds
        self.report = report
        """Where Spark puts what it finds; None if it is not asked."""
        self.plan = Plan(data, APP, REPLICAS, register_port=0, device_port=0, broker_port=0, durability=durability)
        self.screen = DemoScreen(len(ACTS))
        self.played: list[Played] = []

    async def run(self) -> int:
        interrupted = asyncio.Event()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, interrupted.set)
        # A move of each player about every tenth of a second, and fewer the more they are: it is a small machine.
        pause_ms = max(100.0, 4.0 * self.players)
        stage = Stage(self.plan, self.players, PLAYER_PROCESSES, pause_ms, self.screen.tell)
        telling = loop.create_task(self._tell(stage))
        try:
            await first_of(asyncio.shield(telling), interrupted.wait())
            if telling.done():
                return telling.result()
            self.screen.tell("interrupted: stopping all that was started here")
            return 130
        finally:
            telling.cancel()
            await asyncio.gather(telling, return_exceptions=True)
            await stage.stop()

    async def _tell(self, stage: Stage) -> int:
        with self.screen.live(stage):
            self.screen.tell(f"starting a register, {REPLICAS} brokers and {REPLICAS} links, each a process of its own")
            await stage.start_cluster()
            await stage.load_groups()
            self.screen.tell(COUNTS[self.plan.journal])
            self.screen.tell(f"{self.players} players join over WebSockets, and observers watch from every link")
            await stage.start_players()
            for number, act in enumerate(ACTS, start=1):
                await self._play(stage, number, act)
            self.screen.begin(0, "the proof", "Everybody comes to rest, and all are asked what they saw and hold.")
            evidence = await stage.evidence()
            verdicts = prove(evidence)
            if self.report is not None:
                self.screen.begin(0, "spark", "Whoever has nothing but the log and the traces must come to the same.")
                verdicts += await examined(stage, evidence, self.report, self.screen.tell)
        return self._conclude(evidence, verdicts)

    async def _play(self, stage: Stage, number: int, act: Act) -> None:
        self.screen.begin(number, act.title, act.story)
        begun_ms = now_ms()
        outcome = await act.perform(stage)
        if outcome:
            self.screen.tell(outcome)
        await asyncio.sleep(max(self.seconds / len(ACTS) - (now_ms() - begun_ms) / 1000, 0))
        self.played.append(Played(act.title, begun_ms, now_ms(), outcome))

    def _conclude(self, evidence: Evidence, verdicts: list[Verdict]) -> int:
        self.screen.conclude(self.played, evidence, verdicts)
        return 0 if all(verdict.held for verdict in verdicts) else 1
