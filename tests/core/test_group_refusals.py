"""What a member refuses: with an error of the right kind, a counter, and nothing changed."""

from __future__ import annotations

import pytest

from octoloom.core.errors import ProtocolError, UsageError
from octoloom.core.group import EARLY_MAX
from octoloom.core.group_effects import Expelled
from octoloom.core.group_messages import (
    Acked,
    Bundle,
    Cast,
    Delay,
    Direct,
    Forward,
    Have,
    Nak,
    Numbered,
    Part,
    Refused,
    Resent,
    Stable,
    State,
)
from tests.core.group_table import Table, table_of, view_of, visible


def cast(sender: str, number: int, epoch: int = 1, origin: str = "", **rest: object) -> Cast:
    return Cast(epoch, sender, number, [Bundle(origin or sender, number, 1, b"x")], **rest)  # type: ignore[arg-type]


def with_traffic(order: str) -> Table:
    """A sent 1 and 2, B sent 3: all members have all of it, and know that."""
    table = table_of("A B C", order)
    table.send("A", "1 2")
    table.send("B", "3")
    table.run()
    return table


def refuses(table: Table, to: str, peer: str, part: Part, code: str) -> None:
    before, counted = visible(table[to]), table[to].counters[code]
    with pytest.raises(ProtocolError) as refusal:
        table.hand(to, peer, part)
    assert refusal.value.code == code
    assert table[to].counters[code] == counted + 1
    assert visible(table[to]) == before
    assert "x" not in table.heard(to)


# Casts.


@pytest.mark.parametrize("order", ["none", "fifo", "causal", "total"])
def test_a_packet_of_somebody_who_is_no_member(order: str) -> None:
    table = with_traffic(order)
    for part in (cast("X", 1), Resent([cast("A", 3)]), Acked(1), Numbered(1, Direct(b"x")), Have(1, [9, 9, 9])):
        refuses(table, "B", "X", part, "not-a-member")
    refuses(table, "B", "B", cast("B", 9), "not-a-member")


@pytest.mark.parametrize("order", ["none", "fifo", "causal", "total"])
def test_a_cast_in_the_name_of_another(order: str) -> None:
    table = with_traffic(order)
    refuses(table, "C", "B", cast("A", 3 + (order == "total")), "forged-sender")


@pytest.mark.parametrize("order", ["none", "fifo", "causal"])
def test_a_cast_of_what_another_wrote(order: str) -> None:
    refuses(with_traffic(order), "C", "B", cast("B", 2, origin="A", stamp=[2, 2, 0]), "forged-sender")


def test_a_plain_cast_of_what_another_wrote() -> None:
    refuses(with_traffic("total"), "C", "A", cast("A", 4, origin="B", plain=True), "forged-sender")


@pytest.mark.parametrize("order", ["none", "fifo", "causal", "total"])
@pytest.mark.parametrize("number", [0, -1, -(2**40)])
def test_a_cast_with_a_number_that_there_is_not(order: str, number: int) -> None:
    refuses(with_traffic(order), "C", "A", cast("A", number, stamp=[number, 1, 0]), "forged-sequence")


def test_a_cast_of_nothing() -> None:
    refuses(with_traffic("total"), "C", "A", Cast(1, "A", 4, []), "forged-sequence")


@pytest.mark.parametrize("order", ["fifo", "causal", "total"])
def test_a_cast_from_far_ahead_is_not_taken(order: str) -> None:
    table = with_traffic(order)
    before = visible(table["C"])
    table.hand("C", "A", cast("A", 10**9, stamp=[10**9, 1, 0]))
    assert visible(table["C"]) == before
    assert table["C"].counters["no-room"] == 1


@pytest.mark.parametrize("order", ["none", "fifo", "causal", "total"])
def test_a_resent_cast_of_a_stranger(order: str) -> None:
    refuses(with_traffic(order), "C", "A", Resent([cast("X", 1)]), "not-a-member")


