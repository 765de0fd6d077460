"""Members of a consumer group, each a process, are killed, frozen and ended, and brokers die, while records come.

Two members are ours (the command, and a program that commits by itself), the others are of other clients. Every record
is printed by some member, nothing is committed that was not printed before, and who was frozen for too long comes back
as a new member. The long form (`make chaos`) goes twenty rounds.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path

import pytest

from octoloom.runtime.log_client import LogClient
from octoloom.runtime.log_errors import LogError
from octoloom.runtime.log_groups import GroupStatus, describe_groups
from octoloom.runtime.log_producer import Producer
from tests.runtime.real_log import RealLog, real_log
from tests.waiting import until_answered

TOPIC, GROUP = "work", "workers"
PARTITIONS = 8
KINDS = ["command", "ours", "confluent", "aiokafka", "kafka-python"]
OURS = [0, 1]
PATIENCE_S = 240.0
SESSION_MS = 10_000
PER_TICK, TICK_S = 60, 0.05


class Workers:
    """Processes that print what they get, and the files that they print to."""

    def __init__(self, folder: Path, log: RealLog) -> None:
        self.folder, self.log = folder, log
        self.files: list[Path] = []
        self.faults: Counter[str] = Counter()
        self._running: dict[int, subprocess.Popen[bytes]] = {}
        for place in range(len(KINDS)):
            self.start(place)

    def start(self, place: int) -> None:
        kind = KINDS[place]
        self.files.append(self.folder / f"{len(self.files)}-{kind}.jsonl")
        if kind == "command":
            how = ["octoloom", "topic", "consume", TOPIC, "--group", GROUP, "--json", "-u", "-b", self.log.bootstrap]
        else:
            how = ["tests.chaos.consumer_process", kind, self.log.bootstrap, GROUP, TOPIC, str(SESSION_MS)]
        with self.files[-1].open("wb") as out, self._errors(self.files[-1]).open("wb") as errors:
            self._running[place] = subprocess.Popen([sys.executable, "-m", *how], stdout=out, stderr=errors)

    def signal(self, place: int, number: int) -> None:
        self._running[place].send_signal(number)

    def again(self, place: int, number: int) -> None:
        """Ends a member so, and starts another."""
        self.signal(place, number)
        self._running[place].wait(PATIENCE_S)
        self.start(place)

    def stop(self) -> None:
        for process in self._running.values():
            process.kill()
            process.wait()

    def _lines(self) -> Iterator[tuple[Path, dict[str, str | int]]]:
        for path in self.files:
            # What a killed one had not finished to write it had not done.
            for line in path.read_bytes().split(b"\n")[:-1]:
                yield path, json.loads(line)

    def printed(self) -> Counter[tuple[int, int]]:
        """How often each (partition, offset) was printed."""
        counts: Counter[tuple[int, int]] = Counter()
        for _, record in self._lines():
            if "refused" not in record:
                partition, offset = int(record["partition"]), int(record["offset"])
                assert int(record["value"]) % PARTITIONS == partition
                counts[partition, offset] += 1
        return counts

    def by_kind(self) -> Counter[str]:
        return Counter(path.stem.partition("-")[2] for path, record in self._lines() if "refused" not in record)

    def refusals(self) -> Counter[str]:
        return Counter(path.stem.partition("-")[2] for path, record in self._lines() if "refused" in record)

    def errors_of_ours(self) -> str:
        ours = [path for path in self.files if path.stem.partition("-")[2] in ("command", "ours")]
        return "".join(self._errors(path).read_text() for path in ours)

    def _errors(self, path: Path) -> Path:
        return path.with_suffix(".err")


@pytest.fixture
def log(tmp_path: Path) -> Iterator[RealLog]:
    with real_log(tmp_path, brokers=3) as log:
        yield log


async def described(client: LogClient) -> GroupStatus | None:
    try:
        [group] = await describe_groups(client, [GROUP])
    except LogError:
        return None
    return group


async def until_stable(client: LogClient, members: int) -> None:
    """Nobody else is missed or waited for."""

    async def is_stable() -> bool:
        group = await described(client)
        return group is not None and group.state == "Stable" and len(group.members) == members

    await until_answered(is_stable, f"{members} members", PATIENCE_S, pause_s=0.1)


async def check_commits(client: LogClient, workers: Workers) -> None:
    """What is committed was printed before. (One looks at the group first.)"""
    group = await described(client)
    printed = workers.printed()
    for part in group.partitions if group is not None else []:
        missing = [offset for offset in range(part.committed or 0) if (part.partition, offset) not in printed]
        assert missing == [], f"{part.committed} of {part.partition} are committed"


# Faults, each with the place of a member.

Fault = Callable[[LogClient, Workers, int], Coroutine[None, None, None]]


async def kill(client: LogClient, workers: Workers, place: int) -> None:
    await asyncio.to_thread(workers.again, place, signal.SIGKILL)


async def end(client: LogClient, workers: Workers, place: int) -> None:
    await asyncio.to_thread(workers.again, place, signal.SIGTERM)


async def freeze(client: LogClient, workers: Workers, place: int) -> None:
    """For a moment."""
    workers.signal(place, signal.SIGSTOP)
    await asyncio.sleep(1.0)
    workers.signal(place, signal.SIGCONT)


async def freeze_until_it_is_out(client: LogClient, workers: Workers, place: int) -> None:
    """The others go on without it, and have its partitions, before it may move again."""
    await until_stable(client, len(KINDS))
    workers.signal(place, signal.SIGSTOP)
    await until_stable(client, len(KINDS) - 1)
    workers.signal(place, signal.SIGCONT)
    await until_stable(client, len(KINDS))


async def kill_a_broker(client: LogClient, workers: Workers, place: int) -> None:
    number = random.choice(list(workers.log.brokers))
    workers.log.kill(number)
    await asyncio.sleep(random.uniform(0.5, 2.0))
    workers.log.start(number)
    await asyncio.to_thread(workers.log.brokers[number].await_ready)


FAULTS: list[Fault] = [kill, kill_a_broker, end, freeze, freeze_until_it_is_out]


async def write(client: LogClient, is_over: asyncio.Event) -> int:
    """Numbers, each to the partition that it belongs to, all acknowledged; returns how many."""
    count = 0
    async with Producer(client) as producer:
        while not is_over.is_set():
            written = [
                producer.send(TOPIC, b"%d" % number, partition=number % PARTITIONS)
                for number in range(count, count + PER_TICK)
            ]
            await asyncio.gather(*written)
            count += PER_TICK
            await asyncio.sleep(TICK_S)
    return count


async def until_done(client: LogClient, count: int) -> None:
    async def is_done() -> bool:
        group = await described(client)
        return group is not None and sum(part.committed or 0 for part in group.partitions) == count

    await until_answered(is_done, f"{count} records to be done", PATIENCE_S, pause_s=0.1)


def rounds(log: RealLog, folder: Path, faults: list[tuple[Fault, int]]) -> None:
    async def play(workers: Workers) -> int:
        async with LogClient(log.bootstrap, timeout_ms=120_000) as client:
            is_over = asyncio.Event()
            writing = asyncio.ensure_future(write(client, is_over))
            await until_stable(client, len(KINDS))
            for fault, place in faults:
                await asyncio.sleep(random.uniform(0.5, 2.0))
                await fault(client, workers, place)
                workers.faults[getattr(fault, "__name__", "")] += 1
                await check_commits(client, workers)
            is_over.set()
            count = await writing
            await until_done(client, count)
            return count

    async def make() -> None:
        async with LogClient(log.bootstrap) as client:
            await client.create_topic(TOPIC, PARTITIONS, 3)

    asyncio.run(make())
    workers = Workers(folder, log)
    try:
        count = asyncio.run(play(workers))
    finally:
        workers.stop()
    printed = workers.printed()
    again = printed.total() - len(printed)
    print(f"{count} records, {again} printed again, {len(workers.files)} members, {dict(workers.faults)}")
    print(f"by kind {dict(workers.by_kind())}, commits refused {dict(workers.refusals())}")
    wanted = {(number % PARTITIONS, number // PARTITIONS) for number in range(count)}
    assert wanted - printed.keys() == set()
    assert printed.keys() <= wanted
    assert workers.errors_of_ours() == ""


@pytest.mark.timeout(900)
def test_every_record_is_done_by_somebody(log: RealLog, tmp_path: Path) -> None:
    rounds(log, tmp_path, [(kill, 0), (kill_a_broker, 0), (end, 1), (freeze_until_it_is_out, 1)])


@pytest.mark.slow
@pytest.mark.timeout(3_600)
def test_twenty_rounds(log: RealLog, tmp_path: Path) -> None:
    seed = int(os.environ.get("OCTOLOOM_CHAOS_SEED", random.randrange(10**6)))
    print(f"OCTOLOOM_CHAOS_SEED={seed}")
    random.seed(seed)
    rounds(log, tmp_path, [(fault, random.randrange(len(KINDS))) for fault in random.sample(FAULTS * 4, 20)])
