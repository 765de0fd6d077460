"""The options of the sink, with the names of Spark's Kafka sink, read and checked once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from octoloom.core.errors import UsageError
from octoloom.spark.options import Given
from octoloom.wire.kafka.compression import number_of

TIMEOUT_MS = 120_000
"""How long a batch may take to be acknowledged: longer than brokers take to come back."""
TIMEOUT_MS_MAX = 24 * 3600 * 1000
ID_MAX = 1000

SINK_OPTIONS = (
    "bootstrap",
    "kafka.bootstrap.servers",
    "topic",
    "compression.type",
    "kafka.compression.type",
    "kafka.acks",
    "kafka.enable.idempotence",
    "sort",
    "writeId",
    "timeoutMs",
    "includeHeaders",
)


@dataclass(frozen=True, slots=True)
class SinkOptions:
    bootstrap: str
    topic: str | None = None
    """For every row; without it the column says it."""
    codec: str = "none"
    write_id: str | None = None
    """What a rerun is known by, instead of the id of the query or of one write."""
    sorts: bool = False
    """Whether the rows of a task are sorted first, so that their order is the same in a rerun behind a shuffle."""
    timeout_ms: int = TIMEOUT_MS


def sink_options(given: Mapping[str, str]) -> SinkOptions:
    """All options of the sink, checked. No broker is asked."""
    options = Given(given, SINK_OPTIONS, "the octoloom sink")
    if not options.bootstrap:
        raise UsageError("the octoloom sink does not know where to write: set bootstrap, as in 127.0.0.1:9092")
    if options.text("kafka.acks", "all").lower() not in ("all", "-1"):
        raise UsageError("the octoloom sink always waits for all replicas: leave kafka.acks out")
    if not options.flag("kafka.enable.idempotence", True):
        raise UsageError("the octoloom sink always writes once: leave kafka.enable.idempotence out")
    if "topic" in options and not options.text("topic"):
        raise UsageError("topic is empty: name one, or leave it out and have a column topic")
    write_id = options.text("writeId")
    if "writeId" in options and not 0 < len(write_id) <= ID_MAX:
        raise UsageError(f"writeId has {len(write_id)} characters: write 1 to {ID_MAX}, or leave it out")
    codec = options.text(options.one_of("compression.type", "kafka.compression.type") or "", "none").lower()
    number_of(codec)
    return SinkOptions(
        bootstrap=options.bootstrap,
        topic=options.text("topic") or None,
        codec=codec,
        write_id=write_id or None,
        sorts=options.flag("sort", False),
        timeout_ms=options.number("timeoutMs", 1, TIMEOUT_MS_MAX) or TIMEOUT_MS,
    )
