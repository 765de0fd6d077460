"""A topic as a table: what is archived through Spark's own reader of Parquet, and the rest from the log.

    frame = topic_table(spark, "moves", archive="/data/archive", bootstrap="127.0.0.1:9092")

The source reads archives too, but whatever a Python source gives travels through a socket and becomes a row at a time.
Spark's own reader does neither, and prunes the columns that a query does not use. This is the quickest way to read a
long history once; a stream, or a range of offsets, is for the source.

The table is what there is when it is made: files that the manifest names, each of them whole, and offsets from where
they end to where the log ends. What is archived or removed later does not change it, as long as the files stay.
"""

from __future__ import annotations

import json
import logging
import os
from typing import TYPE_CHECKING

from octoloom.spark.archive import Archive
from octoloom.spark.archive_manifest import Piece, folder_of
from octoloom.spark.fetching import OffsetsGone, Reader
from octoloom.spark.ranges import Range
from octoloom.spark.record_batches import SPARK_SCHEMA

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

VERIFY = "parquet.page.verify-checksum.enabled"

_log = logging.getLogger(__name__)


def topic_table(
    spark: SparkSession, topic: str, archive: str, bootstrap: str = "", *, fails_on_data_loss: bool = True
) -> DataFrame:
    """All records of a topic, with the columns of the source. Without `bootstrap` only what is archived."""
    files, ends = _plan(topic, archive, bootstrap, fails_on_data_loss)
    frames = []
    if files:
        frames.append(spark.read.schema(SPARK_SCHEMA).option(VERIFY, "true").parquet(*files))
    if ends:
        frames.append(_rest(spark, topic, bootstrap, ends))
    if not frames:
        return spark.createDataFrame([], SPARK_SCHEMA)
    return frames[0] if len(frames) == 1 else frames[0].union(frames[1])


def _plan(
    topic: str, directory: str, bootstrap: str, fails_on_data_loss: bool
) -> tuple[list[str], dict[int, tuple[int, int]]]:
    """The files to read, and for each partition the offsets behind them."""
    archive = Archive(directory, Reader(bootstrap) if bootstrap else None)
    try:
        places = [(topic, number) for number in archive.partitions(topic)]
        bounds = archive.bounds(places)
        manifest = archive.manifest(topic)
    finally:
        archive.close()
    files: list[str] = []
    rest: dict[int, tuple[int, int]] = {}
    for place, (first, high) in bounds.items():
        pieces = manifest.pieces(place[1], first, high) if manifest is not None else [Piece(first, high, None)]
        for piece in pieces:
            if piece.file is not None:
                files.append(os.path.abspath(os.path.join(folder_of(directory, topic), piece.file.name)))
            elif piece is pieces[-1] and piece.start < piece.end:
                rest[place[1]] = piece.start, piece.end
            elif piece.start < piece.end:
                # An archiver leaves a gap only where the log had lost the records before.
                gone = OffsetsGone(Range(*place, piece.start, piece.end), piece.end, high)
                if fails_on_data_loss:
                    raise gone
                _log.warning("data loss: %s", gone)
    return files, rest


def _rest(spark: SparkSession, topic: str, bootstrap: str, ends: dict[int, tuple[int, int]]) -> DataFrame:
    starts = {str(number): start for number, (start, _) in ends.items()}
    stops = {str(number): end for number, (_, end) in ends.items()}
    reader = spark.read.format("octoloom").option("bootstrap", bootstrap)
    reader = reader.option("assign", json.dumps({topic: sorted(ends)}))
    reader = reader.option("startingOffsets", json.dumps({topic: starts}))
    return reader.option("endingOffsets", json.dumps({topic: stops})).load()
