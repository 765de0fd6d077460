"""From one view to the next: coordinators that die, hang and die again, told as stories."""

from __future__ import annotations

from octoloom.core.group_effects import Expelled
from tests.core.group_table import table_of, view_of

# The failover example of the SEQUENCER document: C sends 1 to 6, the coordinator casts all and dies.


def test_the_sender_lacks_5_and_6_and_gets_them_once() -> None:
    table = table_of("A B C")
    table.send("C", "1 2 3 4")
    table.run(0)
    table.hold("A", "C")
    table.send("C", "5 6")
    table.run(0)
    assert table.heard("B") == "[A B C] 1 2 3 4 5 6"
    assert table.heard("C") == "[A B C] 1 2 3 4"

    table.crash("A")
    table.view("B C")
    assert table.all_heard("B C") == "[A B C] 1 2 3 4 5 6 [B C]"

    table.send("C", "7")
    table.run()
    assert table.all_heard("B C") == "[A B C] 1 2 3 4 5 6 [B C] 7"
    assert table["C"].settled
    assert table["B"].counters["duplicates"] == table["C"].counters["duplicates"] == 0


def test_nobody_who_lives_has_5_and_6_and_their_sender_sends_them_again() -> None:
    table = table_of("A B C")
    table.hold("A", "B", "C")
    table.send("C", "1 2 3 4")
    table.run(0)
    table.let_go("A", "B", "C")
    table.hold("A", "B", "C")
    table.send("C", "5 6")
    table.run(0)
    assert table.heard("A") == "[A B C] 1 2 3 4 5 6", "what the dead had more than the others is nobody's loss"

    table.crash("A")
    table.view("B C")
    assert table.all_heard("B C") == "[A B C] 1 2 3 4 [B C] 5 6"
    table.run()
    assert table["C"].settled


def test_one_survivor_alone_got_5_and_6_and_another_one_leads() -> None:
    table = table_of("A B C D")
    table.send("C", "1 2 3 4")
    table.send("B", "x")
    table.run(0)
    table.hold("A", "B", "C")
    table.send("C", "5 6")
    table.send("B", "y")
    table.run(0)
    assert table.heard("D") == "[A B C D] 1 2 3 4 x 5 6 y"
    assert table.heard("B") == table.heard("C") == "[A B C D] 1 2 3 4 x"

    table.crash("A")
    table.view("B C D")
    assert table.all_heard("B C D") == "[A B C D] 1 2 3 4 x 5 6 y [B C D]"
    assert table.said["Fetch"] == 1
    table.run()
    assert [table[name].settled for name in "BCD"] == [True, True, True]


def test_holes_at_different_places_are_filled_from_each_other() -> None:
    """B lacks 2, C lacks 3, D lacks both; who died was the only one that had 5."""
    table = table_of("A B C D", nak_ms=60_000)
    for text, lacking in {"1": "", "2": "B D", "3": "C D", "4": "", "5": "B C D"}.items():
        for name in lacking.split():
            table.lose("A", name, "Cast")
        table.send("A", text)
        table.run(0)
        table.mend()
    assert [table.heard(name) for name in "BCD"] == ["[A B C D] 1", "[A B C D] 1 2", "[A B C D] 1"]
    assert table["C"].waits_for() == ("A", 3)

    table.crash("A")
    table.view("D C B")
    assert table.all_heard("B C D") == "[A B C D] 1 2 3 4 [D C B]"


# More than one dies.


def test_the_new_coordinator_dies_while_it_gathers() -> None:
    table = table_of("A B C D")
    table.hold("A", "B", "C")
    table.send("C", "1 2")
    table.run(0)
    table.crash("A")
    table.hold("D", "B")  # B never learns what D has
    table.view("B C D")
    assert table["C"].frozen
    table.send("C", "3")
    table.crash("B")
    table.view("C D")
    assert table.all_heard("C D") == "[A B C D] 1 2 [C D] 3"


def test_the_new_coordinator_dies_when_only_one_member_has_carried_out_its_decision() -> None:
    """C is in the view of B, D is not: the next coordinator takes D there first, whoever it is."""
    for survivors in ("C D", "D C"):
        table = table_of("A B C D")
        table.hold("A", "C")
        table.send("C", "1")
        table.run(0)
        table.crash("A")
        table.lose("B", "D", "Install")
        table.view("B C D")
        table.send("C", "2")
        table.run(0)
        assert table.heard("C") == "[A B C D] 1 [B C D] 2"
        assert table.heard("D") == "[A B C D] 1"

        table.crash("B")
        table.mend()
        table.view(survivors)
        assert table.all_heard("C D") == f"[A B C D] 1 [B C D] 2 [{survivors}]"


def test_nothing_is_decided_before_everybody_holds_everything() -> None:
    """Else D would be in a view that C cannot be brought to, for what B was to fill in died with B."""
    table = table_of("A B C D")
    table.hold("A", "C", "D")
    table.send("C", "1")
    table.run(0)
    table.crash("A")
    table.hold("B", "C")
    table.view("B C D")
    assert table.heard("D") == "[A B C D] 1"
    assert [table[name].frozen for name in "BCD"] == [True, True, True]
    table.crash("B")
    table.view("C D")
    assert table.all_heard("C D") == "[A B C D] 1 [C D]"


