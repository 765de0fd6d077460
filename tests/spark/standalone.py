"""A Spark cluster as real processes from the pip package, on loopback: a master, workers, and their executors.

Workers begin with a clean path: what their executors can import of ours is what a driver ships to them.
"""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import psutil
import pyspark

from octoloom.spark import java
from octoloom.spark.masters import MASTER_CLASS
from octoloom.spark.sessions import BRIEF
from tests.waiting import until

WORKER_CLASS = "org.apache.spark.deploy.worker.Worker"
SPARK_CLASS = Path(pyspark.__file__).parent / "bin" / "spark-class"
STOP_S = 10.0


class Standalone:
    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._processes: list[subprocess.Popen[bytes]] = []
        self._environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "PYSPARK"))},
            "JAVA_HOME": str(java.java().home),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_DAEMON_MEMORY": "256m",
            "SPARK_DAEMON_JAVA_OPTS": BRIEF,
            "SPARK_LAUNCHER_OPTS": BRIEF,
        }
        log = self._start("master", MASTER_CLASS, "--host", "127.0.0.1", "--port", "0", "--webui-port", "0")
        self.url = self._said(log, r"Starting Spark master at (spark://\S+)")

    def add_worker(self, name: str, cores: int = 1) -> None:
        place = ["--work-dir", str(self._folder / name), "--host", "127.0.0.1", "--webui-port", "0"]
        self._start(name, WORKER_CLASS, *place, "--cores", str(cores), "--memory", "1g", self.url)

    def await_worker(self, name: str) -> None:
        self._said(self._folder / f"{name}.log", r"Successfully registered with (master)")

    def executors(self) -> list[Path]:
        """The directories that executors have worked in, by which they are known."""
        return sorted(path for path in self._folder.glob("worker*/app-*/*") if path.is_dir())

    def _start(self, name: str, *command: str) -> Path:
        log = self._folder / f"{name}.log"
        with log.open("ab") as file:
            process = subprocess.Popen(
                [str(SPARK_CLASS), *command],
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=file,
                env=self._environment,
                cwd=self._folder,
                start_new_session=True,
            )
        self._processes.append(process)
        return log

    def _said(self, log: Path, pattern: str) -> str:
        def said() -> re.Match[str] | None:
            return re.search(pattern, log.read_text(errors="replace"))

        try:
            found = until(said, f"{pattern} in {log.name}", pause_s=0.05)
        except AssertionError as error:
            error.add_note(log.read_text(errors="replace")[-2000:])
            raise
        assert found is not None
        return found.group(1)

    def stop(self) -> None:
        """Workers first, so that they end their executors; whoever is left is killed, each by its number."""
        left = [child for process in self._processes for child in _family(process.pid)]
        for process in reversed(self._processes):
            process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(STOP_S)
        for child in left:
            with contextlib.suppress(psutil.NoSuchProcess):
                child.kill()
        for process in self._processes:
            process.kill()
            process.wait()


def _family(pid: int) -> list[psutil.Process]:
    with contextlib.suppress(psutil.NoSuchProcess):
        return psutil.Process(pid).children(recursive=True)
    return []


@contextlib.contextmanager
def standalone(folder: Path, workers: int = 2) -> Iterator[Standalone]:
    cluster = Standalone(folder)
    try:
        names = [f"worker{number}" for number in range(1, workers + 1)]
        for name in names:
            cluster.add_worker(name)
        for name in names:
            cluster.await_worker(name)
        yield cluster
    finally:
        cluster.stop()
