"""`octoloom up`: everything on this machine."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
import socket
import time
from collections import deque
from pathlib import Path

import click
import uvloop
from rich.console import Group
from rich.live import Live
from rich.text import Text

from octoloom.cli.options import APP, PORT, data_option
from octoloom.cli.screen import chains_table, console, processes_table, topics_text
from octoloom.core.errors import UsageError
from octoloom.core.journal import Durability
from octoloom.runtime import cluster_file, status
from octoloom.runtime.app_files import AppFiles
from octoloom.runtime.broker_settings import SYNC_ALWAYS, SYNC_OS
from octoloom.runtime.hosting import first_of
from octoloom.runtime.plan import Plan
from octoloom.runtime.supervisor import Cluster
from octoloom.wire import journal

REFRESH_S = 1.0
WATCH_S = 0.5
NEWS_SHOWN = 8


@click.command(short_help="Run an app with all it needs on this machine.")
@click.argument("app", default=APP, required=False, metavar="[APP]")
@click.option("--replicas", type=click.IntRange(1, 100), default=1, show_default=True, help="Links per chain.")
@click.option("--chains", type=click.IntRange(1, 1000), default=1, show_default=True, help="How many chains.")
@click.option("--brokers", type=click.IntRange(0, 100), help="How many brokers.  [default: as many as replicas]")
@click.option(
    "--durability",
    type=click.Choice([each.value for each in Durability]),
    help="When a change counts: once all links have it (chain), or once it is in the journal, on disk (journal); "
    "none keeps no journal.  [default: chain, none without brokers]",
)
@click.option(
    "--sync",
    type=click.Choice([SYNC_ALWAYS, SYNC_OS]),
    default=SYNC_ALWAYS,
    show_default=True,
    help="Whether brokers sync to disk before every acknowledgement, or when the operating system likes.",
)
@data_option
@click.option("--host", default="127.0.0.1", show_default=True, help="The address to listen on.")
@click.option("--port", type=PORT, default=7080, show_default=True, help="The first port for devices.")
@click.option("--register-port", type=PORT, default=7070, show_default=True, help="The register's port.")
@click.option("--broker-port", type=PORT, default=9092, show_default=True, help="The first port for Kafka clients.")
@click.option("--ephemeral-ports", is_flag=True, help="Listen on any free ports: `octoloom status` tells which.")
@click.option("--reload", is_flag=True, help="Update the links whenever the app's files change.")
def command(
    app: str,
    replicas: int,
    chains: int,
    brokers: int | None,
    durability: str | None,
    sync: str,
    data: Path,
    host: str,
    port: int,
    register_port: int,
    broker_port: int,
    ephemeral_ports: bool,
    reload: bool,
) -> None:
    """Run APP (module:app or path/to/file.py:app) with all it needs on this machine, until Ctrl-C.

    One replica runs in one process. More run as processes of their own, which are started again when they die, and
    rejoin. Brokers keep topics for Kafka clients, and a journal of every change: a cluster that is started again on the
    same DATA goes on from there. Without APP it is a small game, octoloom.arena:app. Logs are in DATA/logs.

    \b
    Examples:
      octoloom up
      octoloom up game.py:app --reload
      octoloom up game.py:app --replicas 3 --data /tmp/arena
      octoloom up game.py:app --replicas 3 --durability journal
      octoloom up game.py:app --brokers 0 --ephemeral-ports
    """
    if ephemeral_ports:
        port = register_port = broker_port = 0
    kept = None if durability is None else Durability(durability)
    plan = Plan(data, app, replicas, chains, host, register_port, port, brokers, broker_port, kept, sync)
    AppFiles(app)
    check_ports(plan)
    uvloop.run(_Run(plan, reload).run())


def check_ports(plan: Plan) -> None:
    """Whether the ports are free, asked before anything is started: here is who can name the options."""
    ports = [(plan.register_port, "--register-port")]
    ports += [(port, "--port") for port in ports_from(plan.device_port, plan.replicas)]
    ports += [(port, "--broker-port") for port in ports_from(plan.broker_port, plan.broker_count)]
    for port, option in ports:
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((plan.host, port))
            except OSError as error:
                text = f"cannot listen on {plan.host}:{port} ({error.strerror})"
                raise UsageError(f"{text}: name another port with {option}, or use --ephemeral-ports") from error


def ports_from(first: int, count: int) -> list[int]:
    return list(range(first, first + count)) if first else []


class _Run:
    """One `octoloom up`, from its start to Ctrl-C."""

    def __init__(self, plan: Plan, reload: bool) -> None:
        self.plan = plan
        self.files = AppFiles(plan.app) if reload else None
        self.console = console()
        self.news: deque[str] = deque(maxlen=NEWS_SHOWN)
        self.live: Live | None = None
        self.ended = asyncio.Event()
        self.updates: set[asyncio.Task[bool]] = set()

    async def run(self) -> None:
        self._log_to_file()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self.ended.set)
        last_app = cluster_file.last_app(self.plan.data)
        cluster = Cluster(self.plan, self._tell, in_processes=self.plan.replicas > 1)
        try:
            await first_of(cluster.start(), self.ended.wait())
            if not self.ended.is_set():
                if self.plan.journal is not Durability.NONE and last_app not in ("", self.plan.app):
                    self._tell(f"{self.plan.data} has spaces of {last_app}; to begin without them name another --data")
                loop.add_signal_handler(signal.SIGHUP, self._update, cluster)
                await self._serve(cluster)
                self._tell("stopping all that was started here")
        finally:
            await cluster.stop()

    async def _serve(self, cluster: Cluster) -> None:
        urls = " ".join(link.address for link in cluster.links)
        self.console.print(f"[bold green]ready[/]  devices connect to {urls}", soft_wrap=True)
        self._introduce_brokers(cluster)
        replicas = f"{self.plan.replicas} replica{'s' if self.plan.replicas > 1 else ''}"
        where = f"{self.plan.app}, {replicas}, data in {self.plan.data}"
        self.console.print(f"       {where}; Ctrl-C stops everything", soft_wrap=True)
        waits = [self.ended.wait(), self._refresh(cluster)]
        if self.files is not None:
            waits.append(self._watch(cluster, self.files))
        with self._display():
            await first_of(asyncio.shield(cluster.broken), *waits)
        self.live = None

    def _introduce_brokers(self, cluster: Cluster) -> None:
        if not cluster.brokers or cluster.register is None:
            return
        addresses = ",".join(broker.address for broker in cluster.brokers)
        text = f"       Kafka clients connect to {addresses} or to the register at {cluster.register.address}"
        self.console.print(text, soft_wrap=True)
        if self.plan.journal is not Durability.NONE:
            line = f"octoloom topic consume {journal.TOPIC} -b {cluster.brokers[0].address} --from -10"
            self.console.print(f"       see the last changes in the journal: [bold]{line}[/]", soft_wrap=True)

    def _display(self) -> contextlib.AbstractContextManager[object]:
        if not self.console.is_terminal:
            return contextlib.nullcontext()
        self.live = Live(console=self.console, refresh_per_second=4, transient=True)
        return self.live

    async def _refresh(self, cluster: Cluster) -> None:
        while True:
            if self.live is not None:
                found = await status.of_cluster(cluster_file.read(self.plan.data))
                parts = [processes_table(found), chains_table(found.chains), topics_text(found)]
                news = Text("\n".join(self.news), style="dim")
                spaced = [each for part in (*parts, news) if part is not None for each in (Text(), part)]
                self.live.update(Group(*spaced))
            await asyncio.sleep(REFRESH_S)

    async def _watch(self, cluster: Cluster, files: AppFiles) -> None:
        while True:
            await asyncio.sleep(WATCH_S)
            if files.changed():
                self._tell("the app's files have changed")
                await cluster.update()

    def _update(self, cluster: Cluster) -> None:
        task = asyncio.get_running_loop().create_task(cluster.update())
        self.updates.add(task)
        task.add_done_callback(self.updates.discard)

    def _tell(self, text: str) -> None:
        line = f"{time.strftime('%H:%M:%S')}  {text}"
        self.news.append(line)
        if self.live is None:
            self.console.print(line, soft_wrap=True, markup=False)

    def _log_to_file(self) -> None:
        logs = self.plan.logs
        cluster_file.make_directory(logs)
        logging.basicConfig(
            level=logging.INFO, filename=logs / "up.log", format="%(asctime)s %(levelname)-7s %(message)s"
        )
