"""How near reading is to what Python can do at all: the raw copy, cut into values, beside our own client.

The raw copy of `log_raw` only counts bytes. A reader has to make an object of every record: here it receives them the
same way and cuts them into `bytes`, 64 in one step, and does nothing else, no protocol, no checksum, no leader to find.
No client in Python that hands out values can be quicker by much. Both look at the length of every value.
"""

from __future__ import annotations

import os
import tempfile
from itertools import chain
from pathlib import Path
from statistics import median
from struct import Struct

import click
from rich.console import Console
from rich.table import Table

from log_case import Load, Meter, Setup
from log_octoloom import Octoloom
from log_own_client import OwnClient
from log_raw import HEADER, READ, Raw, expect, received
from octoloom.runtime.log_consumer import PARTITION_BYTES_MAX

SIZES = (100, 1_000)
AT_ONCE = 64
TOPIC = "values"


class Cut(Raw):
    """The raw copy, read into values."""

    def consume(self, topic: str, load: Load, messages: int, meter: Meter) -> int:
        many, single = Struct(f"{load.size}s" * AT_ONCE), Struct(f"{load.size}s")
        buffer = memoryview(bytearray(PARTITION_BYTES_MAX // many.size * many.size))
        records = 0
        with self._connect() as connection:
            meter.start()
            connection.sendall(HEADER.pack(READ, 0))
            left = int.from_bytes(expect(connection, 8))
            while left:
                filled, wanted = 0, min(left, len(buffer))
                while filled < wanted:
                    filled += received(connection.recv_into(buffer[filled:wanted]))
                cutter = single if filled % many.size else many
                records += load.look_at(list(chain.from_iterable(cutter.iter_unpack(buffer[:filled]))))
                left -= filled
            meter.stop()
        return records


@click.command()
@click.option("--rounds", default=7, show_default=True, type=click.IntRange(1, 100))
@click.option("--seconds", default=0.6, show_default=True, type=click.FloatRange(0.05, 60), help="Of each produce.")
def main(rounds: int, seconds: float) -> None:
    """Measure reading beside the raw copy, cut into values. Half a minute, on a machine with nothing else to do."""
    table = Table("size", "ours, records/s", "limit, records/s", "ours / limit", title="Reading values, one reader")
    with tempfile.TemporaryDirectory() as folder:
        log = Octoloom(Setup("octoloom", 3, "os"), Path(folder, "log"))
        limit = Cut(Setup("raw", 1, "os"), Path(folder, "raw"))
        try:
            for each in (log, limit):
                each.start()
                each.until_ready()
            for size in SIZES:
                found = [measure((OwnClient(log), limit), Load(size, "batched", seconds)) for _ in range(rounds)]
                ours, theirs = (median(rates) for rates in zip(*found, strict=True))
                ratio = median(ours / theirs for ours, theirs in found)
                table.add_row(f"{size} B", f"{ours:,.0f}", f"{theirs:,.0f}", f"{ratio:.2f}")
        finally:
            for each in (log, limit):
                each.stop()
    Console().print(table)


def measure(logs: tuple[OwnClient, Cut], load: Load) -> list[float]:
    """Records per second of each."""
    rates = []
    for log in logs:
        log.make(TOPIC)
        messages = log.produce(TOPIC, load, Meter(log.pids))
        os.sync()
        meter = Meter(log.pids)
        rates.append(meter.measured(log.consume(TOPIC, load, messages, meter)).records_per_s)
        log.drop(TOPIC)
    return rates


if __name__ == "__main__":
    main()
