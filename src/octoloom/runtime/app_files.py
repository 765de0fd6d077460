"""The files that an app's code consists of, and whether they have changed: its own, and those beside it."""

from __future__ import annotations

import importlib.util
from pathlib import Path

from octoloom.core.errors import UsageError

FILES_MAX = 1000


class AppFiles:
    def __init__(self, target: str) -> None:
        self._folder = _file_of(target).resolve().parent
        self._seen = self._look()

    def changed(self) -> bool:
        """Whether something was written, added or removed since the last time this was asked."""
        before, self._seen = self._seen, self._look()
        return before != self._seen

    def _look(self) -> dict[str, int]:
        files = sorted(self._folder.glob("*.py"))[:FILES_MAX]
        return {file.name: stamp for file in files if (stamp := _stamp(file))}


def _stamp(file: Path) -> int:
    try:
        return file.stat().st_mtime_ns
    except OSError:
        return 0


def _file_of(target: str) -> Path:
    """Where the module that `target` names lies, without running it."""
    place = target.partition(":")[0]
    if place.endswith(".py"):
        if not Path(place).is_file():
            raise UsageError(f"there is no file {place}: check the path, it is relative to {Path.cwd()}")
        return Path(place)
    beside = Path(*place.split(".")).with_suffix(".py")
    if beside.is_file():
        return beside
    try:
        spec = importlib.util.find_spec(place)
    except (ImportError, ValueError):
        spec = None
    if spec is None or spec.origin is None:
        raise UsageError(f"there is no module {place!r}: check the name, or name a file as in path/to/file.py:app")
    return Path(spec.origin)
