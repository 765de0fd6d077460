"""All bugs that are planted, by room."""

from __future__ import annotations

from tests.mutants.audits import AUDITS
from tests.mutants.chain import CHAIN
from tests.mutants.consumers import CONSUMERS
from tests.mutants.group import GROUP
from tests.mutants.log import LOG
from tests.mutants.mutant import Mutant
from tests.mutants.runtime import RUNTIME
from tests.mutants.spark import SPARK
from tests.mutants.storage import STORAGE
from tests.mutants.wire import WIRE

ROOMS: dict[str, tuple[Mutant, ...]] = {
    "chain": CHAIN,
    "log": LOG,
    "consumers": CONSUMERS,
    "group": GROUP,
    "storage": STORAGE,
    "wire": WIRE,
    "runtime": RUNTIME,
    "audits": AUDITS,
    "spark": SPARK,
}
