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
from octoloom.cli.screen import chains_table, console, processes_table
from octoloom.core.errors import UsageError
from octoloom.runtime import cluster_file, status
from octoloom.runtime.app_files import AppFiles
from octoloom.runtime.hosting import first_of
from octoloom.runtime.supervisor import Cluster, Plan

REFRESH_S = 1.0
WATCH_S = 0.5
NEWS_SHOWN = 8


@click.command(short_help="Run an app with all it needs on this machine.")
@click.argument("app", default=APP, required=False, metavar="[APP]")
@click.option("--replicas", type=click.IntRange(1, 100), default=1, show_default=True, help="Links per chain.")
@click.option("--chains", type=click.IntRange(1, 1000), default=1, show_default=True, help="How many chains.")
@data_option
@click.option("--host", default="127.0.0.1", show_default=True, help="The address to listen on.")
@click.option("--port", type=PORT, default=7080, show_default=True, help="The first port for devices.")
@click.option("--register-port", type=PORT, default=7070, show_default=True, help="The register's port.")
@click.option("--ephemeral-ports", is_flag=True, help="Listen on any free ports: `octoloom status` tells which.")
@click.option("--reload", is_flag=True, help="Update the links whenever the app's files change.")
def command(
    app: str,
    replicas: int,
    chains: int,
    data: Path,
    host: str,
    port: int,
    register_port: int,
    ephemeral_ports: bool,
    reload: bool,
) -> None:
    """Run APP (module:app or path/to/file.py:app) with all it needs on this machine, until Ctrl-C.

    One replica runs in one process. More run as processes of their own, which are started again when they die, and
    rejoin. Without APP it is a small game, octoloom.arena:app. Logs are in DATA/logs.

    \b
    Examples:
      octoloom up
      octoloom up game.py:app --reload
      octoloom up game.py:app --replicas 3 --data /tmp/arena
    """
    if ephemeral_ports:
        port = register_port = 0
    plan = Plan(data, app, replicas, chains, host, register_port, port)
    AppFiles(app)
    check_ports(plan)
    uvloop.run(_Run(plan, reload).run())


def check_ports(plan: Plan) -> None:
    """Whether the ports are free, asked before anything is started: here is who can name the options."""
    devices = range(plan.device_port, plan.device_port + plan.replicas) if plan.device_port else ()
    for port, option in [(plan.register_port, "--register-port"), *((port, "--port") for port in devices)]:
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((plan.host, port))
            except OSError as error:
                text = f"cannot listen on {plan.host}:{port} ({error.strerror})"
                raise UsageError(f"{text}: name another port with {option}, or use --ephemeral-ports") from error


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
        cluster = Cluster(self.plan, self._tell, in_processes=self.plan.replicas > 1)
        try:
            await first_of(cluster.start(), self.ended.wait())
            if not self.ended.is_set():
                loop.add_signal_handler(signal.SIGHUP, self._update, cluster)
                await self._serve(cluster)
                self._tell("stopping all that was started here")
        finally:
            await cluster.stop()

    async def _serve(self, cluster: Cluster) -> None:
        urls = " ".join(link.address for link in cluster.links)
        self.console.print(f"[bold green]ready[/]  devices connect to {urls}", soft_wrap=True)
        replicas = f"{self.plan.replicas} replica{'s' if self.plan.replicas > 1 else ''}"
        where = f"{self.plan.app}, {replicas}, data in {self.plan.data}"
        self.console.print(f"       {where}; Ctrl-C stops everything", soft_wrap=True)
        waits = [self.ended.wait(), self._refresh(cluster)]
        if self.files is not None:
            waits.append(self._watch(cluster, self.files))
        with self._display():
            await first_of(asyncio.shield(cluster.broken), *waits)
        self.live = None

    def _display(self) -> contextlib.AbstractContextManager[object]:
        if not self.console.is_terminal:
            return contextlib.nullcontext()
        self.live = Live(console=self.console, refresh_per_second=4, transient=True)
        return self.live

    async def _refresh(self, cluster: Cluster) -> None:
        while True:
            if self.live is not None:
                found = await status.of_cluster(cluster_file.read(self.plan.data))
                news = Text("\n".join(self.news), style="dim")
                self.live.update(
                    Group(Text(), processes_table(found), Text(), chains_table(found.chains), Text(), news)
                )
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
        logs = self.plan.data / "logs"
        cluster_file.make_directory(logs)
        logging.basicConfig(
            level=logging.INFO, filename=logs / "up.log", format="%(asctime)s %(levelname)-7s %(message)s"
        )
