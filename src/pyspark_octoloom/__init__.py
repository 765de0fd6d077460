"""Spark looks into every module whose name begins with `pyspark_` for a `DefaultSource`: this one has the log."""

from octoloom.spark.source import OctoloomSource as DefaultSource

__all__ = ["DefaultSource"]
