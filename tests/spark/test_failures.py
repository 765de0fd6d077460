"""Pages of Spark's errors, cut down to what a person wants to read. The texts are Spark's own, shortened."""

from __future__ import annotations

import pytest

from octoloom.core.errors import UsageError
from octoloom.spark.failures import SparkFailed, as_ours, short

PLANNING = """[PYTHON_DATA_SOURCE_ERROR] Failed to create it: Traceback (most recent call last):
  File "game.py", line 11, in schema
    raise UsageError("no topic")
    ^^^^^^^^^^^^^^^^^^^^^^^^^^^^
octoloom.core.errors.UsageError: no topic named: give one
with the option topic
 SQLSTATE: 38000"""
STREAM = """[STREAM_FAILED] Query [id = 0caa] terminated: [PYTHON_X] Failed: Traceback (most recent call last):
  File "game.py", line 28, in initialOffset
    raise ProtocolError("x", "y")
octoloom.core.errors.ProtocolError: x: offsets are gone
 SQLSTATE: 38000 SQLSTATE: XXKST
=== Streaming Query ===
Identifier: [id = 0caa]
Current Committed Offsets: {}"""
CHAINED = """An exception was thrown from the Python worker:
Traceback (most recent call last):
  File "game.py", line 1, in first
KeyError: 'b4'

During handling of the above exception, another exception occurred:

Traceback (most recent call last):
  File "game.py", line 2, in second
game.errors.Broken
"""
JAVA = """An error occurred while calling o252.load.
: org.apache.spark.SparkClassNotFoundException: [DATA_SOURCE_NOT_FOUND] Failed to find it. SQLSTATE: 42K02
\tat org.apache.spark.sql.errors.QueryExecutionErrors$.dataSourceNotFoundError(QueryExecutionErrors.scala:770)"""
COLUMN = """[UNRESOLVED_COLUMN.WITH_SUGGESTION] `foo` cannot be resolved. Did you mean [`id`]. SQLSTATE: 42703;
'Project ['foo]"""


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (PLANNING, "no topic named: give one with the option topic"),
        (STREAM, "x: offsets are gone"),
        (CHAINED, "Broken"),
        (JAVA, "SparkClassNotFoundException: Failed to find it."),
        (COLUMN, "`foo` cannot be resolved. Did you mean [`id`]."),
        ('For input string: "x"', 'For input string: "x"'),
        ("", "ValueError"),
        ("x" * 5000, "x" * 600),
    ],
    ids=["planning", "stream", "chained", "java", "column", "plain", "empty", "long"],
)
def test_the_reason_is_what_remains(text: str, says: str) -> None:
    assert short(ValueError(text)) == says


def test_a_callers_fault_there_is_a_callers_fault_here() -> None:
    assert type(as_ours(ValueError(PLANNING))) is UsageError
    assert type(as_ours(ValueError(STREAM))) is SparkFailed
    assert type(as_ours(ValueError(JAVA))) is SparkFailed
    unknown = PLANNING.replace("octoloom.core.errors.UsageError", "octoloom.no_such_module.UsageError")
    assert type(as_ours(ValueError(unknown))) is SparkFailed
    assert str(as_ours(ValueError(unknown))) == "no topic named: give one with the option topic"
