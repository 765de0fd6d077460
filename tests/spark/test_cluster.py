"""A real cluster: a master and two workers, whose Python has everything installed but this package."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from tests.spark.conftest import MakeTopic
from tests.spark.standalone import standalone

pytestmark = [pytest.mark.spark, pytest.mark.slow]

PARTITIONS = 2
RECORDS = 500

DRIVER = """
import json, os, sys
from octoloom.spark import session

master, bootstrap, topic, checkpoint = sys.argv[1:]

brief = "-XX:TieredStopAtLevel=1"

# First a session on this machine, of which nothing may be left.
config = {"spark.octoloom.mark": "here", "spark.driver.extraJavaOptions": brief}
here = session(master="local[1]", memory="512m", config=config)
mark = here.conf.get("spark.octoloom.mark")
here.stop()

config = {"spark.scheduler.minRegisteredResourcesRatio": "1.0", "spark.sql.shuffle.partitions": "2",
          "spark.executor.extraJavaOptions": brief}
spark = session(master=master, memory="512m", config=config)
options = {"bootstrap": bootstrap, "topic": topic}

def look(batches):
    import pyarrow
    import octoloom
    from octoloom.core.tags import Seen

    seen = Seen()
    for batch in batches:
        new = sum(seen.add(int(value)) for value in batch.column("value").to_pylist())
        said = {"new": new, "package": octoloom.__file__, "place": os.getcwd()}
        yield pyarrow.RecordBatch.from_pylist([said])

read = spark.read.format("octoloom").options(**options).load()
rows = read.mapInArrow(look, "new long, package string, place string").collect()

stream = spark.readStream.format("octoloom").options(**options, startingOffsets="earliest").load()
query = stream.writeStream.format("noop").option("checkpointLocation", checkpoint).trigger(availableNow=True).start()
query.awaitTermination()
streamed = sum(progress["numInputRows"] for progress in query.recentProgress)
print(json.dumps({"mark": mark, "left": spark.conf.get("spark.octoloom.mark", ""), "streamed": streamed,
                  "rows": [row.asDict() for row in rows]}))
spark.stop()
"""


def python_without_octoloom(folder: Path) -> Path:
    """The packages of this Python, but not what their .pth files point at, which is this very checkout."""
    program = folder / "python"
    packages = sysconfig.get_paths()["purelib"]
    program.write_text(f'#!/bin/sh\nPYTHONPATH="$PYTHONPATH:{packages}" exec {sys.executable} -S "$@"\n')
    program.chmod(0o755)
    command = [str(program), "-c", "import pyarrow, octoloom"]
    without = subprocess.run(command, capture_output=True, text=True, check=False, env={})
    assert without.stderr.strip().endswith("No module named 'octoloom'")
    return program


def write(bootstrap: str, topic: str) -> None:
    producer = Producer({"bootstrap.servers": bootstrap})
    for number in range(1, RECORDS + 1):
        for partition in range(PARTITIONS):
            producer.produce(topic, str(number), partition=partition)
    assert producer.flush(60) == 0


def drive(folder: Path, *arguments: str, **environment: str) -> dict[str, Any]:
    ran = subprocess.run(
        [sys.executable, "-c", DRIVER, *arguments],
        capture_output=True,
        text=True,
        check=False,
        cwd=folder,
        env={**os.environ, **environment},
    )
    assert ran.returncode == 0, ran.stderr[-3000:]
    assert ran.stderr == ""
    told: dict[str, Any] = json.loads(ran.stdout)
    return told


def test_executors_of_a_cluster_get_our_package_from_the_driver(
    tmp_path: Path, bootstrap: str, topic: MakeTopic
) -> None:
    name = topic(PARTITIONS)
    write(bootstrap, name)
    with standalone(tmp_path) as cluster:
        python = python_without_octoloom(tmp_path)
        arguments = (cluster.url, bootstrap, name, str(tmp_path / "checkpoint"))
        told = drive(tmp_path, *arguments, PYSPARK_PYTHON=str(python))
        executors = cluster.executors()
    rows = told["rows"]
    assert sum(row["new"] for row in rows) == PARTITIONS * RECORDS
    assert sorted({row["place"] for row in rows}) == [str(place) for place in executors]
    assert len(executors) == 2
    shipped = re.compile(r"\./octoloom-\w+\.zip/octoloom/__init__\.py")
    assert all(shipped.fullmatch(row["package"]) for row in rows), rows
    assert told["streamed"] == PARTITIONS * RECORDS
    assert (told["mark"], told["left"]) == ("here", "")
