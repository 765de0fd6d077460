"""A stream from one topic to another that does not give up: run as a process, to be killed.

A query that fails begins again from its checkpoint, as whoever runs one in earnest has it.
"""

from __future__ import annotations

import sys
import time

from pyspark.errors import PySparkException

from octoloom.runtime.processes import end_with_parent
from octoloom.spark.failures import short
from octoloom.spark.sessions import session

CONFIG = {
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.sql.shuffle.partitions": "2",
}
TRIES_MAX = 50
PAUSE_S = 0.2


def main(bootstrap: str, source: str, target: str, checkpoint: str, records_per_batch_max: str) -> None:
    end_with_parent()
    # A task is tried four times, as on a cluster.
    spark = session("copy", master="local[2,4]", memory="512m", config=CONFIG)
    options = {"startingOffsets": "earliest", "maxOffsetsPerTrigger": records_per_batch_max}
    for _ in range(TRIES_MAX):
        try:
            frame = spark.readStream.format("octoloom").options(bootstrap=bootstrap, topic=source, **options).load()
            copy = frame.writeStream.format("octoloom").options(bootstrap=bootstrap, topic=target)
            copy.option("checkpointLocation", checkpoint).start().awaitTermination()
        except PySparkException as error:
            print("again:", short(error), flush=True)
            time.sleep(PAUSE_S)


if __name__ == "__main__":
    main(*sys.argv[1:])
