"""The shared-cells game, as an app of ours: `put {x}` sets the sender's cell, and everybody sees all cells.

`OCTOLOOM_CELLS_PRELOAD` is a number of bytes that the state holds beside the cells, to see what a large state costs.
"""

from __future__ import annotations

import os
from typing import Any

from octoloom.core.app import App, AppEvent

PRELOAD = "OCTOLOOM_CELLS_PRELOAD"
ENTRY_SIZE = 23


def ballast(size: int) -> dict[str, Any]:
    """Many small objects whose JSON text has about `size` bytes."""
    return {f"c{number:06}": {"by": f"p{number % 50:02}"} for number in range(size // ENTRY_SIZE)}


app = App("cells", state={"cells": {}, "ballast": ballast(int(os.environ.get(PRELOAD, "0")))})


@app.on("put")
def put(state: Any, event: AppEvent) -> None:
    state["cells"][event.device] = event.payload["x"]
