"""Real chains for pages: `octoloom up` as a process of its own, on free ports."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.browser.site import ROOT

PATIENCE_S = 60.0


@contextmanager
def served(app: str, folder: Path) -> Iterator[str]:
    """A chain of one link that serves `app`; its url."""
    command = [sys.executable, "-m", "octoloom", "up", app, "--brokers", "0", "--ephemeral-ports", "--data"]
    command.append(str(folder / "data"))
    up = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        assert up.stdout is not None
        line = up.stdout.readline()
        found = re.search(r"ws://\S+", line)
        assert found is not None, line + up.stdout.read()
        yield found[0]
    finally:
        up.terminate()
        up.communicate(timeout=PATIENCE_S)
