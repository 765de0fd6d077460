"""What `octoloom doctor` found out about one thing."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Finding:
    what: str
    ok: bool
    detail: str
    fix: str = ""
    needed: bool = True
    """Whether nothing works without it; otherwise it is a limit that some will never meet."""
