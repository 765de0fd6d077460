"""What an app has sent, on its way out: what waits, what is sent again, and what is dropped if the app says so."""

from __future__ import annotations

from typing import Any

import pytest

from octoloom.core.group_effects import Dropped
from octoloom.core.group_messages import Cast, Forward, Numbered
from octoloom.core.outgoing import OUTBOX_BYTES_MAX
from tests.core.group_table import Table, table_of


def lost_coordinator(**settings: Any) -> Table:
    """C has sent 1 to 4; the coordinator that dies has ordered 1 and 2, and 3 and 4 never reached it."""
    table = table_of("A B C", **settings)
    table.send("C", "1 2")
    table.run(0)
    table.lose("C", "A")
    table.send("C", "3 4")
    table.run(0)
    table.crash("A")
    table.mend()
    return table


def must_wait(table: Table, name: str) -> bool:
    return table[name].congested


def test_what_a_lost_coordinator_did_not_order_is_sent_again_ahead_of_newer_messages() -> None:
    table = lost_coordinator()
    table.hold("C", "B")
    table.view("B C")
    table.send("C", "5")  # while frozen
    table.let_go("C", "B")
    table.send("C", "6")
    table.run()
    assert table.all_heard("B C") == "[A B C] 1 2 [B C] 3 4 5 6"
    assert table["C"].settled


def test_or_it_is_dropped_and_the_app_is_told_and_its_numbers_are_free_again() -> None:
    table = lost_coordinator(failover="drop")
    table.view("B C")
    (dropped,) = [each for each in table.seats["C"].effects if isinstance(each, Dropped)]
    assert [bundle.payload for bundle in dropped.bundles] == [b"3", b"4"]
    table.send("C", "5")
    table.run()
    assert table.all_heard("B C") == "[A B C] 1 2 [B C] 5"
    assert table["B"].received("C") == 3
    assert table["C"].settled


def test_what_was_ordered_is_never_dropped_even_if_its_sender_has_not_seen_that() -> None:
    table = table_of("A B C", failover="drop")
    table.hold("A", "C")
    table.send("C", "1 2")
    table.run(0)
    table.crash("A")
    table.view("B C")
    assert table.all_heard("B C") == "[A B C] 1 2 [B C]"
    assert table.seats["C"].effects == []


def test_nothing_is_dropped_when_the_coordinator_stays() -> None:
    table = table_of("A B C", failover="drop")
    table.lose("C", "A", "Forward")
    table.send("C", "1")
    table.mend()
    table.crash("B")
    table.view("A C")
    table.run()
    assert table.all_heard("A C") == "[A B C] [A C] 1"


def test_what_the_old_coordinator_had_taken_and_not_cast_comes_again_from_its_senders() -> None:
    """Both the coordinator's own and the others': a view was announced in the same turn."""
    table = table_of("A B")
    table.hold("B", "A")
    table.send("B", "b1")
    table["A"].send(table.now, b"a1")
    table["A"].on_packet(table.now, "B", [part for _, _, part in table._held["B", "A"]])
    table.view("A B")
    assert table.said["Cast"] == 0
    table.let_go("B", "A")
    table.run()
    assert table.all_heard("A B") == "[A B] [A B] a1 b1"
    assert table.said["Cast"] == 2
    assert [table[name].counters["duplicates"] for name in "AB"] == [0, 0]


def test_what_waits_for_a_view_goes_out_in_the_order_it_was_sent() -> None:
    for order in ("fifo", "total"):
        table = Table(order)
        table.sit("A B")
        table.send("A", "1 2")
        table.send("A", "now", plain=True)
        table.send("A", "3")
        assert not table["A"].settled
        table.view("A B")
        table.run()
        assert [text for text in table.heard("B").split() if text != "now"] == ["[A", "B]", "1", "2", "3"]
        assert "now" in table.heard("B")
        assert table["A"].settled


def test_a_turns_messages_go_out_together_cut_to_size() -> None:
    table = table_of("A B", cast_bytes_max=10)
    table.hold("B", "A")
    for size in (4, 4, 4, 25, 1, 9):
        table["B"].send(table.now, b"x" * size)
    table["B"].on_peer_up(table.now, "A")
    table.run(0)
    forwards = [part.part for _, _, part in table._held["B", "A"] if isinstance(part, Numbered)]
    sizes = [[len(each.payload) for each in part.bundles] for part in forwards if isinstance(part, Forward)]
    assert sizes[:4] == [[4, 4], [4], [25], [1, 9]]
    table.hold("A", "B")
    table.let_go("B", "A")
    casts = [part for _, _, part in table._held["A", "B"] if isinstance(part, Cast)]
    assert [len(each.payload) for part in casts for each in part.bundles] == [4, 4, 4, 25, 1, 9]
    assert all(sum(len(each.payload) for each in part.bundles) <= 10 or len(part.bundles) == 1 for part in casts)


def test_senders_are_told_to_wait() -> None:
    table = table_of("A B", forward_bytes_max=10)
    table.hold("B", "A")
    table.send("B", "x" * 10)
    assert not must_wait(table, "B")
    table.send("B", "x")
    assert must_wait(table, "B")
    table.let_go("B", "A")
    table.run()
    assert not must_wait(table, "B")


def test_who_has_no_view_yet_is_told_to_wait_too() -> None:
    table = Table("fifo")
    table.sit("A")
    table["A"].send(0, b"x" * OUTBOX_BYTES_MAX)
    assert not must_wait(table, "A")
    table["A"].send(0, b"x")
    assert must_wait(table, "A")
    table.view("A")
    table.run()
    assert not must_wait(table, "A")


@pytest.mark.parametrize("order", ["none", "fifo", "causal"])
def test_senders_wait_for_members_that_do_not_get_their_casts(order: str) -> None:
    table = table_of("A B", order, kept_bytes_max=10)
    table.lose("A", "B")
    table.send("A", "x" * 6)
    assert not must_wait(table, "A")
    table.send("A", "x" * 6)
    assert must_wait(table, "A")
    table.mend()
    table.run(2_000)
    assert not must_wait(table, "A")
    assert table.heard("B") == "[A B] xxxxxx xxxxxx"
