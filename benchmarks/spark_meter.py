"""CPU seconds of a Spark session: its Java, the Python workers below it, and the process that drives it.

Workers come and go, and nobody waits for them: what they have used is lost with them. So the processes are looked at
again and again while something is measured, and one that is gone counts with what was last seen of it; it was idle, or
lasted less than a look. The brokers are children of the same driver; they are started before the meter is made, and
counted apart. What the looking takes is not counted.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import msgspec
import psutil

LOOK_S = 0.25


class Measured(msgspec.Struct):
    """One run, in seconds."""

    cpu_s: float = 0.0
    server_cpu_s: float = 0.0
    elapsed_s: float = 0.0


class Meter:
    """Make it when the servers run, and the session does not."""

    def __init__(self) -> None:
        self._servers = psutil.Process().children(recursive=True)

    @contextmanager
    def running(self) -> Iterator[Measured]:
        """What is done inside is measured; the figures are there when it is over."""
        found, over = Measured(), threading.Event()
        before = self._below()
        seen, looking = dict(before), [0.0]
        watch = threading.Thread(target=self._watch, args=(seen, looking, over), daemon=True)
        servers, began, own = used(self._servers), time.perf_counter(), time.process_time()
        watch.start()
        try:
            yield found
            found.elapsed_s = time.perf_counter() - began
            own = time.process_time() - own
        finally:
            over.set()
            watch.join()
        seen |= self._below()
        found.cpu_s = own - looking[0] + sum(cpu_s - before.get(each, 0.0) for each, cpu_s in seen.items())
        found.server_cpu_s = used(self._servers) - servers

    def _watch(self, seen: dict[psutil.Process, float], looking: list[float], over: threading.Event) -> None:
        while not over.wait(LOOK_S):
            seen |= self._below()
            looking[0] = time.thread_time()

    def _below(self) -> dict[psutil.Process, float]:
        """The processes of the session, each with what it has used so far."""
        below = [each for each in psutil.Process().children(recursive=True) if each not in self._servers]
        return {each: cpu_s for each in below if (cpu_s := used([each]))}


def used(processes: Iterable[psutil.Process]) -> float:
    """CPU seconds of these processes."""
    total = 0.0
    for process in processes:
        try:
            times = process.cpu_times()
        except psutil.NoSuchProcess:
            continue
        total += times.user + times.system
    return total
