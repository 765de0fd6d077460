"""A member may leave when all have what it sent, whatever the others go on sending."""

from __future__ import annotations

import pytest

from octoloom.core.settling import Settling
from tests.core.group_table import Table


def table_of(members: str, order: str) -> Table:
    table = Table(order)
    table.sit(members)
    table.view(members)
    table.run()
    return table


def is_done(settling: Settling) -> bool:
    return settling.done


@pytest.mark.parametrize("order", ["none", "fifo", "causal", "total"])
@pytest.mark.parametrize("leaver", ["A", "B", "C"])
def test_it_is_done_while_the_others_speak_on_and_not_before_all_have_it(leaver: str, order: str) -> None:
    table = table_of("A B C", order)
    others = [name for name in "ABC" if name != leaver]
    far = next(name for name in "CB" if name != leaver)
    table.lose("A" if order == "total" else leaver, far, "Cast")
    table.send(leaver, "bye")
    settling = Settling(table[leaver])
    table.run(10)
    assert not settling.done
    assert "bye" not in table.heard(far)
    table.mend()
    speaker = next(name for name in "BC" if name != leaver)
    for _ in range(40):
        table.send(speaker, "on")
        if is_done(settling):
            break
        table.run(10)
    assert is_done(settling)
    assert all("bye" in table.heard(name) for name in others)
    assert not table[leaver].settled, "the others still speak"


def test_nothing_is_settled_without_a_view_or_while_one_ends() -> None:
    table = Table("fifo")
    table.sit("A B")
    table.send("A", "early")
    assert not Settling(table["A"]).done
    table.hold("B", "A")
    table.view("A B")
    assert not Settling(table["A"]).done
    table.let_go("B", "A")
    settling = Settling(table["A"])
    table.run()
    assert settling.done


def test_a_view_that_begins_settles_all_before_it() -> None:
    table = table_of("A B C", "fifo")
    table.lose("A", "B", "Stable")
    table.lose("A", "C", "Stable")
    table.send("B", "bye")
    settling = Settling(table["B"])
    table.run(200)
    assert not settling.done  # B does not hear that all have it
    table.crash("C")
    table.view("A B", ms=50)
    assert is_done(settling)
    assert "bye" in table.heard("A")
