"""How our log grows: with the number of partitions, with the size of a log, and with what has gone through it.

Everything is a ratio to the smallest case of the same run, so that the machine matters little. Nothing is asserted.

  partitions   one topic of 1, 100 and 1,000 partitions, on one broker and on three with three replicas each: what a
               producer gets through that spreads its records over all of them, what the brokers cost while nothing
               happens, and how large they are
  a long log   gigabytes through one broker into one partition, and how large the broker is on the way; then it is
               stopped, and killed, and how long it takes until it leads again beside an empty one

Partitions are spread as badly as can be: every record goes to another one than the last. A client that lets a batch
fill up before it turns to the next partition sees less of a difference.
"""

from __future__ import annotations

import itertools
import shutil
import signal
import tempfile
import time
from collections.abc import Sequence
from statistics import fmean
from typing import Any

import click
import msgspec
import psutil
from confluent_kafka import Consumer, Producer, TopicPartition
from rich.console import Console
from rich.table import Table

from brokers import QUIET, Cluster, cluster, until
from log_case import DRAIN_S_MAX, LogError

PARTITIONS = (1, 100, 1_000)
REPLICAS = (1, 3)
SECONDS = 5.0
QUICK_SECONDS = 1.0
RECORD = bytes(100)
PER_CALL = 1_000
QUEUED_MAX = 100_000
TOPIC = "growth"
GIGABYTES = 10.0
GIGABYTE = 1_000_000_000
SPARE_GIGABYTES = 5.0
"""Left free on the disk."""
BLOCK = bytes(itertools.islice(itertools.cycle(range(256)), 900_000))
"""A record of the long log: librdkafka's largest is a million bytes with its batch."""
COLUMNS = ("replicas", "partitions", "records/s", "broker CPU/record", "idle CPU", "size", "size after", "made in")
MARKS = 4
"""How often the broker's size is looked at while the long log is written."""
SAFE: dict[str, Any] = {"enable.idempotence": True, "acks": "all", "message.timeout.ms": int(DRAIN_S_MAX * 1000)}


# Partitions.


class Grown(msgspec.Struct, frozen=True):
    partitions: int
    replicas: int
    made_s: float
    idle_cpu: float
    """Cores, of one broker."""
    size: float
    """Bytes, of one broker while it is idle."""
    records_per_s: float
    cpu_per_record: float
    """Seconds of all brokers."""
    size_after: float


def grow(folder: str | None, partitions: int, replicas: int, seconds: float) -> Grown:
    with cluster(folder, replicas) as running:
        made_s = running.make(TOPIC, partitions, replicas)
        time.sleep(seconds / 2)
        before = _cpu(running.brokers)
        time.sleep(2 * seconds)
        idle = (_cpu(running.brokers) - before) / (2 * seconds) / replicas
        size = _size(running.brokers)
        before = _cpu(running.brokers)
        sent, elapsed = _spread(running.bootstrap, partitions, seconds)
        cpu = _cpu(running.brokers) - before
        return Grown(partitions, replicas, made_s, idle, size, sent / elapsed, cpu / sent, _size(running.brokers))


def _spread(bootstrap: str, partitions: int, seconds: float) -> tuple[int, float]:
    """Sends for some seconds; answers how many records were acknowledged, and in how long."""
    limits = {"queue.buffering.max.messages": 2 * QUEUED_MAX, "linger.ms": 20, "delivery.report.only.error": True}
    failures: list[object] = []
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            **QUIET,
            **SAFE,
            **limits,
            "on_delivery": lambda error, _: failures.append(error),
        }
    )
    numbers = itertools.cycle(range(partitions))
    producer.produce_batch(TOPIC, [{"value": RECORD, "partition": number} for number in range(partitions)])
    producer.flush(DRAIN_S_MAX)
    sent, start = 0, time.perf_counter()
    while time.perf_counter() < start + seconds:
        some = [{"value": RECORD, "partition": next(numbers)} for _ in range(PER_CALL)]
        sent += producer.produce_batch(TOPIC, some)
        while len(producer) > QUEUED_MAX:
            producer.poll(0.001)
    if producer.flush(DRAIN_S_MAX) or failures:
        raise LogError(f"not all records were acknowledged: {failures[:1]}")
    return sent, time.perf_counter() - start


def _cpu(processes: Sequence[psutil.Process]) -> float:
    return sum(sum(each.cpu_times()[:2]) for each in processes)


def _size(processes: Sequence[psutil.Process]) -> float:
    return fmean(each.memory_info().rss for each in processes)


def tell_partitions(console: Console, found: Sequence[Grown]) -> None:
    table = Table(title="Partitions, as ratios to one partition with as many replicas", title_justify="left")
    for column in (
        "replicas",
        "partitions",
        "records/s",
        "broker CPU/record",
        "idle CPU",
        "size",
        "size after",
        "made in",
    ):
        table.add_column(column, justify="right")
    for one in found:
        base = next(each for each in found if each.replicas == one.replicas)
        table.add_row(
            f"{one.replicas}",
            f"{one.partitions:,}",
            f"{one.records_per_s / base.records_per_s:.2f} ({one.records_per_s:,.0f})",
            f"{one.cpu_per_record / base.cpu_per_record:.2f}",
            f"{one.idle_cpu / max(base.idle_cpu, 0.001):.1f} ({one.idle_cpu:.3f} cores)",
            f"{one.size / base.size:.2f} ({_megabytes(one.size)})",
            f"{one.size_after / base.size:.2f}",
            f"{one.made_s:.2f} s",
        )
    console.print(table)