@pytest.mark.parametrize("order", ["none", "fifo", "causal", "total"])
def test_a_resent_cast_in_ones_own_name_that_one_never_sent(order: str) -> None:
    table = with_traffic(order)
    for number in (4, 1_000):
        refuses(table, "A", "B", Resent([cast("A", number, stamp=[number, 0, 0])]), "forged-sender")


@pytest.mark.parametrize("order", ["none", "fifo", "causal", "total"])
def test_a_cast_that_was_there_before_is_a_duplicate_whatever_it_says(order: str) -> None:
    table = with_traffic(order)
    before = visible(table["C"])
    table.hand("C", "A", cast("A", 2, stamp=[2, 0, 0]))
    assert visible(table["C"]) == before
    assert table["C"].counters["duplicates"] == 1
    assert "x" not in table.heard("C")


def test_a_bundle_that_was_ordered_before_is_not_delivered_again() -> None:
    table = with_traffic("total")
    before = table.heard("C")
    table.hand("C", "A", Cast(1, "A", 4, [Bundle("B", 1, 1, b"x"), Bundle("A", 2, 1, b"x"), Bundle("A", 3, 1, b"new")]))
    assert table.heard("C") == before + " new"
    assert table["C"].counters["duplicates"] == 2


def test_a_cast_of_an_old_view() -> None:
    table = with_traffic("fifo")
    table.view("A B C")
    before = visible(table["C"])
    table.hand("C", "A", cast("A", 3), Nak(1, [("A", 1, 2)]), Have(1, [9, 9, 9]), Stable(1, [9, 9, 9], [9, 9, 9]))
    assert visible(table["C"]) == before
    assert table["C"].counters["old-view"] == 4
    assert table["C"].counters.total() == 4 + table["C"].counters["resent"]


def test_only_the_coordinator_casts_in_total_order() -> None:
    refuses(with_traffic("total"), "C", "B", cast("B", 1), "not-coordinator")


@pytest.mark.parametrize(
    "stamp",
    [[], [3], [3, 1], [3, 1, 0, 0], [2, 1, 0], [4, 1, 0], [3, 1, 1], [3, 0, 0], [3, -1, 0], [3, 1, -1]],
)
def test_a_stamp_that_cannot_be(stamp: list[int]) -> None:
    """Too short, too long, of another number, of casts that C never sent, of less than lies before the view."""
    table = with_traffic("causal")
    table.view("A B C")
    refuses(table, "C", "A", cast("A", 3, epoch=2, stamp=stamp), "bad-stamp")


def test_a_forged_cast_that_comes_early_does_no_harm_when_its_view_begins() -> None:
    table = table_of("A B C", "causal")
    table.hold("A", "C")
    table.view("A B C")
    table.hand("C", "B", cast("B", 1, epoch=2, stamp=[7]))
    table.send("B", "1")
    table.run(0)
    table.let_go("A", "C")
    assert table.heard("C") == "[A B C] [A B C] 1"
    assert table["C"].counters["bad-stamp"] == 1
    assert table.seats["C"].errors == [], "it is not the fault of who said that the view begins"


def test_only_so_many_casts_of_views_to_come_are_kept() -> None:
    table = table_of("A B", "fifo")
    for number in range(1, EARLY_MAX + 3):
        table.hand("B", "A", cast("A", number, epoch=9))
    assert table["B"].counters["no-room"] == 2


# Words about casts.


@pytest.mark.parametrize("counts", [[], [1, 1], [1, 1, 1, 1]])
def test_counts_of_another_size(counts: list[int]) -> None:
    table = with_traffic("fifo")
    refuses(table, "A", "B", Have(1, counts), "bad-counts")
    refuses(table, "B", "A", Stable(1, counts, [9, 9, 9]), "bad-counts")
    refuses(table, "B", "A", Stable(1, [9, 9, 9], counts), "bad-counts")


