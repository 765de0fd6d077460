"""Spark as a device: the rows of a streaming query go into live spaces, as events, each once.

    scores = spark.readStream... # any query with the columns space, name and payload
    feed(scores, "ws://127.0.0.1:7080", name="leaderboard", state="/data/leaderboard").start()

In each space a device with the feed's name sends what is meant for that space, and waits until it is settled. A batch
is done when all of it is; until then it may be run again, by this driver or the next one. It then goes on where it was:
its rows and their numbers are in the feed's ledger, and the chain says up to which number it has them.

What an app rejects, and rows that can be no events, are written down with the reason: see `refused`.
"""

from __future__ import annotations

import asyncio
import threading
from collections import OrderedDict
from collections.abc import Coroutine, Iterator, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

import msgspec

from octoloom.core.device_effects import Full, check_event
from octoloom.core.errors import OctoloomError, UsageError
from octoloom.runtime.device import Device, Sending
from octoloom.runtime.follower import check_name, check_urls
from octoloom.spark.feed_ledger import FeedLedger, FeedRow, Refused

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.readwriter import DataStreamWriter

T = TypeVar("T")

ROWS_MAX = 1_000_000
"""Rows of one batch. They pass through the driver: a feed is for results, not for raw events."""
DEVICES_MAX = 256
"""Spaces whose device stays connected from batch to batch."""
TOGETHER_MAX = 32
"""Spaces that are sent to at a time."""
ONLINE_S = 60.0
"""How long a space's chain may be out of reach before the batch fails."""
COLUMNS = ("space", "name", "payload")


class FeedError(OctoloomError):
    """A batch could not be sent. It is sent when the query is started again."""


def feed(
    frame: DataFrame,
    links: str | list[str],
    *,
    name: str,
    state: str | Path,
    token: str = "",
    online_s: float = ONLINE_S,
) -> DataStreamWriter:
    """Have a streaming query's rows sent; set a trigger if you like, and `start` it.

    `frame` has `space`, `name` and `payload` (JSON text, or a struct, map or array, which becomes JSON). `state` is a
    directory of the feed's own, for its ledger and the checkpoint.
    """
    urls = [links] if isinstance(links, str) else list(links)
    check_urls(urls)
    check_name("device", name)
    rows = as_rows(frame)
    folder = Path(state)
    batches = _Batches(Feeder(urls, name, folder / "feed.db", token, online_s))
    writer = rows.writeStream.outputMode("update").queryName(f"feed {name}")
    return writer.foreachBatch(batches.on_batch).option("checkpointLocation", str(folder / "checkpoint"))


def as_rows(frame: DataFrame) -> DataFrame:
    from pyspark.sql import functions as f
    from pyspark.sql.types import StringType

    missing = [column for column in COLUMNS if column not in frame.columns]
    if missing:
        text = f"a feed needs the columns {', '.join(COLUMNS)}, and {', '.join(missing)} is not there"
        raise UsageError(f"{text}: select them")
    payload = f.col("payload") if isinstance(frame.schema["payload"].dataType, StringType) else f.to_json("payload")
    return frame.select("space", "name", payload.alias("payload"))


class _Batches:
    _begun: ClassVar[dict[Path, Feeder]] = {}
    """Of each ledger the feeder of this process that used it last."""

    def __init__(self, feeder: Feeder) -> None:
        self._feeder = feeder

    def on_batch(self, rows: DataFrame, batch: int) -> None:
        self._begin()
        if self._feeder.knows(batch):
            self._feeder.run(batch, None)
            return
        found = rows.limit(ROWS_MAX + 1).collect()
        if len(found) > ROWS_MAX:
            raise UsageError(f"batch {batch} has more than {ROWS_MAX} rows: aggregate more, or take in less at a time")
        self._feeder.run(batch, [(row["space"], row["name"], row["payload"]) for row in found])

    def _begin(self) -> None:
        """Nobody tells a feeder that its query has ended. But Spark runs one query of a name at a time: so it has."""
        older = self._begun.get(self._feeder.path)
        if older is not self._feeder:
            self._begun[self._feeder.path] = self._feeder
            if older is not None:
                older.close()