def _megabytes(size: float) -> str:
    return f"{size / 1e6:,.0f} MB"


# A long log.


class Long(msgspec.Struct, frozen=True):
    gigabytes: float
    written_s: float
    sizes: list[float]
    """The broker's, at equal distances from the first byte to the last."""
    size_read: float
    """After everything was read once."""
    starts_s: dict[str, float]


def run_long(folder: str | None, gigabytes: float) -> Long:
    with cluster(folder, 1) as running:
        running.make(TOPIC, 1, 1)
        [broker] = running.brokers
        start = time.perf_counter()
        sizes = _fill(running.bootstrap, broker, int(gigabytes * GIGABYTE) // len(BLOCK))
        written_s = time.perf_counter() - start
        _read(running.bootstrap, int(gigabytes * GIGABYTE) // len(BLOCK))
        size_read = broker.memory_info().rss
        starts = {"an empty broker": _time_start(running, "empty")}
        for how, number in (("stopped", signal.SIGINT), ("killed", signal.SIGKILL)):
            _end(broker, number)
            start = time.perf_counter()
            broker = running.start("b1")
            starts[f"{how}, ready"] = time.perf_counter() - start
            until("a leader", lambda: running.is_whole(TOPIC, 1, 1))
            starts[f"{how}, leads"] = time.perf_counter() - start
            _read(running.bootstrap, 1)
        return Long(gigabytes, written_s, sizes, size_read, starts)


def _end(process: psutil.Process, number: int) -> None:
    process.send_signal(number)
    until("its end", lambda: not process.is_running() or process.status() == psutil.STATUS_ZOMBIE)


def _time_start(running: Cluster, name: str) -> float:
    start = time.perf_counter()
    process = running.start(name)
    elapsed = time.perf_counter() - start
    process.kill()
    return elapsed


def _fill(bootstrap: str, broker: psutil.Process, count: int) -> list[float]:
    limits = {"queue.buffering.max.kbytes": 65_536, "batch.size": 1_000_000, "delivery.report.only.error": True}
    producer = Producer({"bootstrap.servers": bootstrap, **QUIET, **SAFE, **limits})
    sizes: list[float] = [broker.memory_info().rss]
    for number in range(1, count + 1):
        while True:
            try:
                producer.produce(TOPIC, BLOCK, partition=0)
                break
            except BufferError:
                producer.poll(0.01)
        producer.poll(0)
        if number * MARKS // count > (number - 1) * MARKS // count:
            sizes.append(broker.memory_info().rss)
    if producer.flush(DRAIN_S_MAX):
        raise LogError("not all of the long log was acknowledged")
    return sizes


def _read(bootstrap: str, count: int) -> None:
    limits = {"queued.max.messages.kbytes": 65_536, "enable.auto.commit": False, "group.id": "nobody"}
    consumer = Consumer({"bootstrap.servers": bootstrap, **QUIET, **limits})
    consumer.assign([TopicPartition(TOPIC, 0, 0)])
    while count > 0:
        found = consumer.consume(min(count, 64), DRAIN_S_MAX)
        if not found:
            raise LogError(f"{count} records did not come")
        count -= len(found)
    consumer.close()


def tell_long(console: Console, found: Long) -> None:
    rate = found.gigabytes * 1000 / found.written_s
    console.print(f"\nA log of {found.gigabytes:g} GB, written at {rate:,.0f} MB/s")
    steps = [f"{at * 100 // MARKS} %: {_megabytes(size)}" for at, size in enumerate(found.sizes)]
    console.print(
        f"  the broker's size while it was written: {', '.join(steps)}; read once: {_megabytes(found.size_read)}"
    )
    for what, seconds in found.starts_s.items():
        console.print(f"  {what}: {seconds:.2f} s")


@click.command()
@click.option("--quick", is_flag=True, help="Less of everything, to see that it works.")
@click.option("--gigabytes", type=click.FloatRange(0.0), default=None, help="The long log; 0 leaves it out.")
@click.option("--seconds", type=click.FloatRange(0.1), default=None, help="For each measurement of partitions.")
@click.option("--folder", type=click.Path(file_okay=False, exists=True), default=None, help="Where to put the logs.")
def main(quick: bool, gigabytes: float | None, seconds: float | None, folder: str | None) -> None:
    """Measure how the log grows, and print it."""
    console = Console(width=140)
    seconds = seconds or (QUICK_SECONDS if quick else SECONDS)
    counts = PARTITIONS[:2] if quick else PARTITIONS
    found = [grow(folder, partitions, replicas, seconds) for replicas in REPLICAS for partitions in counts]
    tell_partitions(console, found)
    wanted = gigabytes if gigabytes is not None else (0.5 if quick else GIGABYTES)
    free = shutil.disk_usage(folder or tempfile.gettempdir()).free / GIGABYTE - SPARE_GIGABYTES
    if wanted > free:
        console.print(f"The long log is left out: it takes {wanted:g} GB, and {max(free, 0):.1f} GB can be used.")
    elif wanted:
        tell_long(console, run_long(folder, wanted))


if __name__ == "__main__":
    main()
