"""What a cluster on this machine shall consist of, as whoever starts it wants it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from octoloom.core.errors import UsageError
from octoloom.core.journal import Durability
from octoloom.runtime.broker_settings import SYNC_ALWAYS


@dataclass(frozen=True, slots=True)
class Plan:
    """What to run. A port of 0 is any free one; links and brokers listen on their first port and those that follow."""

    data: Path
    app: str
    replicas: int = 1
    chains: int = 1
    host: str = "127.0.0.1"
    register_port: int = 7070
    device_port: int = 7080
    brokers: int | None = None
    """None is as many as replicas."""
    broker_port: int = 9092
    durability: Durability | None = None
    """None is the chain's, with the journal behind it, where there are brokers."""
    sync: str = SYNC_ALWAYS

    def __post_init__(self) -> None:
        if self.broker_count == 0 and self.journal is not Durability.NONE:
            text = f"durability {self.journal.value!r} needs a journal, and a journal needs brokers"
            raise UsageError(f"{text}: start at least one with --brokers, or choose --durability none")

    @property
    def logs(self) -> Path:
        """Where what the processes say is kept."""
        return self.data / "logs"

    @property
    def chain_names(self) -> list[str]:
        return chain_names(self.chains)

    @property
    def broker_count(self) -> int:
        return self.replicas if self.brokers is None else self.brokers

    @property
    def journal(self) -> Durability:
        if self.durability is None:
            return Durability.CHAIN if self.broker_count else Durability.NONE
        return self.durability


def chain_names(count: int) -> list[str]:
    return [f"chain{number}" for number in range(1, count + 1)]
