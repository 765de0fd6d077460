"""A group as its apps see it: orders, delays, joins, leaves and switches, told as stories."""

from __future__ import annotations

import pytest

from octoloom.core.group_effects import Complain, Conflict, Expelled
from octoloom.core.steps import DELIVERED, FORWARDED, ORDERED, VIEW
from tests.core.group_table import Table, table_of, view_of

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


# Who comes and goes.


def test_a_latecomer_begins_with_the_vector_and_the_state_of_its_first_view() -> None:
    for order in ("fifo", "causal", "total"):
        table = Table(order, wants_state=True)
        table.sit("A B")
        table.view("A B")
        table.send("A", "a1")
        table.run(0)
        table.send("B", "b1")
        table.run()
        table.sit("C")
        table.view("A B C")
        assert table.heard("C") == "[A B C] {a1b1}", order
        assert table["C"].installed is not None
        casts = {name: casts for name, (casts, _) in table["C"].installed.vector.items()}
        assert casts == ({"A": 2, "B": 0, "C": 0} if order == "total" else {"A": 1, "B": 1, "C": 0})
        table.send("C", "c1")
        table.run(0)
        table.send("A", "a2")
        table.run()
        assert table.heard("C").endswith("{a1b1} c1 a2" if order == "total" else "{a1b1} a2")
        assert table.heard("B").endswith("[A B C] c1 a2")


def test_nothing_is_handed_to_a_latecomer_before_its_state() -> None:
    table = Table("total", wants_state=True)
    table.sit("A B")
    table.view("A B")
    table.send("A", "1")
    table.sit("C")
    table.lose("A", "C", "State")
    table.view("A B C")
    table.send("B", "2")
    table.send("C", "3")  # it waits too
    table.run(50)
    assert table.heard("C") == "[A B C]"
    table.mend()
    table.run()
    assert table.heard("C") == "[A B C] {1} 2 3"
    assert table.heard("B") == "[A B] {} 1 [A B C] 2 3"


def test_who_gives_the_state_dies_and_the_next_gives_its_own() -> None:
    table = Table("total", wants_state=True)
    table.sit("A B")
    table.view("A B")
    table.send("A", "1")
    table.sit("C")
    table.lose("A", "C", "State")
    table.view("A B C")
    table.send("B", "2")
    table.run(0)
    table.crash("A")
    table.mend()
    table.view("B C")
    table.run()
    assert table.heard("C") == "[A B C] [B C] {12}"


def test_the_entry_of_a_leaver_ends_with_its_last_view() -> None:
    table = table_of("A B C", "causal")
    table.send("C", "1")
    table.run(0)
    table.send("B", "2")
    table.run(0)
    table.view("A B")
    assert table.heard("A") == "[A B C] 1 2 [A B]"
    assert table["A"].installed is not None
    assert list(table["A"].installed.vector) == ["A", "B"]
    assert table["C"].expelled
    assert not table["A"].knows("C")
    table.send("B", "3")
    table.run(0)
    assert table.heard("A") == "[A B C] 1 2 [A B] 3"


def test_what_only_the_leaver_saw_of_its_own_is_told_to_it() -> None:
    table = table_of("A B")
    table.lose("B", "A")
    table.send("B", "1 2")
    table.view("A")
    expelled = table.seats["B"].effects[-1]
    assert isinstance(expelled, Expelled)
    assert [bundle.payload for bundle in expelled.unsure] == [b"1", b"2"]


def test_a_rejoin_under_the_same_name_begins_anew() -> None:
    table = table_of("ada#1 bob#1")
    table.send("bob#1", "1 2 3")
    table.run(0)
    table.crash("bob#1")
    table.sit("bob#2")
    table.view("ada#1 bob#2")
    table.send("bob#2", "4")
    table.run()
    assert table.heard("ada#1") == "[ada#1 bob#1] 1 2 3 [ada#1 bob#2] 4"
    assert table.heard("bob#2") == "[ada#1 bob#2] 4"
    assert table["ada#1"].received("bob#2") == 1
    assert not table["ada#1"].knows("bob#1")


def test_a_group_of_one_and_a_group_that_grows_out_of_it() -> None:
    table = table_of("A")
    table.send("A", "1")
    table.sit("B C")
    table.view("A B C")
    table.send("C", "2")
    table.run()
    assert [table.heard(name) for name in "ABC"] == ["[A] 1 [A B C] 2", "[A B C] 2", "[A B C] 2"]


def test_what_is_sent_before_the_first_view_goes_out_in_it() -> None:
    table = Table("total")
    table.sit("A B")
    table.send("B", "1 2")
    table.view("A B")
    table.run()
    assert table.all_heard("A B") == "[A B] 1 2"


# Switching the order.


def test_the_order_switches_in_the_middle_of_traffic_at_one_place_and_nothing_is_lost() -> None:
    table = table_of("A B C", "none")
    switches = ["total", "causal", "fifo", "total", "none"]
    for turn, order in enumerate(switches):
        for name in "ABC":
            table.send(name, f"{name}{turn}")
        table.view("A B C", order)  # while everything is in the air
    table.run()
    for name in "ABC":
        parts = table.heard(name).split("[A B C]")[1:]
        assert len(parts) == 6
        sent = {f"{sender}{turn}" for sender in "ABC" for turn in range(5)}
        own = {f"{name}{turn}" for turn in range(5)}  # which only total order brings back
        heard = [text.removesuffix("~") for part in parts for text in part.split()]
        assert len(heard) == len(set(heard))
        assert sent - own <= set(heard) <= sent
        assert table[name].settled
    # Under the total orders it is one sequence.
    for at in (1, 4):
        assert len({table.heard(name).split("[A B C]")[1:][at] for name in "ABC"}) == 1


def test_what_was_forwarded_and_not_ordered_is_sent_again_in_the_new_order() -> None:
    table = table_of("A B C", "total")
    table.lose("B", "A", "Forward")
    table.send("B", "1 2")
    table.view("A B C", "fifo")
    table.mend()
    table.run()
    assert table.heard("A") == table.heard("C") == "[A B C] [A B C] 1 2"
    assert table["B"].settled


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
