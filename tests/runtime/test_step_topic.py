"""Steps that become records of a topic."""

from __future__ import annotations

import msgspec
import uvloop

from octoloom import Group
from octoloom.core.steps import DELIVERED, SENT, VIEW, Step
from octoloom.runtime.step_topic import StepTopic
from tests.runtime.group_rooms import group, run
from tests.runtime.tiny_log import tiny_log


def steps_of(values: list[bytes | None]) -> list[Step]:
    return [msgspec.json.decode(value or b"", type=Step) for value in values]


def test_a_members_steps_are_records_with_its_key_in_order() -> None:
    async def story() -> None:
        async with tiny_log(topic="steps") as log, StepTopic(",".join(log.bootstrap), "steps") as topic:
            async with group(order="causal") as rooms:
                ada: Group = await rooms.join("ada", trace=topic)
                bob: Group = await rooms.join("bob", trace=topic)
                await ada.to_others("lunch?")
                assert (await anext(bob)).body == "lunch?"
            assert topic.left_out == 0
            await topic.__aexit__()
            records = log.partitions["steps", 0].records
            steps = steps_of([record.value for record in records])
            assert {record.key for record in records} == {step.member.encode() for step in steps}
            names = [step.name for step in steps if step.sender.startswith("ada") or step.name == VIEW]
            assert names.index(VIEW) < names.index(SENT) < names.index(DELIVERED)
            assert [step.text for step in steps if step.name == SENT] == ["lunch?"]

    run(story)


def test_what_cannot_be_written_is_left_out_and_counted() -> None:
    async def main() -> None:
        async with tiny_log(topic="steps") as log:
            topic = StepTopic(",".join(log.bootstrap), "steps")
            topic(Step(SENT, "ada#1"))
            async with topic:
                topic(Step(SENT, "ada#1"))
            topic(Step(SENT, "ada#1"))
            assert topic.left_out == 2
            assert len(log.partitions["steps", 0].records) == 1

    uvloop.run(main())
