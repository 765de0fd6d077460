"""Has Spark examine what a story left behind (`demo_examiner.py`), and listens to what it says."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import msgspec

from octoloom.cli.demo_examiner import Examination, Said
from octoloom.runtime.processes import Child
from octoloom.runtime.proof import Evidence, Verdict
from octoloom.runtime.stage import Stage


async def examined(stage: Stage, evidence: Evidence, report: Path, tell: Callable[[str], None]) -> list[Verdict]:
    """What Spark says of the story. It ends with this process, and with whoever no longer waits for it."""
    assert stage.cluster.register is not None
    acknowledged = stage.plan.data / "acknowledged.jsonl"
    acknowledged.write_bytes(msgspec.json.Encoder().encode_lines(acknowledgements(stage.space, evidence)))
    work = Examination(
        stage.cluster.register.address,
        stage.plan.app,
        stage.space,
        evidence.replicas[0].digest,
        str(acknowledged),
        [str(path) for path in stage.groups.traces()] if stage.groups is not None else [],
        str(report),
    )
    log = stage.plan.logs / "spark.log"
    examiner = await Child.start("spark", [msgspec.json.encode(work).decode()], log, "octoloom.cli.demo_examiner")
    try:
        return await _listen(examiner, tell)
    finally:
        await examiner.stop(0)


async def _listen(examiner: Child, tell: Callable[[str], None]) -> list[Verdict]:
    verdicts: list[Verdict] = []
    while line := await examiner.read_line():
        said = msgspec.json.decode(line, type=Said)
        if said.tell:
            tell(said.tell)
        if said.verdict is not None:
            verdicts.append(said.verdict)
        if said.failed:
            verdicts.append(Verdict("Spark could examine it", False, said.failed))
    if await examiner.wait() and not any(not verdict.held for verdict in verdicts):
        verdicts.append(Verdict("Spark could examine it", False, f"it ended before its time: see {examiner.log}"))
    return verdicts


def acknowledgements(space: str, evidence: Evidence) -> list[dict[str, object]]:
    """What players were told of their moves. The version that they saw then may be a later one than the move's own."""
    return [
        {
            "space": space,
            "device": player.witness.name,
            "sequencer": move.sequencer,
            "outcome": move.status,
        }
        for player in evidence.players
        for move in player.moves
        if move.status in ("applied", "rejected") and move.sequencer
    ]
