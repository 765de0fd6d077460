"""`octoloom doctor`: what is missing on this machine, and the command that fixes it."""

from __future__ import annotations

import importlib.metadata
import os
import resource
import shutil
import socket
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import click

from octoloom.cli.doctor_spark import examine_spark
from octoloom.cli.finding import Finding
from octoloom.cli.options import data_option
from octoloom.cli.screen import console

PYTHON = (3, 11)
PACKAGES = ("click", "cramjam", "crc32c", "kio", "msgspec", "picows", "psutil", "rich", "uvloop")
FILES_WANTED = 8192
PORTS = {7070: "the register", 7080: "devices", 9092: "Kafka clients", 9093: "Kafka clients", 9094: "Kafka clients"}


@click.command(short_help="Say what is missing on this machine.")
@data_option
def command(data: Path) -> None:
    """Check what Octoloom needs on this machine, and say how to get what is missing.

    Exits with 1 if something is missing that nothing works without.

    \b
    Examples:
      octoloom doctor
      octoloom doctor --data /var/lib/octoloom
    """
    screen = console()
    findings = list(examine(data))
    width = max(len(finding.what) for finding in findings)
    for finding in findings:
        mark = "[green]ok     [/]" if finding.ok else "[red]missing[/]" if finding.needed else "[yellow]low    [/]"
        screen.print(f"{mark}  {finding.what:<{width}}  {finding.detail}", soft_wrap=True)
        if not finding.ok:
            screen.print(f"         {'':<{width}}  fix: [bold]{finding.fix}[/]", soft_wrap=True)
    if any(not finding.ok and finding.needed for finding in findings):
        raise click.exceptions.Exit(1)


def examine(data: Path) -> Iterator[Finding]:
    yield _python()
    for package in PACKAGES:
        yield _package(package)
    yield _fork()
    yield _open_files()
    yield _data(data)
    for port, purpose in PORTS.items():
        yield _port(port, purpose)
    yield from examine_spark()
    yield _kcat()


def _python() -> Finding:
    version = ".".join(map(str, sys.version_info[:3]))
    wanted = ".".join(map(str, PYTHON))
    return Finding("Python", sys.version_info >= PYTHON, version, f"install Python {wanted} or newer")


def _package(name: str) -> Finding:
    try:
        return Finding(name, True, importlib.metadata.version(name))
    except importlib.metadata.PackageNotFoundError:
        return Finding(name, False, "not installed", f"{sys.executable} -m pip install {name}")


def _fork() -> Finding:
    return Finding("fork", hasattr(os, "fork"), sys.platform, "run on Linux or macOS (on Windows: in WSL)")


def _open_files() -> Finding:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    ok = soft == resource.RLIM_INFINITY or soft >= FILES_WANTED
    wanted = FILES_WANTED if hard == resource.RLIM_INFINITY else min(FILES_WANTED, hard)
    detail = f"{soft} per process, one for each device; {FILES_WANTED} are good for thousands"
    return Finding("open files", ok, detail, f"ulimit -n {wanted}", needed=False)


def _data(data: Path) -> Finding:
    """The nearest directory that exists must be writable; nothing is left behind."""
    place = next(path for path in (data.absolute(), *data.absolute().parents) if path.exists())
    try:
        with tempfile.TemporaryFile(dir=place):
            return Finding("data", True, f"{data} can be written")
    except OSError as error:
        return Finding("data", False, f"{place}: {error.strerror}", "name another directory with --data")


def _port(port: int, purpose: str) -> Finding:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError as error:
            fix = "octoloom up --ephemeral-ports, or --port, --register-port and --broker-port"
            return Finding(f"port {port}", False, f"for {purpose}: {error.strerror}", fix, needed=False)
    return Finding(f"port {port}", True, f"free, for {purpose}")


def _kcat() -> Finding:
    """Nothing needs it, so it is never missing."""
    found = shutil.which("kcat") or shutil.which("kafkacat")
    purpose = "optional: a Kafka client for the command line, to look at topics as `octoloom topic` does"
    return Finding("kcat", True, purpose if found else f"not installed; {purpose} (apt-get install kcat)")
