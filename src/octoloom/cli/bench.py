"""`octoloom bench`: the benchmarks of the repository."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import click

from octoloom.core.errors import UsageError

BENCHMARKS = Path(__file__).parents[3] / "benchmarks"


# Everything after the name is the benchmark's own, so that it tells its options itself.
OPTIONS = {"ignore_unknown_options": True, "allow_interspersed_args": False}


@click.command(short_help="Measure throughput and latency.", context_settings=OPTIONS)
@click.argument("name", type=click.Choice(["chain", "log", "group", "causal", "spark"]))
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def command(name: str, arguments: tuple[str, ...]) -> None:
    """Measure throughput and latency, beside a peer: the chain, the log, ordered groups, Spark. ARGUMENTS are its own.

    \b
    Examples:
      octoloom bench chain
      octoloom bench log --help
      octoloom bench log --quick
      octoloom bench log --peer nats --replicas 3 --case latency
      octoloom bench group --quick
      octoloom bench spark --quick
    """
    script = BENCHMARKS / f"{name}.py"
    if not script.is_file():
        raise UsageError("benchmarks come with the repository, not with the package: clone it and run `make bench`")
    raise click.exceptions.Exit(subprocess.call([sys.executable, str(script), *arguments]))
