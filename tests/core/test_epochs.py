"""Epochs: where each begins and ends, against a twin that looks at every record."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from octoloom.core.epochs import NO_EPOCH, Epochs

LOG = [(1, 0), (2, 10), (5, 12)]
"""Epoch 1 gave 0 to 9, epoch 2 gave 10 and 11, epoch 5 the rest; 3 and 4 had nothing to give."""


@pytest.mark.parametrize(
    ("epoch", "answer"),
    [(0, (NO_EPOCH, -1)), (1, (1, 10)), (2, (2, 12)), (3, (2, 12)), (4, (2, 12)), (5, (5, 20)), (9, (5, 20))],
)
def test_an_epoch_ends_where_the_next_one_begins_and_the_last_at_the_end(epoch: int, answer: tuple[int, int]) -> None:
    assert Epochs(LOG).end_of(epoch, 20) == answer


def test_an_empty_log_has_no_epoch() -> None:
    assert Epochs().last == NO_EPOCH
    assert Epochs().end_of(3, 0) == (NO_EPOCH, -1)
    assert Epochs().starts() == []


def test_only_the_first_batch_of_an_epoch_is_written_down() -> None:
    epochs = Epochs(LOG)
    epochs.add(5, 20)
    epochs.add(6, 25)
    epochs.add(6, 26)
    assert epochs.starts() == [*LOG, (6, 25)]
    assert epochs.last == 6


def test_what_it_was_made_of_and_what_it_gives_away_are_copies() -> None:
    starts = list(LOG)
    epochs = Epochs(starts)
    epochs.starts().append((9, 99))
    epochs.add(7, 30)
    assert starts == LOG
    assert epochs.last == 7


logs = st.lists(st.integers(0, 8), max_size=12).map(sorted)
"""The epoch of each record of a log."""


def epochs_of(log: list[int]) -> Epochs:
    epochs = Epochs()
    for offset, epoch in enumerate(log):
        epochs.add(epoch, offset)
    return epochs


@given(logs, st.integers(0, 9))
def test_an_end_is_right_behind_the_last_record_of_the_epoch_or_an_older_one(log: list[int], epoch: int) -> None:
    older = [known for known in log if known <= epoch]
    expected = (older[-1], len(older)) if older else (NO_EPOCH, -1)
    assert epochs_of(log).end_of(epoch, len(log)) == expected


@given(logs, st.data())
def test_two_logs_find_the_last_place_at_which_they_agree(truth: list[int], data: st.DataObject) -> None:
    """Each log is a beginning of one history, then goes its own way, in epochs that are its own.

    The follower asks with its last epoch, cuts, and asks again, until the leader finds nothing to cut.
    """
    one, other = (truth[: data.draw(st.integers(0, len(truth)))] for _ in range(2))
    leader = one + [epoch + 10 for epoch in data.draw(logs)]
    follower = other + [epoch + 20 for epoch in data.draw(logs)]
    shared = next((n for n, (a, b) in enumerate(zip(leader, follower, strict=False)) if a != b), None)
    agreed = min(len(leader), len(follower)) if shared is None else shared
    for _ in range(20):
        if not follower:
            break
        epoch, end = epochs_of(leader).end_of(follower[-1], len(leader))
        if epoch == follower[-1] and end >= len(follower):
            break
        _, ours = epochs_of(follower).end_of(epoch, len(follower))
        follower = follower[: max(min(end, ours), 0)]
    assert len(follower) == agreed
