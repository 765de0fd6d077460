"""A group as its apps see it: orders, delays and conflicts, told as stories."""

from __future__ import annotations

import pytest

from octoloom.core.group_effects import Complain, Conflict, Expelled
from octoloom.core.steps import DELIVERED, FORWARDED, ORDERED, VIEW
from tests.core.group_table import table_of, view_of

# The slides' example: A asks, B answers, and the question is slow on its way to C.


def lunch(order: str) -> str:
    """What C hears."""
    table = table_of("A B C", order)
    table["A"].set_minimum_delay(table.now, "C", 500)
    table.run(0)
    table.send("A", "Lunch?")
    table.run(0)
    assert table.heard("B") == "[A B C] Lunch?"
    table.send("B", "Yes!")
    table.run(2_000)
    assert table.heard("A").replace("~", "") in ("[A B C] Yes!", "[A B C] Lunch? Yes!")
    return table.heard("C")


def test_without_an_order_the_answer_comes_before_its_question() -> None:
    assert lunch("none") == "[A B C] Yes! Lunch?"


def test_fifo_is_about_one_sender_and_does_not_help() -> None:
    assert lunch("fifo") == "[A B C] Yes! Lunch?"


def test_in_causal_order_it_never_does() -> None:
    assert lunch("causal") == "[A B C] Lunch? Yes!"


def test_nor_in_total_order() -> None:
    assert lunch("total") == "[A B C] Lunch? Yes!"


def test_while_the_answer_is_held_back_it_says_what_it_waits_for() -> None:
    table = table_of("A B C", "causal")
    table["A"].set_minimum_delay(table.now, "C", 500)
    table.run(0)
    table.send("A", "Lunch?")
    table.run(0)
    table.send("B", "Yes!")
    table.run(100)
    assert table.heard("C") == "[A B C]"
    assert table["C"].waits_for() == ("A", 1)
    table.run(500)
    assert table["C"].waits_for() is None


def test_a_delay_ends_with_the_view_and_begins_again_with_the_next() -> None:
    table = table_of("A B C", "fifo")
    table["A"].set_minimum_delay(table.now, "C", 60_000)
    table.run(0)
    table.send("A", "1 2")
    table.run()
    assert table.heard("C") == "[A B C]"
    table.view("A B C")
    assert table.heard("C") == "[A B C] 1 2 [A B C]"
    table.send("A", "3")
    table.run()
    assert table.heard("C") == "[A B C] 1 2 [A B C]"


def test_two_slow_members_at_the_same_moment() -> None:
    table = table_of("A B C", "fifo")
    table["A"].set_minimum_delay(table.now, "C", 300)
    table["B"].set_minimum_delay(table.now, "C", 300)
    table.run(0)
    table.send("A", "a1")
    table.send("B", "b1")
    table.run()
    assert table.heard("C") == "[A B C] a1 b1"


# Orders on a bad wire.


def test_concurrent_messages_are_flagged_where_they_come_second() -> None:
    table = table_of("A B C", "causal")
    table.hold("A", "B", "C")
    table.hold("B", "A", "C")
    table.send("A", "a1")
    table.send("B", "b1")
    table.let_go("A", "B", "C")
    table.let_go("B", "A", "C")
    assert table.heard("C") == "[A B C] a1 b1~"
    assert table.heard("A") == "[A B C] b1~"
    assert table.heard("B") == "[A B C] a1~"


def test_concurrent_messages_are_a_mistake_if_the_app_says_so() -> None:
    """They are told, not delivered; and the next view comes about all the same."""
    table = table_of("A B C", "causal", order_settings={"concurrent": "raise"})
    table.hold("A", "B", "C")
    table.hold("B", "A", "C")
    table.send("A", "a1")
    table.send("B", "b1")
    table.let_go("A", "B", "C")
    table.let_go("B", "A", "C")
    assert table.heard("C") == "[A B C] a1"
    conflicts = [each for each in table.seats["C"].effects if isinstance(each, Conflict)]
    assert conflicts == [Conflict(("B", 1), ("A", 1))]
    table.view("A B C", ms=2_000)
    assert [table.heard(name) for name in "ABC"] == ["[A B C] [A B C]", "[A B C] [A B C]", "[A B C] a1 [A B C]"]


def test_concurrent_messages_of_a_slow_member_are_a_mistake_too() -> None:
    table = table_of("A B C", "causal", order_settings={"concurrent": "raise"})
    table["B"].set_minimum_delay(table.now, "C", 100)
    table.run(0)
    table.hold("A", "B")
    table.send("A", "a1")
    table.send("B", "b1")
    table.run(500)
    assert table.heard("C") == "[A B C] a1"
    assert any(isinstance(each, Conflict) for each in table.seats["C"].effects)
    table.view("B C", ms=2_000)
    assert table.heard("C") == "[A B C] a1 [B C]"


def test_turned_round_doubled_and_lost_each_order_keeps_its_promise() -> None:
    for order in ("fifo", "causal", "total"):
        table = table_of("A B C", order)
        table.hold("A", "B", "C")
        table.send("A", "1 2 3 4 5")
        table.let_go("A", "B", turned_round=True)
        assert table.heard("B") == "[A B C] 1 2 3 4 5"
        table.lose("A", "C")
        table.let_go("A", "C")
        table.mend()
        assert table.heard("C") == "[A B C]"
        table.run()
        assert table.heard("C") == "[A B C] 1 2 3 4 5", order
        assert table["C"].counters["naks"] > 0 or order == "total"
        assert table["A"].settled


