"""What the pipelines on Spark share: the options, the session, and how they end.

    @click.command(short_help="…")
    @spark_options
    def command(common: Common, …) -> None:
        with common.spark() as spark, progress(spark, "replaying", quiet=common.quiet) as line:
            …

Nothing here loads Spark before the session is asked for, so help is there in a blink.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import logging
import signal
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.console import Console

from octoloom.cli.broker_options import BOOTSTRAP, INTERRUPTED
from octoloom.cli.options import DATA
from octoloom.core.errors import UsageError
from octoloom.runtime import cluster_file
from octoloom.runtime.log_client import LogClient

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(slots=True)
class Common:
    """What was said about where the records are, where Spark is, and where the result goes."""

    bootstrap_named: str | None
    register: str | None
    data: Path | None
    master: str | None
    cores: int | None
    memory: str | None
    out: Path | None
    quiet: bool

    is_begun: bool = False
    wanted: str = ""
    """The brokers that somebody has asked for, who will want them to answer."""

    @property
    def bootstrap(self) -> str:
        """Brokers to begin with. They are asked before Spark starts: a query would give up only after a minute."""
        self.wanted = self.where()
        if self.is_begun:
            asyncio.run(_answered(self.wanted))
        return self.wanted

    def where(self) -> str:
        """The brokers as named, through the register, of the cluster in --data, or where they always are."""
        if self.bootstrap_named or self.register:
            return self.bootstrap_named or self.register or ""
        if self.data is not None:
            return cluster_file.read(self.data).register
        try:
            return cluster_file.read(DATA).register
        except UsageError:
            return BOOTSTRAP

    @contextlib.contextmanager
    def spark(self, name: str = "octoloom", config: Mapping[str, str] | None = None) -> Iterator[SparkSession]:
        """A session, which ends with the block if it began with it. What Spark raises is told in a line."""
        from octoloom.spark.failures import told
        from octoloom.spark.sessions import running, session

        if self.wanted:
            asyncio.run(_answered(self.wanted))
        self.is_begun, begins = True, running() is None
        with self._starting():
            made = session(name, master=self.master, cores=self.cores, memory=self.memory, config=config)
        with _hushed():
            try:
                with _interruptible(), told():
                    yield made
            except KeyboardInterrupt:
                with contextlib.suppress(Exception):
                    made.sparkContext.cancelAllJobs()
                raise click.exceptions.Exit(INTERRUPTED) from None
            finally:
                if begins:
                    made.stop()

    @contextlib.contextmanager
    def _starting(self) -> Iterator[None]:
        screen = Console(stderr=True, highlight=False)
        if self.quiet or not screen.is_terminal:
            yield
            return
        with screen.status(f"starting Spark on {self.master or 'this machine'}"):
            yield


async def _answered(bootstrap: str) -> None:
    async with LogClient(bootstrap, "octoloom-spark") as client:
        await client.metadata([])


@contextlib.contextmanager
def _interruptible() -> Iterator[None]:
    """Ctrl-C interrupts, and no more: PySpark's own handler calls Java while a call is under way, and prints pages."""
    is_main = threading.current_thread() is threading.main_thread()
    before = signal.signal(signal.SIGINT, signal.default_int_handler) if is_main else None
    try:
        yield
    finally:
        if is_main:
            signal.signal(signal.SIGINT, before)


@contextlib.contextmanager
def _hushed() -> Iterator[None]:
    """A call to Java that is broken off is logged, through loggers of py4j's own and through the root."""
    root, named, nowhere = logging.getLogger(), logging.getLogger("py4j"), logging.NullHandler()
    root.addFilter(_is_not_py4j)
    named.addHandler(nowhere)
    propagated, named.propagate = named.propagate, False
    try:
        yield
    finally:
        root.removeFilter(_is_not_py4j)
        named.removeHandler(nowhere)
        named.propagate = propagated


def _is_not_py4j(record: logging.LogRecord) -> bool:
    """What it complains about is raised as well."""
    return "py4j" not in Path(record.pathname).parts


OPTIONS = (
    click.option(
        "-b",
        "--bootstrap",
        "bootstrap_named",
        envvar="OCTOLOOM_BOOTSTRAP",
        show_envvar=True,
        metavar="HOST:PORT,...",
        help=f"One or more brokers, or the register.  [default: those of the cluster in --data, or {BOOTSTRAP}]",
    ),
    click.option("--register", metavar="HOST:PORT", help="Find the brokers through this register."),
    click.option(
        "--data",
        type=click.Path(path_type=Path, file_okay=False),
        help=f"The directory of a cluster that runs on this machine.  [default: {DATA}, if one runs there]",
    ),
    click.option(
        "--master",
        envvar="OCTOLOOM_SPARK_MASTER",
        show_envvar=True,
        metavar="URL",
        help="Where Spark runs: local[2], or spark://host:7077 for a cluster.  [default: all cores of this machine]",
    ),
    click.option("--cores", type=click.IntRange(1, 10_000), help="Use at most so many cores."),
    click.option(
        "--memory", metavar="SIZE", help="The heap of each Java, such as 2g.  [default: a quarter of the memory]"
    ),
    click.option("-o", "--out", type=click.Path(path_type=Path), help="Where the result goes."),
    click.option("-q", "--quiet", is_flag=True, help="Print the result and nothing else."),
)


def spark_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Adds the options that all pipelines share, which the command gets as one argument, `common`."""

    @functools.wraps(command)
    def with_common(
        bootstrap_named: str | None,
        register: str | None,
        data: Path | None,
        master: str | None,
        cores: int | None,
        memory: str | None,
        out: Path | None,
        quiet: bool,
        **rest: Any,
    ) -> Any:
        common = Common(bootstrap_named, register, data, master, cores, memory, out, quiet)
        return command(common=common, **rest)

    wrapped: Callable[..., Any] = with_common
    for option in reversed(OPTIONS):
        wrapped = option(wrapped)
    return wrapped
