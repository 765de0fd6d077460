"""What went wrong in Spark, in a line.

An error of a query comes as pages: Java's stack, Scala's stack, and somewhere between them the Python traceback of a
worker, whose last line is what a person wants to read. Errors that this package raises on purpose on an executor are
told as if they had been raised here.
"""

from __future__ import annotations

import re

TRACEBACK = "Traceback (most recent call last):"
RAISED = re.compile(r"^((?:[A-Za-z_]\w*\.)*[A-Za-z_]\w*)(?:: (.*))?$")
OURS = "octoloom."
LINE_MAX = 400


def short(error: BaseException) -> str:
    """The reason, without stacks."""
    text = str(error)
    if TRACEBACK in text:
        return _raised(text)[:LINE_MAX]
    lines = [line.strip() for line in text.split("\n") if line.strip()]
    java = [line for line in lines if line.startswith(": ")]
    first = java[0].removeprefix(": ") if java else (lines[0] if lines else type(error).__name__)
    return re.sub(r"^(?:[a-z]\w*\.)+(?=[A-Z])", "", _without_codes(first))[:LINE_MAX]


def _raised(text: str) -> str:
    """The last line of the last traceback; a name of ours is left out, its text stands for itself."""
    block = text.rpartition(TRACEBACK)[2].split("\n")
    for line in block[1:]:
        if line[:1].isspace() or not line:
            continue
        found = RAISED.match(line)
        if found is None:
            continue
        name, said = found.group(1), found.group(2) or ""
        if name.startswith(OURS) and said:
            return _without_codes(said)
        return f"{name.rpartition('.')[2]}: {_without_codes(said)}" if said else name.rpartition(".")[2]
    return _without_codes(text.split("\n")[0])


def _without_codes(line: str) -> str:
    """Spark's names for its errors are for programs."""
    return re.sub(r"\s*SQLSTATE: \w+$", "", re.sub(r"^\[[A-Z_.0-9]+\]\s*", "", line.strip()))