class Feeder:
    """Sends batches of rows, on a loop of its own in a thread of its own."""

    def __init__(self, urls: list[str], name: str, ledger: Path, token: str = "", online_s: float = ONLINE_S) -> None:
        self._urls, self._name, self._token, self._online_s = urls, name, token, online_s
        self.path = ledger.absolute()
        self._ledger_or_none: FeedLedger | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._devices: OrderedDict[str, Device] = OrderedDict()

    @property
    def _ledger(self) -> FeedLedger:
        if self._ledger_or_none is None:
            self._ledger_or_none = FeedLedger(self.path, self._name)
        return self._ledger_or_none

    def knows(self, batch: int) -> bool:
        return self._ledger.has(batch)

    def run(self, batch: int, rows: Sequence[tuple[str | None, str | None, str | None]] | None) -> None:
        """Send a batch; without `rows`, one whose rows are in the ledger. Returns when all of it is settled."""
        if rows is not None:
            good, bad = _sorted_out(batch, rows)
            self._ledger.add(batch, good, bad)
        if not self._ledger.is_done(batch):
            self._wait(self._send(batch))
            self._ledger.finish(batch)

    def refused(self) -> list[Refused]:
        """What was rejected, or was no event, in the last batches."""
        return self._ledger.refused()

    def close(self) -> None:
        if self._loop is not None:
            self._wait(self._close_devices())
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._loop = None
        if self._ledger_or_none is not None:
            self._ledger_or_none.close()
            self._ledger_or_none = None

    def _wait(self, work: Coroutine[Any, Any, T]) -> T:
        if self._loop is None:
            self._loop = asyncio.new_event_loop()
            threading.Thread(target=self._loop.run_forever, name=f"feed {self._name}", daemon=True).start()
        future: Future[T] = asyncio.run_coroutine_threadsafe(work, self._loop)
        return future.result()

    # On the loop.

    async def _send(self, batch: int) -> None:
        spaces = self._ledger.rows(batch)
        together = asyncio.Semaphore(TOGETHER_MAX)

        async def send_to(space: str, rows: list[FeedRow]) -> None:
            async with together:
                await self._send_to(batch, await self._device(space), rows)

        try:
            async with asyncio.TaskGroup() as tasks:
                for space, rows in spaces.items():
                    tasks.create_task(send_to(space, rows))
        except ExceptionGroup as errors:
            # One that tells what is wrong is worth more than all of them, and one that nobody thought of comes first.
            # (`except*` would put it into a group again on Python 3.11.2.)
            unknown = (each for each in errors.exceptions if not isinstance(each, OctoloomError))
            raise next(unknown, errors.exceptions[0]) from None
        while len(self._devices) > DEVICES_MAX:
            _, device = self._devices.popitem(last=False)
            await device.__aexit__(None, None, None)

    async def _device(self, space: str) -> Device:
        device = self._devices.get(space)
        if device is None:
            device = Device.connect(self._urls, space, self._name, token=self._token)
            await device.__aenter__()
            self._devices[space] = device
        self._devices.move_to_end(space)
        try:
            async with asyncio.timeout(self._online_s):
                await device.online()
        except TimeoutError:
            raise FeedError(f"no link serves {space!r} at {', '.join(self._urls)}: see `octoloom status`") from None
        except OctoloomError:
            del self._devices[space]
            raise
        return device

    async def _send_to(self, batch: int, device: Device, rows: list[FeedRow]) -> None:
        """Go on with a space's rows where it was left, by the chain's own word."""
        await device.settled()
        first = self._ledger.first(batch, device.space)
        if first is None or first > device.next_number:
            # Behind what was sent once: the chain has begun a new history, and knows nothing of the batch.
            first = device.next_number
            self._ledger.set_first(batch, device.space, first)
        sent = device.next_number - first
        if sent > len(rows):
            text = f"somebody else sends as {self._name!r} in {device.space!r}"
            raise UsageError(f"{text}: give each feed a name that no device has")
        sendings = [(row, await self._send_row(device, row)) for row in rows[sent:]]
        outcomes = [(row, await sending) for row, sending in sendings]
        reasons = [(row, f"{outcome.status}: {outcome.reason}") for row, outcome in outcomes if not outcome]
        self._ledger.refuse(Refused(batch, *row, reason) for row, reason in reasons)

    async def _send_row(self, device: Device, row: FeedRow) -> Sending:
        while True:
            try:
                return device.send(row.name, msgspec.Raw(row.payload))
            except Full:
                await device.told()

    async def _close_devices(self) -> None:
        for device in self._devices.values():
            await device.__aexit__(None, None, None)
        self._devices.clear()


def _sorted_out(
    batch: int, rows: Sequence[tuple[str | None, str | None, str | None]]
) -> tuple[list[FeedRow], list[Refused]]:
    """Rows that can be events, and those that cannot."""
    good: list[FeedRow] = []
    bad: list[Refused] = []
    for space, name, payload in rows:
        text = payload.encode() if payload is not None else b"null"
        try:
            if space is None or name is None:
                raise UsageError("space or name is missing")
            check_name("space", space)
            check_event(name, text)
            good.append(FeedRow(space, name, text))
        except UsageError as error:
            bad.append(Refused(batch, space, name, text, str(error)))
    return good, bad


def refused(state: str | Path, name: str) -> Iterator[Refused]:
    """What a feed that does not run right now was refused in its last batches."""
    ledger = FeedLedger(Path(state) / "feed.db", name)
    try:
        yield from ledger.refused()
    finally:
        ledger.close()
