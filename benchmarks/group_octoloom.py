"""Our group: a register as `octoloom register` runs it, and members as processes that use the public `Group`.

Members are connected over TCP. No timer holds a message back, so there is nothing to switch off where nothing is to be
bundled: what an application sends within one turn goes together, and a lone message goes at once.
"""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

from group_members import DrivenGroup
from servers import HOST, Servers

MEMBER = Path(__file__).parent / "group_member.py"


def missing() -> str | None:
    if hasattr(importlib.import_module("octoloom"), "Group"):
        return None
    return "this octoloom has no Group yet: take a newer one"


class Octoloom(DrivenGroup):
    name = "octoloom"

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._register: Servers | None = None

    def start(self, members: int, bundled: bool) -> None:
        self.close()
        self.starts += 1
        folder = self.folder / f"register{self.starts}"
        self._register = Servers(folder)
        where = ["--host", HOST, "--port", "0", "--data", str(folder / "data")]
        self._register.start("register", [sys.executable, "-m", "octoloom", "register", *where])
        address = self._register.facts(0)["address"]
        for number in range(members):
            self.members.join([sys.executable, str(MEMBER), "--number", str(number), "--register", address])
        self.members.until_whole()

    def close(self) -> None:
        super().close()
        if self._register is not None:
            self._register.stop()
            self._register = None