def test_who_has_a_cast_sends_it_again_when_its_sender_does_not() -> None:
    table = table_of("A B C D", "fifo")
    table.lose("C", "D")
    table.lose("D", "C")
    table.send("C", "1")
    table.run(1_500)
    assert table.heard("D") == "[A B C D] 1"


def test_total_order_is_one_order_for_all() -> None:
    table = table_of("A B C")
    table.hold("B", "A")
    table.send("B", "b1 b2")
    table.send("C", "c1")
    table.send("A", "a1")
    table.run(0)
    table.let_go("B", "A")
    assert table.all_heard("A B C") == "[A B C] a1 c1 b1 b2"


def test_messages_that_are_turned_round_on_the_way_to_the_coordinator_keep_their_order() -> None:
    """The document lets M2 pass M1; here it cannot."""
    table = table_of("A B C")
    table.hold("B", "A")
    table.send("B", "M1 M2 M3")
    table.let_go("B", "A", turned_round=True)
    assert table.all_heard("A B C") == "[A B C] M1 M2 M3"


def test_a_plain_message_passes_by_the_order() -> None:
    for order in ("none", "fifo", "causal", "total"):
        table = table_of("A B C", order)
        table.hold("A", "C")
        table.send("A", "1")
        table.send("B", "now", plain=True)
        table.run(0)
        assert table.heard("C") == "[A B C] now"
        table.send("A", "2", plain=True)
        table.let_go("A", "C", turned_round=True)
        assert table.heard("C").replace("~", "") == "[A B C] now 2 1"
        table.run()
        assert table.heard("B").split().count("2") == 1
        assert "now" not in table.heard("B"), "to all others"


def test_a_message_to_one_alone_passes_by_everything() -> None:
    table = table_of("A B C")
    table["C"].send_to(table.now, "B", b"psst")
    table.run()
    assert [table.heard(name) for name in "ABC"] == ["[A B C]", "[A B C] (psst)", "[A B C]"]


# What a member tells its register and its traces.


def test_a_silent_member_is_complained_of_again_and_again_by_the_coordinator() -> None:
    table = table_of("A B C")
    table.crash("C")
    table.run(6_000)
    complaints = [each.message for each in table.seats["A"].effects if isinstance(each, Complain)]
    assert len(complaints) > 2
    assert {(message.epoch, message.member) for message in complaints} == {(1, "C")}
    assert not table.seats["B"].effects


def test_nobody_complains_of_who_is_gone_or_sends_it_anything() -> None:
    table = table_of("A B C")
    table.send("C", "1")
    table["B"].send_to(table.now, "A", b"psst")
    table.crash("A")
    table.view("B C")
    table.said.clear()
    table.run(6_000)
    assert [table.seats[name].effects for name in "BC"] == [[], []]
    assert table.said["Direct"] == table.said["Forward"] == 0
    assert table.all_heard("B C") == "[A B C] [B C] 1"


def test_who_is_out_says_and_delivers_no_more() -> None:
    """Not even what it sent in the turn in which it learns that."""
    for name in "AB":
        table = table_of("A B")
        table[name].send(table.now, b"1")
        table.tell(view_of("X", 9), name)
        expelled = table.seats[name].effects[-1]
        assert isinstance(expelled, Expelled)
        assert [bundle.payload for bundle in expelled.unsure] == [b"1"]
        table.run()
        assert table.heard(name) == "[A B]"
        assert table.said["Cast"] == table.said["Forward"] == 0


def test_who_did_not_run_itself_complains_of_nobody() -> None:
    table = table_of("A B C")
    table.seats["A"].hung = True
    table.run(60_000)
    table.seats["A"].hung = False
    table.run(100)
    assert not [each for each in table.seats["A"].effects if isinstance(each, Complain)]


def test_a_quiet_group_gives_signs_of_life_and_no_more() -> None:
    table = table_of("A B C")
    table.run()
    table.said.clear()
    table.run(3_000)
    assert set(table.said) == {"Have", "Stable"}
    assert sum(table.said.values()) <= 4 * 3_000 / 300


def test_the_steps_of_total_order_are_traced() -> None:
    table = table_of("A B", tracing=True)
    table.send("B", "1")
    table.run(0)
    at_b = [(step.name, step.sender, step.number) for step in table.seats["B"].steps]
    at_a = [(step.name, step.sender, step.number) for step in table.seats["A"].steps]
    assert at_b[0] == (VIEW, "", 0)
    assert (FORWARDED, "B", 1) in at_b
    assert (DELIVERED, "B", 1) in at_b
    assert at_a.index((ORDERED, "B", 1)) < at_a.index((DELIVERED, "B", 1))


@pytest.mark.parametrize("epoch", [1, 0, -5])
def test_an_old_view_is_no_news(epoch: int) -> None:
    table = table_of("A B")
    table.tell(view_of("A", epoch), "A B")
    table.run(0)
    assert table.all_heard("A B") == "[A B]"
    assert not table["B"].expelled