def test_counts_to_and_from_who_does_not_lead() -> None:
    table = with_traffic("fifo")
    refuses(table, "B", "C", Have(1, [9, 9, 9]), "bad-counts")
    refuses(table, "B", "C", Stable(1, [9, 9, 9], [9, 9, 9]), "bad-counts")


def test_negative_counts_say_nothing() -> None:
    table = with_traffic("fifo")
    before = visible(table["A"]), visible(table["B"])
    table.hand("A", "B", Have(1, [-1, -9, -1]))
    table.hand("B", "A", Stable(1, [-1, -9, -1], [-5, -5, -5]))
    table.run()
    assert (visible(table["A"]), visible(table["B"])) == before


@pytest.mark.parametrize(
    "missing",
    [
        ("A", -5, -1),
        ("A", -(10**12), 10**12),
        ("A", 5, 2),
        ("A", 3, 10**12),
        ("A", 10**12, 10**12 + 9),
        ("X", 1, 9),
        ("C", 1, 9),
        ("A", 1, 2),
    ],
)
def test_a_request_for_what_nobody_can_lack_is_answered_with_nothing(missing: tuple[str, int, int]) -> None:
    table = with_traffic("fifo")
    before = visible(table["A"])
    table.hand("A", "B", Nak(1, [missing] * 100))
    assert visible(table["A"]) == before
    assert table.said["Resent"] == 0


def test_a_long_request_is_answered_in_pieces_and_only_once() -> None:
    table = table_of("A B", "fifo", nak_ms=60_000)
    table.lose("A", "B", "Cast")
    table.send("A", " ".join(["x"] * 600))
    table.run(0)
    table.hold("A", "B")
    table.hand("A", "B", Nak(1, [("A", 1, 10**12)] * 500))
    resent = [part for _, _, part in table._held["A", "B"] if isinstance(part, Resent)]
    assert sum(len(part.casts) for part in resent) == 512
    assert len(resent) > 1


# Numbered parts.


@pytest.mark.parametrize("number", [0, -1])
def test_a_part_that_is_not_numbered_from_1(number: int) -> None:
    refuses(with_traffic("total"), "C", "B", Numbered(number, Direct(b"x")), "forged-sequence")


def test_an_acknowledgement_of_what_was_never_sent() -> None:
    table = with_traffic("total")
    refuses(table, "C", "B", Acked(1), "forged-sequence")
    refuses(table, "B", "A", Acked(10**9), "forged-sequence")


@pytest.mark.parametrize(
    "bundles",
    [
        [Bundle("B", 3, 1, b"x")],
        [Bundle("B", 2, 1, b"x"), Bundle("B", 4, 1, b"x")],
        [Bundle("B", 2, 1, b"x"), Bundle("C", 3, 1, b"x")],
        [Bundle("C", 2, 1, b"x")],
        [Bundle("X", 2, 1, b"x")],
    ],
    ids=["a gap", "a gap behind one that is right", "another's behind", "another's", "a stranger's"],
)
def test_a_forward_out_of_sequence_is_refused_and_answered(bundles: list[Bundle]) -> None:
    table = with_traffic("total")
    table.hold("A", "B")
    refuses(table, "A", "B", Numbered(3, Forward(1, bundles)), "forged-sequence")
    answers = [part.part for _, _, part in table._held["A", "B"] if isinstance(part, Numbered)]
    assert [answer.code for answer in answers if isinstance(answer, Refused)] == ["forged-sequence"]
    assert "Cast" not in table.in_the_air("A", "B")


@pytest.mark.parametrize(
    ("to", "epoch"), [("A", 2), ("A", 0), ("B", 1)], ids=["of the future", "of the past", "to who does not lead"]
)
def test_a_forward_in_the_wrong_view_is_answered(to: str, epoch: int) -> None:
    table = with_traffic("total")
    before = visible(table[to])
    table.hand(to, "C", Numbered(2 - (to == "B"), Forward(epoch, [Bundle("C", 1, 1, b"x")])))
    assert visible(table[to]) == before
    assert table[to].counters["wrong-view"] == 1
    table.run(0)
    assert table["C"].counters["refused"] == 1


