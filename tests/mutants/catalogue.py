"""All bugs that are planted, by room."""

from __future__ import annotations

from tests.mutants.chain import CHAIN
from tests.mutants.log import LOG
from tests.mutants.mutant import Mutant
from tests.mutants.runtime import RUNTIME
from tests.mutants.storage import STORAGE

ROOMS: dict[str, tuple[Mutant, ...]] = {
    "chain": CHAIN,
    "log": LOG,
    "runtime": RUNTIME,
    "storage": STORAGE,
}
