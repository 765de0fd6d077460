"""Octoloom on Spark: the log as a source and a sink, and the cores as operators on a stream of records.

Nothing here loads Spark before it is asked for: a program that only names this package starts as fast as before.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from octoloom.spark.operators import causal_order, dedupe, fold, total_order
    from octoloom.spark.sessions import session

__all__ = ["causal_order", "dedupe", "fold", "session", "total_order"]

# No module here has the name of a function: whoever loads a module puts it in the place of the function.
_HOMES = {
    "causal_order": "octoloom.spark.operators",
    "dedupe": "octoloom.spark.operators",
    "fold": "octoloom.spark.operators",
    "session": "octoloom.spark.sessions",
    "total_order": "octoloom.spark.operators",
}


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'octoloom.spark' has no attribute {name!r}")
    return getattr(importlib.import_module(home), name)


def __dir__() -> list[str]:
    return sorted(__all__)