def test_a_forward_while_another_order_reigns_is_answered() -> None:
    table = with_traffic("fifo")
    table.hand("A", "B", Numbered(2, Forward(1, [Bundle("B", 2, 1, b"x")])))
    table.run(0)
    assert table["B"].counters["refused"] == 1


def test_a_forward_that_is_refused_in_a_dying_view_goes_out_in_the_next() -> None:
    table = table_of("A B C")
    view = view_of("A B C", 2)
    table.tell(view, "A")
    table.send("B", "1 2")
    table.run(0)
    assert table["B"].counters["refused"] == 2
    table.tell(view, "B C")
    table.run()
    assert table.all_heard("A B C") == "[A B C] [A B C] 1 2"


@pytest.mark.parametrize("delay_ms", [-1, -(10**9)])
def test_a_delay_cannot_be_negative(delay_ms: int) -> None:
    table = with_traffic("fifo")
    with pytest.raises(UsageError, match="0 ms or more"):
        table["A"].set_minimum_delay(table.now, "B", delay_ms)
    refuses(table, "B", "C", Numbered(1, Delay(delay_ms)), "bad-delay")


# What an app, or a register, asks for.


def test_who_does_not_know_the_order_of_its_group_is_out_of_it_and_told_why() -> None:
    table = with_traffic("fifo")
    table.tell(view_of("A B C", 2, "alphabetical"), "B")
    assert table["B"].expelled
    assert table.seats["B"].effects == [
        Expelled(2, [], "the group's order is now 'alphabetical', which is not known here")
    ]
    table.epoch = 2
    table.view("A C", "total")
    assert table.heard("A") == "[A B C] 3 [A C]"
    assert table.heard("C") == "[A B C] 1 2 3 [A C]"


def test_a_payload_that_is_too_large() -> None:
    table = table_of("A B", payload_max=10)
    before = visible(table["B"])
    for plain in (False, True):
        with pytest.raises(UsageError, match="at most 10 bytes here, not 11"):
            table["B"].send(table.now, b"x" * 11, plain=plain)
    with pytest.raises(UsageError, match="at most 10 bytes"):
        table["B"].send_to(table.now, "A", b"x" * 11)
    table.run()
    assert visible(table["B"]) == before
    table.send("B", "x" * 10)
    table.run()
    assert table.heard("A") == "[A B] xxxxxxxxxx"


@pytest.mark.parametrize("name", ["X", "B", ""])
def test_a_message_or_a_delay_to_who_is_not_there(name: str) -> None:
    table = table_of("A B")
    before = visible(table["B"])
    with pytest.raises(UsageError, match="is not in room: choose one of A"):
        table["B"].send_to(table.now, name, b"x")
    with pytest.raises(UsageError, match="choose one of A"):
        table["B"].set_minimum_delay(table.now, name, 5)
    assert visible(table["B"]) == before
    lonely = table_of("A")
    with pytest.raises(UsageError, match="nobody, yet"):
        lonely["A"].send_to(0, "B", b"x")


def test_who_is_out_can_say_nothing_and_hears_nothing() -> None:
    table = table_of("A B")
    table.view("A")
    with pytest.raises(UsageError, match="join again"):
        table["B"].send(table.now, b"x")
    with pytest.raises(UsageError, match="join again"):
        table["B"].send_to(table.now, "A", b"x")
    table.hand("B", "A", cast("A", 1))
    table.tell(view_of("A B", 9), "B")
    table.run()
    assert table.heard("B") == "[A B]"
    assert table["B"].deadline() is None


def test_a_state_that_nobody_waits_for_is_ignored() -> None:
    table = with_traffic("total")
    before = table.heard("C"), visible(table["C"])
    table.hand("C", "B", Numbered(1, State(1, b"x")))
    assert (table.heard("C"), visible(table["C"])) == before
