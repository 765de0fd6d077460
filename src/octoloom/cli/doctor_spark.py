"""What `octoloom spark` needs: Python packages, a Java, memory. Nothing else does, so none of it is ever missing."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil

from octoloom.cli.finding import Finding
from octoloom.spark.java import FIX, JAVA_MIN, candidates

PACKAGES = ("pyspark", "pyarrow", "numpy", "pandas", "protobuf", "matplotlib")
MEMORY_WANTED_MB = 2048
"""Java's heap, and Python workers beside it."""


def examine_spark() -> Iterator[Finding]:
    yield _packages()
    yield _java()
    yield _memory()
    if home := os.environ.get("SPARK_HOME"):
        yield _home(Path(home))


def _packages() -> Finding:
    """The other packages are only worth a word when one is not there."""
    missing = [name for name in PACKAGES if _version(name) is None]
    fix = f"{sys.executable} -m pip install 'octoloom[spark]'"
    if missing:
        detail = f"for `octoloom spark`: {', '.join(missing)} not installed"
        return Finding("Spark", False, detail, fix, needed=False)
    try:
        import pyspark.sql  # noqa: F401
    except Exception as error:
        return Finding("Spark", False, f"pyspark cannot be loaded: {error}", fix, needed=False)
    return Finding("Spark", True, f"{_version('pyspark')}, with pyarrow {_version('pyarrow')}")


def _version(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def _java() -> Finding:
    passed_over: list[str] = []
    for found in candidates(os.environ):
        if found.is_enough:
            too_old = f"; {', '.join(passed_over)}" if passed_over else ""
            return Finding("Java", True, f"{found.version}, from {found.origin}, for Spark{too_old}")
        passed_over.append(f"{found.version} from {found.origin} is too old")
    detail = f"{', '.join(passed_over) or 'none'}; Spark needs {JAVA_MIN} or newer"
    return Finding("Java", False, detail, FIX, needed=False)


def _memory() -> Finding:
    memory = psutil.virtual_memory()
    free_mb = memory.available // (1024 * 1024)
    detail = (
        f"{free_mb / 1024:.1f} GB free of {memory.total / 1024**3:.1f}; Spark wants {MEMORY_WANTED_MB // 1024} free"
    )
    fix = "octoloom spark run … --memory 512m --cores 1, or end what takes the memory"
    return Finding("memory", free_mb >= MEMORY_WANTED_MB, detail, fix, needed=False)


def _home(home: Path) -> Finding:
    """PySpark starts the Spark that SPARK_HOME names, and that may be another one than its own."""
    found = importlib.util.find_spec("pyspark")
    own = Path(found.origin).parent if found is not None and found.origin else None
    ok = own is not None and home.resolve() == own.resolve()
    detail = str(home) if ok else f"{home} is not the Spark that PySpark came with"
    return Finding("SPARK_HOME", ok, detail, "unset SPARK_HOME", needed=False)
