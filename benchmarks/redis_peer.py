"""Redis Streams, as quick as its Python client goes: the second peer of our log.

Every server appends to a file. With three replicas a primary has two followers, and every pipeline ends with `WAIT 2`.
The client is redis-py with hiredis. Two connections take turns, so the server works while the client packs the next
pipeline of 1,000 commands. Rewriting of the append-only file is off, which spares Redis a part of its work.

`appendfsync always` syncs before an answer, `everysec` in the background. WAIT says that the followers have received a
write. That they have synced it cannot be asked before Redis 7.2, so here it is not asked.
"""

from __future__ import annotations

import shutil
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import redis

from log_case import SINGLE_WINDOW, Load, LogError, Meter, Pace, Setup
from servers import HOST, Servers, free_ports

INSTALL = "apt-get install redis-server"
START_S_MAX = 60.0
WAIT_MS = 30_000
DEPTHS = {"batched": 1_000, "blobs": 16, "single": SINGLE_WINDOW}
CONNECTIONS = {"batched": 2, "blobs": 2, "single": 1}
READ_COUNTS = {"batched": 1_000, "blobs": 64, "single": 1_000}
FSYNC = {"os": "everysec", "always": "always"}
VALUE = b"v"


def program() -> str | None:
    return shutil.which("redis-server")


def version() -> str:
    said = subprocess.run([str(program()), "--version"], capture_output=True, text=True, check=True).stdout
    return said.split("v=")[-1].split()[0]


def entries_of(answer: Any) -> list[tuple[bytes, dict[bytes, bytes]]]:
    """The client's types allow for settings that are not ours."""
    assert isinstance(answer, list)
    return answer


class Redis:
    def __init__(self, setup: Setup, folder: Path) -> None:
        self.setup = setup
        self._servers = Servers(folder)
        self._ports = free_ports(setup.replicas)

    @property
    def pids(self) -> list[int]:
        return self._servers.pids

    # The processes.

    def start(self) -> None:
        for number, port in enumerate(self._ports):
            folder = self._servers.folder / str(number)
            folder.mkdir()
            settings = {
                "port": str(port),
                "bind": HOST,
                "dir": str(folder),
                "appendonly": "yes",
                "appendfsync": FSYNC[self.setup.sync],
                "save": '""',
                "auto-aof-rewrite-percentage": "0",
                "repl-diskless-sync-delay": "0",
                "repl-backlog-size": "64mb",
                "client-output-buffer-limit": "replica 0 0 0",
            }
            if number:
                settings["replicaof"] = f"{HOST} {self._ports[0]}"
            config = folder / "redis.conf"
            config.write_text("\n".join(f"{name} {value}" for name, value in settings.items()))
            self._servers.start(f"r{number}", [str(program()), str(config)])

    def until_ready(self) -> None:
        deadline = time.monotonic() + START_S_MAX
        while not self._is_whole():
            self._servers.check()
            if time.monotonic() > deadline:
                raise LogError(f"Redis has not all replicas after {START_S_MAX:.0f} s")
            time.sleep(0.05)

    def _is_whole(self) -> bool:
        try:
            said = self._connect().info("replication")
        except redis.ConnectionError:
            return False
        assert isinstance(said, dict)
        followers = [said.get(f"slave{number}", {}) for number in range(self.setup.replicas - 1)]
        return all(follower.get("state") == "online" for follower in followers)

    def stop(self) -> None:
        self._servers.stop()

    def _connect(self) -> redis.Redis:
        return redis.Redis(HOST, self._ports[0])

    def make(self, topic: str) -> None:
        """A stream is there with its first record."""

    def drop(self, topic: str) -> None:
        self._connect().delete(topic)

    # Runs.

    def produce(self, topic: str, load: Load, meter: Meter) -> int:
        senders = [self._sender(topic, load, DEPTHS[load.way]) for _ in range(CONNECTIONS[load.way])]
        self._sender(topic, Load(load.size, "single", 0), 1)()
        sent: list[int] = []
        failures: list[Exception] = []
        end = 0.0

        def run(send: Callable[[], int]) -> None:
            try:
                while time.perf_counter() < end:
                    sent.append(send())
            except (redis.RedisError, LogError) as error:
                failures.append(error)

        threads = [threading.Thread(target=run, args=(send,)) for send in senders]
        meter.start()
        end = time.perf_counter() + load.seconds
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        meter.stop()
        if failures:
            raise LogError(str(failures[0])) from failures[0]
        return sum(sent)

    def _sender(self, topic: str, load: Load, depth: int) -> Callable[[], int]:
        """Sends `depth` messages in one pipeline, and returns when all of them are where they should be."""
        pipeline = self._connect().pipeline(transaction=False)
        followers = self.setup.replicas - 1
        pipeline.ping()
        pipeline.execute()

        def send() -> int:
            for message in load.messages(depth):
                pipeline.xadd(topic, {VALUE: message})
            if followers:
                pipeline.wait(followers, WAIT_MS)
            answers = pipeline.execute()
            if followers and answers[-1] < followers:
                raise LogError(f"{answers[-1]} of {followers} followers have received the records")
            return depth

        return send

    def consume(self, topic: str, load: Load, messages: int, meter: Meter) -> int:
        client = self._connect()
        # The first record was for the connection and is not counted.
        last = entries_of(client.xrange(topic, count=1))[0][0]
        got = records = 0
        meter.start()
        while got < messages:
            entries = entries_of(client.xrange(topic, b"(" + last, count=READ_COUNTS[load.way]))
            if not entries:
                raise LogError(f"{messages - got} messages are not there")
            got += len(entries)
            last = entries[-1][0]
            records += load.look_at([fields[VALUE] for _, fields in entries])
        meter.stop()
        return records

    def latencies(self, topic: str, record: bytes, count: int) -> list[float]:
        send = self._sender(topic, Load(len(record), "single", 0), 1)
        send()
        found, pace = [], Pace()
        for _ in range(count):
            time.sleep(pace.pause_s())
            start = time.perf_counter()
            send()
            found.append(time.perf_counter() - start)
        return found
