"""Who comes and goes, and how the order of a group changes while it runs, told as stories."""

from __future__ import annotations

import pytest

from octoloom.core.group_effects import Expelled
from tests.core.group_table import Table, table_of

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


def test_what_a_latecomer_sent_before_its_first_view_waits_for_its_state_too() -> None:
    for order in ("fifo", "total"):
        table = Table(order, wants_state=True)
        table.sit("A")
        table.view("A")
        table.sit("C")
        table.send("C", "1")
        table.lose("A", "C", "State")
        table.view("A C")
        table.run(50)
        assert table.heard("A") == "[A] {} [A C]"
        table.mend()
        table.run()
        assert table.heard("A") == "[A] {} [A C] 1"


def test_if_only_latecomers_are_left_they_begin_with_nothing() -> None:
    table = Table("total", wants_state=True)
    table.sit("A")
    table.view("A")
    table.sit("B C")
    table.lose("A", "B", "State")
    table.lose("A", "C", "State")
    table.view("A B C")
    table.send("A", "1")
    table.run(0)
    table.crash("A")
    table.view("B C")
    table.send("C", "2")
    table.run()
    assert table.all_heard("B C") == "[A B C] [B C] {} 2"


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


@pytest.mark.parametrize("order", ["total", "fifo", "causal", "none"])
def test_what_only_the_leaver_saw_of_its_own_is_told_to_it(order: str) -> None:
    table = table_of("A B", order)
    table.send("B", "0")
    table.run()  # until all are known to have it
    table.lose("B", "A")
    table.send("B", "1 2")
    table.view("A")
    expelled = table.seats["B"].effects[-1]
    assert isinstance(expelled, Expelled)
    assert [bundle.payload for bundle in expelled.unsure] == [b"1", b"2"]


def test_who_is_left_out_is_told_what_it_had_no_view_to_send_in() -> None:
    table = table_of("A B C")
    table.hold("B", "C")
    table.view("B C", ms=0)
    table.send("C", "1")  # while frozen
    table.view("B")
    (expelled,) = [each for each in table.seats["C"].effects if isinstance(each, Expelled)]
    assert [(bundle.number, bundle.payload) for bundle in expelled.unsure] == [(0, b"1")]


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
    table.send("B", "3")
    table.run()
    assert table.heard("A") == table.heard("C") == "[A B C] [A B C] 1 2 3"
    # What B sent under total order comes back to it; what it sends under fifo does not.
    assert table.heard("B") == "[A B C] [A B C] 1 2"
    assert table["B"].settled
