"""The load generator for our chain: many devices (and observers) of the shared-cells game in one process.

Device d puts 1, 2, 3, ... into its cell, so its event's number is its value. A value that d is told acknowledges all
its lower ones. The definitions are those of `colyseus_peer`:

  latency      open loop: every device sends `rate` times a second whatever comes back; measured from d's send until
               a committed change with that value, or a higher one, was delivered to d
  throughput   closed loop: every device keeps `window` events unacknowledged; measured in acknowledged events

What keeps this process from measuring itself, and honest at the same time:

1. Each device has its own connection and receives every message itself. Only the first copy of a change is decoded;
   every other copy must be the same bytes, and `differing` counts those that are not.
2. A device sees what a change says when its own socket has delivered it, never earlier.
3. The kills at the end of a device's own copy are decoded one by one, and must end at the value that the change shows:
   `differing` counts those that do not, `unapplied` those with another outcome than applied.
4. Versions must follow each other without a gap, on every connection: `gaps` counts those that do not.
5. What became due at the same moment leaves in one message, as our device client does it.

One JSON line with the result ends the run. `converged` says that in the end every connection had the last version,
and the one state that was decoded showed every device's last value.
"""

from __future__ import annotations

import asyncio
import resource
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import cycle, islice
from typing import Literal

import msgspec
import psutil
import uvloop
from picows import WSFrame, WSListener, WSMsgType, WSTransport, ws_connect

Mode = Literal["latency", "throughput"]
GOLDEN = 0.6180339887498949
KNOWN_MAX = 1024
JOINS_AT_ONCE_MAX = 32
READY_S_MAX = 60.0
DRAIN_S_MAX = 15.0

_TEXT = WSMsgType.TEXT


class Settings(msgspec.Struct, frozen=True):
    urls: list[str]
    """The head's first."""
    pids: dict[str, int] = {}
    mode: Mode = "latency"
    devices: int = 1
    observers: int = 0
    """Spread over all links."""
    seconds: float = 5.0
    warmup: float = 1.0
    window: int = 8
    rate: float = 1.0
    space: str = "arena"


class Usage(msgspec.Struct, frozen=True):
    """One process over the measured time."""

    cpu_s: float
    elapsed_s: float
    rss_start: int = 0
    rss_peak: int = 0
    rss_end: int = 0

    @property
    def cpu_share(self) -> float:
        return self.cpu_s / self.elapsed_s if self.elapsed_s else 0.0


class LoadResult(msgspec.Struct, frozen=True):
    events_per_s: float
    latency_count: int
    latency_p50_ms: float | None
    latency_p99_ms: float | None
    send_lag_p99_ms: float | None
    observer_p50_ms: float | None
    """From a device's send until an observer was told."""
    observer_p99_ms: float | None
    messages_per_s: float
    servers: dict[str, Usage]
    client: Usage
    unseen: int
    differing: int
    unapplied: int
    gaps: int
    dropped: int
    converged: bool

    @property
    def healthy(self) -> bool:
        return self.converged and not (self.unseen or self.differing or self.unapplied or self.gaps or self.dropped)

    @property
    def server_cpu_s(self) -> float:
        return sum(usage.cpu_s for usage in self.servers.values())


class _Change(msgspec.Struct):
    """A change, without the kills, which differ from device to device."""

    version: int
    since: int
    state: dict[str, dict[str, object]] | msgspec.UnsetType = msgspec.UNSET
    patches: list[dict[str, dict[str, object]]] = []


_kinds = msgspec.json.Decoder(dict[str, msgspec.Raw])
_changes = msgspec.json.Decoder(_Change)
_kills = msgspec.json.Decoder(list[tuple[int, str, str]])


@dataclass(frozen=True, slots=True)
class Known:
    """A change whose shared part was decoded, for all who get the same bytes."""

    opening: bytes
    version: int
    values: dict[str, int]


@dataclass(slots=True)
class Meter:
    measuring: bool = False
    acknowledged: int = 0
    messages: int = 0
    latencies: list[float] = field(default_factory=list)
    observed: list[float] = field(default_factory=list)
    lags: list[float] = field(default_factory=list)
    differing: int = 0
    unapplied: int = 0
    gaps: int = 0


