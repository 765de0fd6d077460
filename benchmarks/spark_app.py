"""The reducer that is folded: each device has a cell, `put {x}` sets it, and moves are counted."""

from __future__ import annotations

from typing import Any

from octoloom.core.app import App, AppEvent

app = App("spark-cells", state={"moves": 0, "cells": {}})


@app.on("put")
def put(state: Any, event: AppEvent) -> None:
    state["cells"][event.device] = event.payload["x"]
    state["moves"] += 1
