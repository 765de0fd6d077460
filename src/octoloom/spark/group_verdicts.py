"""Groups, audited from the steps of their members: a group is in one task, as a whole.

Steps come from files (`Group.join(trace="room.steps")`) or from a topic (`runtime/step_topic.py`). They do not say
which group they are of; so a group is what was named together: some files, or a topic. Each member's steps are taken in
the order in which they stand in their file, or in their partition of the topic.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from octoloom.core.errors import UsageError
from octoloom.core.findings import Findings
from octoloom.core.group_audit import GroupVerdict, audit_group
from octoloom.core.steps import Step
from octoloom.runtime.step_file import LINE_BYTES_MAX, STEPS_MAX
from octoloom.spark import failures

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

GROUPS_MAX = 10_000


class Line(NamedTuple):
    """A step as it stands; `place` says where, for people."""

    text: bytes | None
    place: str


def judge_lines(group: str, lines: Iterable[Line]) -> GroupVerdict:
    """The verdict of a group. Lines that are no steps are findings."""
    bad, steps = Findings(group), list[Step]()
    decode = msgspec.json.Decoder(Step).decode
    for line in lines:
        if len(steps) >= STEPS_MAX:
            raise UsageError(
                f"{group} has more than {STEPS_MAX:,} steps, and a group is judged as a whole: cut its trace"
            )
        try:
            step = decode(line.text or b"")
            if not step.name or not step.member:
                raise msgspec.DecodeError("its name or its member is empty")
            steps.append(step)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            bad.add("unreadable", f"{line.place}: this is no step of a group: {error}")
    verdict = audit_group(group, steps)
    verdict.counts = {**bad.counts, **verdict.counts}
    verdict.findings = [*bad.kept, *verdict.findings]
    return verdict


# From files.


def file_verdicts(spark: SparkSession, groups: Mapping[str, Sequence[str | Path]]) -> list[GroupVerdict]:
    """A verdict for each group, from the files of its members. They are read where the executors run."""
    if len(groups) > GROUPS_MAX:
        raise UsageError(f"at most {GROUPS_MAX:,} groups at a time, not {len(groups):,}")
    rows = [(group, [str(Path(path).absolute()) for path in paths]) for group, paths in groups.items()]
    for _, paths in rows:
        for path in paths:
            if not Path(path).is_file():
                raise UsageError(f"there is no trace {path}: name files that `trace=` has written")
    with failures.told():
        frame = spark.createDataFrame(rows, "group string, paths array<string>").repartition(len(rows))
        return _decoded(frame.mapInArrow(_file_task, "report string"))


def _file_task(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for rows in batches:
        yield _encoded(judge_lines(row["group"], _file_lines(row["paths"])) for row in rows.to_pylist())


def _file_lines(paths: Iterable[str]) -> Iterator[Line]:
    for path in paths:
        with open(path, "rb") as file:
            number = 0
            while line := file.readline(LINE_BYTES_MAX + 1):
                number += 1
                # Only the last line may be torn, by a writer that was killed.
                is_torn = not line.endswith(b"\n") and len(line) <= LINE_BYTES_MAX and not _is_json(line)
                if line.strip() and not is_torn:
                    yield Line(line, f"{path}, line {number}")


def _is_json(line: bytes) -> bool:
    try:
        msgspec.json.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return False
    return True


# From topics.


def topic_verdicts(frame: DataFrame) -> list[GroupVerdict]:
    """A verdict for each topic in the frame, which has the columns of the source: the topic is the group."""
    columns = ("topic", "partition", "offset", "value")
    rows = frame.select(*columns).repartition("topic").sortWithinPartitions(*columns[:3])
    with failures.told():
        return _decoded(rows.mapInArrow(_topic_task, "report string"))


def _topic_task(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    verdicts: list[GroupVerdict] = []
    waiting: list[Line] = []
    current: str | None = None
    for rows in batches:
        columns = (rows[name].to_pylist() for name in ("topic", "partition", "offset", "value"))
        for topic, partition, offset, value in zip(*columns, strict=True):
            if topic != current and current is not None:
                verdicts.append(judge_lines(current, waiting))
                waiting = []
            current = topic
            if len(waiting) <= STEPS_MAX:
                waiting.append(Line(value, f"{topic}-{partition} at offset {offset}"))
    if current is not None:
        verdicts.append(judge_lines(current, waiting))
    yield _encoded(verdicts)


def _encoded(verdicts: Iterable[GroupVerdict]) -> pa.RecordBatch:
    import pyarrow as pa

    texts = [msgspec.json.encode(verdict).decode() for verdict in verdicts]
    return pa.RecordBatch.from_pydict({"report": pa.array(texts, pa.string())})


def _decoded(frame: DataFrame) -> list[GroupVerdict]:
    verdicts = [msgspec.json.decode(row["report"], type=GroupVerdict) for row in frame.collect()]
    return sorted(verdicts, key=lambda verdict: verdict.group)
