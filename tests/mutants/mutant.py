"""What one planted bug is, and how it gets into a source tree."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

PROJECT = Path(__file__).parents[2]


class DoesNotApplyError(Exception):
    """The code has changed: the catalogue has to follow."""


@dataclass(frozen=True, slots=True)
class Mutant:
    name: str
    promise: str
    """What users were promised, and no longer get."""
    file: str
    """Below `src/octoloom`."""
    old: str
    """Stands in the file exactly once."""
    new: str
    notices: str
    """Who should notice: pytest's arguments, or `simulate chain 300` for a search through so many seeds."""
    survives: str = ""
    """Why nobody can notice, if that is so: then it does not count."""

    def planted(self, source: str) -> str:
        """The file's text with the bug in it."""
        found = source.count(self.old)
        if found != 1:
            raise DoesNotApplyError(f"{self.name}: {self.file} holds the old text {found} times, not once")
        return source.replace(self.old, self.new)

    def read(self, root: Path = PROJECT) -> str:
        return (root / "src" / "octoloom" / self.file).read_text()