def test_a_decision_that_no_survivor_heard_of_is_void() -> None:
    table = table_of("A B C D")
    table.crash("A")
    table.lose("B", "C", "Install")
    table.lose("B", "D", "Install")
    table.view("B C D")
    table.send("B", "1")
    table.run(0)
    assert table.heard("B") == "[A B C D] [B C D] 1"
    table.crash("B")
    table.mend()
    table.view("C D")
    assert table.all_heard("C D") == "[A B C D] [C D]"


def test_a_newcomer_that_missed_its_first_installation_is_brought_to_it_before_the_next() -> None:
    table = table_of("A B")
    table.send("A", "1")
    table.run(0)
    table.sit("C")
    table.lose("A", "C", "Install")
    table.view("A B C")
    assert table.heard("C") == ""
    table.crash("A")
    table.mend()
    table.view("B C")
    assert table.heard("B") == "[A B] 1 [A B C] [B C]"
    assert table.heard("C") == "[A B C] [B C]"


def test_who_does_not_come_to_the_view_that_it_missed_is_complained_of() -> None:
    table = table_of("A B")
    table.sit("C")
    table.lose("A", "C", "Install")
    table.view("A B C")
    table.crash("A")
    table.mend()
    table.lose("B", "C", "Install")
    table.view("B C")
    table.run(5_000)
    assert table.heard("B") == "[A B] [A B C]"
    complaints = {each.message.member for each in table.seats["B"].effects if hasattr(each, "message")}
    assert "C" in complaints, "or the view would never be installed"


# Views that overtake each other.


def test_a_view_announced_before_the_last_one_is_installed_replaces_it() -> None:
    table = table_of("A B C")
    table.hold("C", "A")
    table.view("A B C")
    table.send("B", "1")
    assert [table[name].frozen for name in "ABC"] == [True, True, True]
    table.view("A B C")
    table.let_go("C", "A")
    assert table.all_heard("A B C") == "[A B C] [A B C] 1"
    assert table["A"].view == view_of("A B C", 3)


def test_a_report_that_comes_before_its_view_is_kept_for_it() -> None:
    table = table_of("A B")
    view = view_of("A B", 2)
    table.tell(view, "B")
    table.run(0)
    assert table.said["Report"] == 2
    assert not table["A"].frozen
    table.tell(view, "A")
    table.run(0)
    assert table.all_heard("A B") == "[A B] [A B]"
    assert table.said["Report"] == 2


def test_a_cast_that_comes_before_the_installation_is_kept_for_it() -> None:
    table = table_of("A B C", order="fifo")
    table.hold("A", "C")
    table.view("A B C")
    table.send("B", "1")
    table.run(0)
    assert table.heard("C") == "[A B C]"
    table.let_go("A", "C")
    assert table.heard("C") == "[A B C] [A B C] 1"
    assert table.said["Nak"] == 0


# A coordinator that hangs.


def test_a_hung_coordinator_wakes_up_in_an_old_view_and_nobody_listens() -> None:
    table = table_of("A B C")
    table.send("A", "1")
    table.run(0)
    table.seats["A"].hung = True
    table.send("B", "2")
    table.run(5_000)
    complaints = {each.message.member for each in table.seats["B"].effects if hasattr(each, "message")}
    assert complaints == {"A"}
    table.view("B C")
    assert table.all_heard("B C") == "[A B C] 1 [B C] 2"

    table.seats["A"].hung = False
    table.send("A", "3")  # it still believes that it leads, and delivers what it casts
    table.run(0)
    assert table.heard("A") == "[A B C] 1 3"
    assert table.all_heard("B C") == "[A B C] 1 [B C] 2"
    assert set(table.seats["B"].errors) == {"not-a-member"}
    assert table["B"].counters["not-a-member"] == len(table.seats["B"].errors)

    table.tell(view_of("B C", 2), "A")
    assert table["A"].expelled
    assert isinstance(table.seats["A"].effects[-1], Expelled)


def test_casts_of_the_old_view_are_not_taken_by_who_is_frozen_already() -> None:
    """A does not know of the next view yet; what it casts now comes to B in the union, or not at all."""
    table = table_of("A B C")
    view = view_of("A B C", 2)
    table.tell(view, "B C")
    table.run(0)
    table.send("A", "1")
    table.run(0)
    assert table.heard("A") == "[A B C] 1"
    assert table.heard("B") == "[A B C]"
    assert table["B"].counters["old-view"] == 1
    table.tell(view, "A")
    table.run(0)
    assert table.all_heard("A B C") == "[A B C] 1 [A B C]"


def test_a_coordinator_that_hears_of_two_views_late_has_the_reports_for_both() -> None:
    table = table_of("A B C")
    views = [table.view("A B C", only="B C") for _ in range(2)]
    table.run(10)  # the reports for both are there
    for view in views:
        table.tell(view, "A")
    table.run()
    assert table.all_heard("A B C") == "[A B C] [A B C]"
