"""What a member has to say, in order."""

from __future__ import annotations

from octoloom.core.consumer_member_messages import Ask, Halt, Join, Leave
from octoloom.core.consumer_questions import Questions


def test_each_question_has_a_ticket_of_its_own_and_all_is_said_in_order() -> None:
    questions = Questions()
    questions.ask_step(Join(""))
    questions.add(Halt())
    assert questions.ask(Leave("me")) == 2
    assert questions.step == 1
    assert questions.take() == [Ask(1, Join("")), Halt(), Ask(2, Leave("me"))]
    assert questions.take() == []


def under_way(questions: Questions) -> list[int | None]:
    return [questions.step, questions.again_at]


def test_a_step_that_is_dropped_is_neither_awaited_nor_repeated() -> None:
    questions = Questions()
    questions.ask_step(Join(""))
    questions.again_at = 70
    questions.drop_step()
    assert under_way(questions) == [0, None]
    questions.again_at = 70
    questions.ask_step(Join(""))
    assert under_way(questions) == [2, None]