class Crowd:
    """All connections of this process, and the one copy of the state that they share."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.meter = Meter()
        self.cells: dict[str, int] = {}
        self.version = 0
        self.known: dict[int, list[Known]] = {}
        self.devices = [Device(self, f"d{number}") for number in range(settings.devices)]
        self.observers = [Watcher(self, "") for _ in range(settings.observers)]
        self.probe: tuple[int, float] | None = None
        """The last value that device d0 sent and when: what observers are timed by."""

    def find(self, since: int, text: bytes) -> Known:
        for known in self.known.get(since, ()):
            if text.startswith(known.opening):
                return known
        return self._decode(since, text)

    def _decode(self, since: int, text: bytes) -> Known:
        end = text.rfind(b',"kills":[[')
        opening = text[:-1] if end < 0 else text[:end]
        change = _changes.decode(opening + b"}")
        self.meter.gaps += change.since != since
        values: dict[str, int] = {}
        parts = [] if change.state is msgspec.UNSET else [change.state]
        for part in [*parts, *change.patches]:
            values.update(part.get("cells", {}))  # type: ignore[arg-type]  # cells hold numbers
        if change.version > self.version:
            self.cells.update(values)
            self.version = change.version
        known = Known(opening, change.version, values)
        self.known.setdefault(since, []).append(known)
        if len(self.known) > KNOWN_MAX:
            del self.known[next(iter(self.known))]
        return known


class Watcher(WSListener):
    """One connection that watches; a device's is one that also sends."""

    def __init__(self, crowd: Crowd, name: str) -> None:
        self.crowd = crowd
        self.name = name
        self.version = 0
        self.ready = False
        self.dropped = False
        self.probed = 0
        self.transport: WSTransport | None = None

    async def join(self, url: str) -> None:
        self.url = url
        await ws_connect(lambda: self, url, enable_auto_ping=False, enable_auto_pong=True)

    def greeting(self) -> bytes:
        return b'{"type":"observe","space":"%s"}' % self.crowd.settings.space.encode()

    def on_ws_connected(self, transport: WSTransport) -> None:
        self.transport = transport
        transport.send(_TEXT, self.greeting())

    def on_ws_disconnected(self, transport: WSTransport) -> None:
        self.dropped = True

    def on_ws_frame(self, transport: WSTransport, frame: WSFrame) -> None:
        if frame.msg_type != _TEXT:
            return
        text = frame.get_payload_as_bytes()
        self.crowd.meter.messages += 1
        if text.startswith(b'{"type":"change"'):
            known = self.crowd.find(self.version, text)
            self.version = known.version
            self.on_change(known, text)
        else:
            self.on_other(msgspec.json.decode(_kinds.decode(text)["type"]), text)

    def on_other(self, kind: str, text: bytes) -> None:
        if kind == "welcome":
            self.version = msgspec.json.decode(_kinds.decode(text)["version"])
            self.ready = True
        else:
            # Busy, gap and errors do not belong into a run that is to mean something.
            self.dropped = True
            print(f"{self.name}: {text[:200]!r}", file=sys.stderr)

    def on_change(self, known: Known, text: bytes) -> None:
        """What an observer's device sees, it is timed by the last send of device d0."""
        value, probe = known.values.get("d0", 0), self.crowd.probe
        if probe is not None and value >= probe[0] > self.probed and self.crowd.meter.measuring:
            self.probed = probe[0]
            self.crowd.meter.observed.append(time.perf_counter() - probe[1])


class Device(Watcher):
    def __init__(self, crowd: Crowd, name: str) -> None:
        super().__init__(crowd, name)
        self.sent = 0
        self.seen = 0
        self.closed_loop = False
        self.sent_at: list[tuple[int, float]] = []

    def greeting(self) -> bytes:
        text = b'{"type":"bootstrap","space":"%s","device":"%s","next":1,"events":[]}'
        return text % (self.crowd.settings.space.encode(), self.name.encode())

    def put(self, count: int = 1) -> None:
        first = self.sent + 1
        self.sent += count
        body = b",".join([b'[%d,"put",{"x":%d}]' % (number, number) for number in range(first, first + count)])
        assert self.transport is not None
        self.transport.send(_TEXT, b'{"type":"events","events":[%b]}' % body)

    def put_timed(self) -> None:
        """Measured from before the send, as the send is part of what a player waits for."""
        now = time.perf_counter()
        if self.crowd.meter.measuring:
            self.sent_at.append((self.sent + 1, now))
        if self.name == "d0":
            self.crowd.probe = (self.sent + 1, now)
        self.put()

    def on_change(self, known: Known, text: bytes) -> None:
        value = known.values.get(self.name)
        if value is None or value <= self.seen:
            return
        self._check(text[len(known.opening) + 9 : -1], value)
        news, self.seen = value - self.seen, value
        if self.crowd.meter.measuring:
            self.crowd.meter.acknowledged += news
        if self.sent_at:
            self._time_up_to(value)
        if self.closed_loop:
            self.put(news)

    def _check(self, kills: bytes, value: int) -> None:
        notes = _kills.decode(kills) if kills else []
        if not notes or notes[-1][0] != value:
            self.crowd.meter.differing += 1
        self.crowd.meter.unapplied += sum(note[1] != "applied" for note in notes)

    def _time_up_to(self, value: int) -> None:
        now = time.perf_counter()
        while self.sent_at and self.sent_at[0][0] <= value:
            self.crowd.meter.latencies.append(now - self.sent_at.pop(0)[1])


