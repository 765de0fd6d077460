"""What cannot be true of a change of views is refused: with an error of the right kind, a counter, nothing changed."""

from __future__ import annotations

import pytest

from octoloom.core.errors import ProtocolError
from octoloom.core.group_messages import Bundle, Cast, Cut, Fetch, Fill, Install, Numbered, Ready, Report
from tests.core.group_table import Table, table_of, view_of, visible


def frozen_table() -> tuple[Table, int]:
    """B waits for the coordinator A; the answer is the number of A's next part to B."""
    table = table_of("A B C", order="fifo")
    table.send("A", "1")
    table.run(0)
    table.hold("C", "A")
    table.view("A B C")
    assert table["B"].frozen
    return table, 2


@pytest.mark.parametrize(
    "union",
    [{"A": (2, [])}, {"A": (1, [3])}, {"B": (1, [])}, {"X": (1, [])}, {"X": (0, [])}],
)
def test_a_cut_that_lies_is_refused(union: dict[str, tuple[int, list[int]]]) -> None:
    table, number = frozen_table()
    before = visible(table["B"])
    with pytest.raises(ProtocolError, match="bad-cut"):
        table.hand("B", "A", Numbered(number, Cut(2, union)))
    assert visible(table["B"]) == before
    assert table["B"].counters["bad-cut"] == 1
    assert table.said["Ready"] == 0


@pytest.mark.parametrize("wanted", [("A", 2), ("A", 0), ("A", -1), ("X", 1)])
def test_a_fetch_of_what_is_not_here_is_refused(wanted: tuple[str, int]) -> None:
    table, number = frozen_table()
    before = visible(table["B"])
    with pytest.raises(ProtocolError, match="bad-fetch"):
        table.hand("B", "A", Numbered(number, Fetch(2, [wanted])))
    assert visible(table["B"]) == before


def test_a_fill_of_a_stranger_is_refused() -> None:
    table, number = frozen_table()
    before = visible(table["B"])
    cast = Cast(1, "X", 1, [Bundle("X", 1, 1, b"x")])
    with pytest.raises(ProtocolError, match="not-a-member"):
        table.hand("B", "A", Numbered(number, Fill(2, [cast])))
    assert visible(table["B"]) == before


HAVE: dict[str, tuple[int, list[int]]] = {"A": (1, []), "B": (0, []), "C": (0, [])}


@pytest.mark.parametrize(
    ("members", "epoch", "have"),
    [
        ("A B C", 1, {}),
        ("A B C", 1, HAVE | {"X": (3, [])}),
        ("A B C", 1, HAVE | {"C": (0, [5])}),
        ("A B C", 1, HAVE | {"A": (-3, [])}),
        ("A B C", 1, HAVE | {"A": (1, [-1])}),
        ("A B C", 1, HAVE | {"A": (3, [4])}),
        ("A B C", 7, HAVE),
        ("A B C", 2, HAVE),
        ("A B", 1, {"A": (1, []), "B": (0, [])}),
        ("", 1, {}),
    ],
    ids=[
        "of nothing",
        "of a stranger",
        "of a hole in its own",
        "of less than nothing",
        "of numbers that are none",
        "of numbers in the wrong place",
        "from the future",
        "from this view",
        "from a view that it was not in",
        "from a view that nobody was in",
    ],
)
def test_a_report_that_cannot_be_true_is_refused(
    members: str, epoch: int, have: dict[str, tuple[int, list[int]]]
) -> None:
    table, _ = frozen_table()
    before = visible(table["A"])
    with pytest.raises(ProtocolError, match="bad-report"):
        table.hand("A", "C", Numbered(2, Report(2, install(members, epoch, 0), have)))
    assert visible(table["A"]) == before
    assert table["A"].counters["bad-report"] == 1


@pytest.mark.parametrize("vector", [{}, {"A": (0, 0), "B": (0, 0)}, {"A": (0, 0), "B": (0, -1), "C": (0, 0)}])
def test_a_report_of_an_installation_without_a_whole_vector_is_refused(vector: dict[str, tuple[int, int]]) -> None:
    table, _ = frozen_table()
    last = Install(view_of("A B C", 1, "fifo"), 0, {}, vector, [])
    with pytest.raises(ProtocolError, match="bad-report"):
        table.hand("A", "C", Numbered(2, Report(2, last, HAVE)))


def test_a_report_that_comes_early_and_cannot_be_true_is_forgotten() -> None:
    table = table_of("A B", order="fifo")
    table.hand("A", "B", Numbered(2, Report(2, install("A B", 1, 0), {"X": (3, [])})))
    table.view("A B", only="A")
    assert table["A"].frozen
    assert table.said["Cut"] == 0


@pytest.mark.parametrize("part", [Report(2, None, {}), Ready(2)])
def test_only_the_coordinator_is_reported_to(part: Report | Ready) -> None:
    table, _ = frozen_table()
    before = visible(table["B"])
    with pytest.raises(ProtocolError, match="not-coordinator"):
        table.hand("B", "C", Numbered(1, part))
    assert visible(table["B"]) == before


def install(members: str, epoch: int, previous: int, order: str = "fifo") -> Install:
    return Install(view_of(members, epoch, order), previous, {}, dict.fromkeys(members.split(), (0, 0)), [])


@pytest.mark.parametrize(
    ("peer", "part"),
    [
        ("C", install("A B C", 2, 1)),
        ("A", install("A B C", 2, 7)),
        ("A", install("A B C", 3, 1)),
        ("A", install("A B C", 1, 0)),
    ],
    ids=["not from the coordinator", "of other ancestors", "of the future", "of the past"],
)
def test_an_installation_that_nobody_expects_does_nothing(peer: str, part: Install) -> None:
    table, number = frozen_table()
    before = visible(table["B"])
    table.hand("B", peer, Numbered(number if peer == "A" else 1, part))
    assert visible(table["B"]) == before
    assert table.heard("B") == "[A B C] 1"


def test_an_installation_without_a_transition_does_nothing() -> None:
    table = table_of("A B", order="fifo")
    before = visible(table["B"])
    table.hand("B", "A", Numbered(2, install("A B", 2, 1)))
    assert visible(table["B"]) == before


@pytest.mark.parametrize(
    "part",
    [
        install("A B", 2, 1),
        install("A B C", 2, 1, "total"),
        Install(view_of("A B C", 2, "fifo"), 1, {}, {"A": (1, 1), "B": (0, 0)}, []),
        Install(view_of("A B C", 2, "fifo"), 1, {}, {"A": (1, 1), "B": (0, 0), "C": (-1, 0)}, []),
    ],
    ids=["other members", "another order", "a vector too short", "a negative count"],
)
def test_an_installation_of_another_view_than_the_register_announced_is_refused(part: Install) -> None:
    table, number = frozen_table()
    before = visible(table["B"])
    with pytest.raises(ProtocolError, match="bad-install"):
        table.hand("B", "A", Numbered(number, part))
    assert visible(table["B"]) == before
    assert table["B"].counters["bad-install"] == 1
