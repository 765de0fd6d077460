"""The producer table: each rule by itself, and against a twin that keeps every batch in a list."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from octoloom.core.producers import REMEMBERED, SEQUENCES, ProducerTable, Verdict

ADA = 7


def table(*batches: tuple[int, int], epoch: int = 0, producer: int = ADA) -> ProducerTable:
    """(sequence, count) of each batch that is in the log, from offset 100 on, ten offsets apart."""
    made = ProducerTable()
    for number, (sequence, count) in enumerate(batches):
        made.add(producer, epoch, sequence, count, 100 + 10 * number)
    return made


@pytest.mark.parametrize(
    ("sequence", "count", "verdict", "offset"),
    [
        (9, 1, Verdict.TAKEN, -1),
        (9, 1000, Verdict.TAKEN, -1),
        (0, 3, Verdict.TAKEN, 100),
        (3, 5, Verdict.TAKEN, 110),
        (8, 1, Verdict.TAKEN, 120),
        (10, 1, Verdict.OUT_OF_ORDER, -1),
        (3, 4, Verdict.OUT_OF_ORDER, -1),
        (3, 6, Verdict.OUT_OF_ORDER, -1),
        (4, 4, Verdict.OUT_OF_ORDER, -1),
        (0, 8, Verdict.OUT_OF_ORDER, -1),
    ],
)
def test_a_batch_is_next_or_known_or_out_of_order(sequence: int, count: int, verdict: Verdict, offset: int) -> None:
    assert table((0, 3), (3, 5), (8, 1)).check(ADA, 0, sequence, count, whole=True) == (verdict, offset)


def test_a_check_changes_nothing() -> None:
    made = table((0, 3))
    before = made.snapshot()
    for sequence in (0, 3, 4):
        made.check(ADA, 1, sequence, 2, whole=True)
        made.check(99, 0, sequence, 2, whole=False)
    assert made.snapshot() == before


def test_what_is_older_than_the_remembered_batches_was_taken_once() -> None:
    made = table(*((number, 1) for number in range(REMEMBERED + 2)))
    assert made.check(ADA, 0, 2, 1, whole=True) == (Verdict.TAKEN, 120)
    assert made.check(ADA, 0, 1, 1, whole=True) == (Verdict.DUPLICATE, -1)
    assert made.check(ADA, 0, 0, 1, whole=True) == (Verdict.DUPLICATE, -1)


@pytest.mark.parametrize(
    ("sequence", "whole", "verdict"),
    [
        (0, True, Verdict.TAKEN),
        (0, False, Verdict.TAKEN),
        (5, True, Verdict.OUT_OF_ORDER),
        (5, False, Verdict.UNKNOWN_PRODUCER),
    ],
)
def test_a_stranger_begins_at_nought_unless_its_beginning_may_be_gone(
    sequence: int, whole: bool, verdict: Verdict
) -> None:
    assert ProducerTable().check(ADA, 0, sequence, 1, whole) == (verdict, -1)


def test_a_new_epoch_begins_at_nought_and_fences_the_older() -> None:
    made = table((0, 3), epoch=4)
    assert made.check(ADA, 5, 3, 1, whole=True) == (Verdict.OUT_OF_ORDER, -1)
    assert made.check(ADA, 5, 0, 3, whole=True) == (Verdict.TAKEN, -1)
    assert made.check(ADA, 3, 0, 3, whole=True) == (Verdict.FENCED, -1)
    made.add(ADA, 5, 0, 3, 200)
    assert made.check(ADA, 4, 0, 3, whole=True) == (Verdict.FENCED, -1)
    assert made.check(ADA, 5, 0, 3, whole=True) == (Verdict.TAKEN, 200)


def test_sequences_wrap_round() -> None:
    last = SEQUENCES - 1
    made = table((last - 1, 2))
    assert made.check(ADA, 0, 0, 1, whole=True) == (Verdict.TAKEN, -1)
    assert made.check(ADA, 0, last - 1, 2, whole=True) == (Verdict.TAKEN, 100)
    made = table((last, 3))  # numbers last, 0 and 1
    assert made.check(ADA, 0, last, 3, whole=True) == (Verdict.TAKEN, 100)
    assert made.check(ADA, 0, 2, 1, whole=True) == (Verdict.TAKEN, -1)
    assert made.check(ADA, 0, last - 1, 1, whole=True) == (Verdict.DUPLICATE, -1)
    assert made.check(ADA, 0, 3, 1, whole=True) == (Verdict.OUT_OF_ORDER, -1)


def test_producers_do_not_disturb_each_other() -> None:
    made = table((0, 3))
    made.add(8, 0, 0, 1, 500)
    assert made.check(ADA, 0, 3, 1, whole=True) == (Verdict.TAKEN, -1)
    assert made.check(8, 0, 1, 1, whole=True) == (Verdict.TAKEN, -1)
    assert made.check(8, 0, 3, 1, whole=True) == (Verdict.OUT_OF_ORDER, -1)


def test_the_producer_that_was_silent_for_longest_is_forgotten() -> None:
    made = ProducerTable(producers_max=3)
    for producer in (1, 2, 3):
        made.add(producer, 0, 0, 1, producer)
    made.add(1, 0, 1, 1, 10)
    made.add(4, 0, 0, 1, 11)
    assert [saved.id for saved in made.snapshot()] == [3, 1, 4]
    assert made.check(2, 0, 1, 1, whole=False) == (Verdict.UNKNOWN_PRODUCER, -1)
    assert len(made) == 3


class Twin:
    """Every batch of every producer, for ever."""

    def __init__(self) -> None:
        self.batches: list[tuple[int, int, int, int, int]] = []

    def check(self, producer: int, epoch: int, sequence: int, count: int) -> tuple[Verdict, int]:
        mine = [batch for batch in self.batches if batch[0] == producer]
        if not mine:
            return (Verdict.TAKEN if sequence == 0 else Verdict.OUT_OF_ORDER), -1
        if epoch < mine[-1][1]:
            return Verdict.FENCED, -1
        mine = [batch for batch in mine if batch[1] == epoch]
        if not mine:
            return (Verdict.TAKEN if sequence == 0 else Verdict.OUT_OF_ORDER), -1
        if sequence == mine[-1][2] + mine[-1][3]:
            return Verdict.TAKEN, -1
        for _, _, first, length, offset in mine[-REMEMBERED:]:
            if (first, length) == (sequence, count):
                return Verdict.TAKEN, offset
        return (Verdict.DUPLICATE if sequence < mine[-REMEMBERED:][0][2] else Verdict.OUT_OF_ORDER), -1


batches = st.tuples(st.integers(1, 2), st.integers(0, 2), st.integers(0, 12), st.integers(1, 3))


@given(st.lists(st.one_of(batches, st.just("next"), st.just("restore")), max_size=60))
def test_the_table_is_a_list_of_all_batches(history: list[tuple[int, int, int, int] | str]) -> None:
    made, twin, offset = ProducerTable(), Twin(), 0
    for step in history:
        if step == "restore":
            made = ProducerTable.restore(made.snapshot())
            continue
        if isinstance(step, str):  # the one that follows the last, so that histories become long
            producer, epoch, first, length = twin.batches[-1][:4] if twin.batches else (1, 0, 0, 0)
            step = (producer, epoch, first + length, 1)
        verdict = made.check(*step, whole=True)
        assert verdict == twin.check(*step)
        if verdict == (Verdict.TAKEN, -1):
            made.add(*step, offset)
            twin.batches.append((*step, offset))
            offset += step[3]


def test_each_of_the_five_batches_that_clients_may_have_in_flight_is_known_again() -> None:
    made = table(*((number, 1) for number in range(5)))
    assert [made.check(ADA, 0, number, 1, whole=True) for number in range(5)] == [
        (Verdict.TAKEN, 100 + 10 * number) for number in range(5)
    ]