async def until(condition: Callable[[], bool], seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while not condition() and time.monotonic() < deadline:
        await asyncio.sleep(0.02)
    return condition()


async def join_all(crowd: Crowd) -> None:
    urls = crowd.settings.urls
    places: list[tuple[Watcher, str]] = [(device, urls[0]) for device in crowd.devices]
    places += zip(crowd.observers, islice(cycle(urls), len(crowd.observers)), strict=True)
    for at in range(0, len(places), JOINS_AT_ONCE_MAX):
        await asyncio.gather(*(watcher.join(url) for watcher, url in places[at : at + JOINS_AT_ONCE_MAX]))
    if not await until(lambda: all(watcher.ready for watcher, _ in places), READY_S_MAX):
        raise SystemExit("not everybody was welcomed")
    for device in crowd.devices:
        device.put()
    if not await until(lambda: has_converged(crowd), READY_S_MAX):
        raise SystemExit("not every device saw every cell before the start")


def has_converged(crowd: Crowd) -> bool:
    if any(crowd.cells.get(device.name, 0) != device.sent or device.seen != device.sent for device in crowd.devices):
        return False
    return all(watcher.version == crowd.version for watcher in [*crowd.devices, *crowd.observers])


async def open_loop(crowd: Crowd, rate: float) -> None:
    """Sends are spread over the period and shifted inside their slots, as the peer's are."""
    slot_s = 1 / (rate * len(crowd.devices))
    start, number = time.perf_counter(), 0
    while True:
        due = start + (number + (number * GOLDEN) % 1) * slot_s
        wait = due - time.perf_counter()
        if wait > 0:
            await asyncio.sleep(wait)
        if crowd.meter.measuring:
            crowd.meter.lags.append(time.perf_counter() - due)
        crowd.devices[number % len(crowd.devices)].put_timed()
        number += 1


def close_loop(crowd: Crowd, window: int) -> None:
    for device in crowd.devices:
        device.closed_loop = True
        device.put(window)


class Watch:
    """CPU and memory of the servers and of this process, between `start` and `stop`."""

    def __init__(self, pids: dict[str, int]) -> None:
        self._processes = {name: psutil.Process(pid) for name, pid in pids.items()}
        self._processes["client"] = psutil.Process()
        self._rss: dict[str, list[int]] = {name: [] for name in self._processes}

    def sample_memory(self) -> None:
        for name, process in self._processes.items():
            self._rss[name].append(process.memory_info().rss)

    def start(self) -> None:
        self._cpu = self._cpu_now()
        self._since = time.monotonic()

    def stop(self) -> dict[str, Usage]:
        elapsed, cpu = time.monotonic() - self._since, self._cpu_now()
        return {
            name: Usage(cpu[name] - self._cpu[name], elapsed, rss[0], max(rss), rss[-1])
            for name, rss in self._rss.items()
        }

    def _cpu_now(self) -> dict[str, float]:
        self.sample_memory()
        times = {name: process.cpu_times() for name, process in self._processes.items()}
        return {name: time.user + time.system for name, time in times.items()}


async def measure(crowd: Crowd) -> dict[str, Usage]:
    watch = Watch(crowd.settings.pids)
    watch.start()
    crowd.meter.messages = 0
    crowd.meter.measuring = True
    end = time.monotonic() + crowd.settings.seconds
    while (left := end - time.monotonic()) > 0:
        await asyncio.sleep(min(left, 1.0))
        watch.sample_memory()
    crowd.meter.measuring = False
    return watch.stop()


def percentile_ms(values: list[float], share: float) -> float | None:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] * 1000 if ordered else None


def report(crowd: Crowd, usages: dict[str, Usage], converged: bool) -> LoadResult:
    meter, client = crowd.meter, usages.pop("client")
    return LoadResult(
        events_per_s=meter.acknowledged / client.elapsed_s,
        latency_count=len(meter.latencies),
        latency_p50_ms=percentile_ms(meter.latencies, 0.5),
        latency_p99_ms=percentile_ms(meter.latencies, 0.99),
        send_lag_p99_ms=percentile_ms(meter.lags, 0.99),
        observer_p50_ms=percentile_ms(meter.observed, 0.5),
        observer_p99_ms=percentile_ms(meter.observed, 0.99),
        messages_per_s=meter.messages / client.elapsed_s,
        servers=usages,
        client=client,
        unseen=sum(device.sent - device.seen for device in crowd.devices),
        differing=meter.differing,
        unapplied=meter.unapplied,
        gaps=meter.gaps,
        dropped=sum(watcher.dropped for watcher in [*crowd.devices, *crowd.observers]),
        converged=converged,
    )


async def run(settings: Settings) -> LoadResult:
    crowd = Crowd(settings)
    await join_all(crowd)
    loop: asyncio.Task[None] | None = None
    if settings.mode == "latency":
        loop = asyncio.create_task(open_loop(crowd, settings.rate))
    else:
        close_loop(crowd, settings.window)
    await asyncio.sleep(settings.warmup)
    usages = await measure(crowd)
    if loop is not None:
        loop.cancel()
    for device in crowd.devices:
        device.closed_loop = False
    converged = await until(lambda: has_converged(crowd), DRAIN_S_MAX)
    return report(crowd, usages, converged)


def main() -> None:
    settings = msgspec.json.decode(sys.argv[1], type=Settings)
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    print(msgspec.json.encode(uvloop.run(run(settings))).decode())


if __name__ == "__main__":
    main()
