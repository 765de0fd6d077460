"""Benchmarks are scripts beside the package. Their modules are found as the scripts find them."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
