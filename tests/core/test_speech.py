"""What is said to single others: to each in its own sequence."""

from __future__ import annotations

import pytest

from octoloom.core.errors import UsageError
from octoloom.core.group_effects import ToMembers
from octoloom.core.group_messages import Acked, Direct, Numbered
from octoloom.core.speech import Speech
from octoloom.core.unicast import UNACKED_MAX


def speech() -> tuple[Speech, list[ToMembers]]:
    said: list[ToMembers] = []
    return Speech(10, said.append), said


def test_each_member_has_numbers_of_its_own() -> None:
    mouth, said = speech()
    for member in "ABA":
        mouth.say(0, member, Direct(b""))
    assert said == [
        ToMembers(["A"], Numbered(1, Direct(b""))),
        ToMembers(["B"], Numbered(1, Direct(b""))),
        ToMembers(["A"], Numbered(2, Direct(b""))),
    ]


def test_one_acknowledgement_for_all_that_came_in_a_turn() -> None:
    mouth, said = speech()
    for number in (1, 3, 2):
        mouth.on_numbered("A", Numbered(number, Direct(b"")))
    mouth.on_numbered("B", Numbered(2, Direct(b"")))
    mouth.acknowledge()
    mouth.acknowledge()
    assert said == [ToMembers(["A"], Acked(3)), ToMembers(["B"], Acked(0))]


def test_it_sends_again_to_who_does_not_answer_and_names_who_is_silent_for_too_long() -> None:
    mouth, said = speech()
    mouth.say(0, "A", Direct(b"1"))
    mouth.say(5, "B", Direct(b"2"))
    assert mouth.deadline() == 10
    mouth.on_acked(7, "A", 1)
    assert mouth.deadline() == 15
    said.clear()
    assert mouth.resend(14) == 0
    assert mouth.resend(15) == 1
    assert said == [ToMembers(["B"], Numbered(1, Direct(b"2")))]
    assert mouth.unreachable(105, 100) == []
    assert mouth.unreachable(106, 100) == ["B"]
    mouth.hurry(110, "B")
    mouth.hurry(110, "X")
    assert mouth.deadline() == 110


def test_what_was_said_to_who_is_gone_is_void() -> None:
    mouth, said = speech()
    mouth.say(0, "A", Direct(b""))
    mouth.say(0, "B", Direct(b""))
    mouth.keep({"B": None})
    said.clear()
    assert mouth.resend(100) == 1
    assert said[0].members == ["B"]
    assert mouth.unreachable(1_000, 1) == ["B"]


def test_who_takes_nothing_is_sent_no_more() -> None:
    mouth, _ = speech()
    for _ in range(UNACKED_MAX):
        mouth.check_room("A")
        mouth.say(0, "A", Direct(b""))
    with pytest.raises(UsageError, match="wait before you send more"):
        mouth.check_room("A")
    mouth.check_room("B")
