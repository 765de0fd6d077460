"""What went wrong in Spark, in a line.

An error of a query comes as pages: Java's stack, Scala's stack, and somewhere between them the Python traceback of a
worker, whose last lines are what a person wants to read. Errors that this package raises on purpose on an executor are
told as if they had been raised here: a caller's fault there is a caller's fault here.
"""

from __future__ import annotations

import contextlib
import importlib
import re
from collections.abc import Iterator

from octoloom.core.errors import OctoloomError, UsageError

TRACEBACK = "Traceback (most recent call last):"
RAISED = re.compile(r"((?:[A-Za-z_]\w*\.)*[A-Za-z_]\w*)(?:: (.*))?")
END = re.compile(r"\s+SQLSTATE: |=== |\s+at |JVM stacktrace|$")
"""Where Spark goes on after what was raised."""
CODES = re.compile(r"\[[A-Z_.0-9]+\]\s*|\s*SQLSTATE: \w+;?$")
"""Spark's names for its errors are for programs."""
JAVA_PATH = re.compile(r"^(?:[a-z]\w*\.)+(?=[A-Z])")
OURS = "octoloom."
TEXT_MAX = 600


class SparkFailed(OctoloomError):  # noqa: N818
    """Spark could not be started, or a query failed; the text says why, in a line or two."""


@contextlib.contextmanager
def told() -> Iterator[None]:
    """What Spark raises within becomes an error of ours, with the reason as its text."""
    from py4j.protocol import Py4JError  # type: ignore[import-untyped]
    from pyspark.errors import PySparkException

    try:
        yield
    except (PySparkException, Py4JError) as error:
        raise as_ours(error) from error


def as_ours(error: BaseException) -> OctoloomError:
    name, _ = _raised(str(error))
    kind = UsageError if name.startswith(OURS) and _is_usage(name) else SparkFailed
    return kind(short(error))


def short(error: BaseException) -> str:
    """The reason, without stacks."""
    name, text = _raised(str(error))
    if name:
        brief = name.rpartition(".")[2]
        return text if name.startswith(OURS) and text else f"{brief}: {text}" if text else brief
    lines = [line.strip() for line in str(error).split("\n") if line.strip()]
    from_java = [line.removeprefix(": ") for line in lines if line.startswith(": ")]
    first = next(iter([*from_java, *lines]), type(error).__name__)
    return CODES.sub("", JAVA_PATH.sub("", first))[:TEXT_MAX]


def _raised(text: str) -> tuple[str, str]:
    """The name and the text of the exception at the end of the last Python traceback; empty if there is none."""
    _, traceback, block = text.rpartition(TRACEBACK)
    lines = block.split("\n")[1:] if traceback else []
    for number, line in enumerate(lines):
        found = RAISED.fullmatch(line)
        if found is None:
            continue
        said = [found.group(2) or ""]
        for more in lines[number + 1 :]:
            if END.match(more):
                break
            said.append(more.strip())
        return found.group(1), CODES.sub("", " ".join(said).strip())[:TEXT_MAX]
    return "", ""


def _is_usage(name: str) -> bool:
    module, _, kind = name.rpartition(".")
    try:
        found = getattr(importlib.import_module(module), kind, None)
    except ImportError:
        return False
    return isinstance(found, type) and issubclass(found, UsageError)
