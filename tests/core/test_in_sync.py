"""A leader's book about its followers: who counts when, who joins, who leaves."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from octoloom.core.in_sync import REFUSED_MS, InSync
from octoloom.core.log_messages import PartitionState

LAG_MS = 1000


def state(*in_sync: str, version: int = 1) -> PartitionState:
    return PartitionState("a", 3, list(in_sync), ["a", "b", "c"], version)


def leading(*in_sync: str, end: int = 10) -> InSync:
    """The log of `a` ends at 10 when it begins to lead, at time 0."""
    return InSync(0, "a", state(*in_sync), end, LAG_MS)


# The watermark.


@pytest.mark.parametrize(
    ("durable", "b", "c", "watermark"),
    [(10, 10, 10, 10), (8, 10, 10, 8), (10, 9, 10, 9), (10, 9, 7, 7), (10, 0, 10, 0)],
)
def test_the_watermark_is_where_the_slowest_member_is_and_the_own_disk_is_one(
    durable: int, b: int, c: int, watermark: int
) -> None:
    book = leading("a", "b", "c")
    book.on_durable(0, "b", b, 10)
    book.on_durable(0, "c", c, 10)
    assert book.watermark(durable) == watermark


def test_a_member_that_was_not_heard_yet_holds_everything_back() -> None:
    book = leading("a", "b")
    assert book.watermark(10) == -1
    book.on_durable(0, "b", 0, 10)
    assert book.watermark(10) == 0


def test_whoever_is_not_in_the_set_does_not_count() -> None:
    book = leading("a")
    book.on_durable(0, "b", 3, 10)
    assert book.watermark(10) == 10


def test_a_follower_that_asks_again_from_further_back_has_not_lost_what_it_had() -> None:
    book = leading("a", "b")
    book.on_durable(0, "b", 9, 10)
    book.on_durable(1, "b", 4, 10)
    assert book.watermark(10) == 9


# Joining.


def test_a_follower_joins_with_everything_that_the_leader_had_when_it_began() -> None:
    """The watermark may be older than what was committed: only the end at which it began is sure to cover that."""
    book = leading("a", end=10)
    book.on_durable(0, "b", 9, 10)
    assert book.weigh(0, end=10, high=5) is None
    book.on_durable(1, "b", 10, 10)
    assert book.weigh(1, end=12, high=5) == ["a", "b"]


def test_a_follower_joins_with_all_below_the_watermark_and_need_not_have_the_end() -> None:
    book = leading("a", end=10)
    book.on_durable(0, "b", 14, 20)
    assert book.weigh(0, end=20, high=15) is None
    book.on_durable(1, "b", 15, 20)
    assert book.weigh(1, end=20, high=15) == ["a", "b"]


def test_a_follower_that_hung_up_does_not_join() -> None:
    book = leading("a")
    book.on_durable(0, "b", 10, 10)
    book.on_gone("b")
    assert book.weigh(0, end=10, high=10) is None
    assert book.followers == {}


def test_a_joiner_counts_from_the_proposal_on() -> None:
    book = leading("a")
    book.on_durable(0, "b", 10, 10)
    assert book.watermark(20) == 20
    assert book.weigh(0, end=10, high=10) == ["a", "b"]
    assert book.watermark(20) == 10
    assert book.size == 1
    book.on_state(1, state("a", "b", version=2))
    assert book.watermark(20) == 10
    assert (book.size, book.proposal) == (2, None)


def test_a_joiner_that_was_refused_does_not_count_and_is_proposed_again_after_a_while() -> None:
    book = leading("a")
    book.on_durable(0, "b", 10, 10)
    book.weigh(0, end=10, high=10)
    book.on_refused(5, version=1)
    assert book.watermark(20) == 20
    book.on_durable(6, "b", 20, 20)
    assert book.weigh(5 + REFUSED_MS - 1, end=20, high=20) is None
    assert book.weigh(5 + REFUSED_MS, end=20, high=20) == ["a", "b"]


def test_a_refusal_of_an_older_version_is_not_about_this_proposal() -> None:
    book = leading("a")
    book.on_state(0, state("a", version=2))
    book.on_durable(0, "b", 10, 10)
    book.weigh(0, end=10, high=10)
    book.on_refused(1, version=1)
    assert book.proposal == ["a", "b"]
    assert book.watermark(20) == 10


def test_a_joiner_that_hangs_up_counts_until_it_is_decided() -> None:
    book = leading("a")
    book.on_durable(0, "b", 10, 10)
    book.weigh(0, end=10, high=10)
    book.on_gone("b")
    assert book.watermark(20) == 10
    book.on_refused(1, version=1)
    assert book.watermark(20) == 20
    assert book.followers == {}


# Leaving.


def test_a_member_that_lags_counts_until_the_register_took_it_out() -> None:
    book = leading("a", "b")
    book.on_durable(0, "b", 10, 10)
    assert book.weigh(LAG_MS - 1, end=20, high=10) is None
    assert book.weigh(LAG_MS, end=20, high=10) == ["a"]
    assert book.watermark(20) == 10
    book.on_state(LAG_MS + 5, state("a", version=2))
    assert book.watermark(20) == 20


def test_the_time_to_leave_runs_from_when_a_member_had_everything() -> None:
    book = leading("a", "b")
    book.on_durable(0, "b", 5, 10)
    book.on_durable(500, "b", 10, 10)
    assert book.weigh(500 + LAG_MS - 1, end=20, high=10) is None
    assert book.weigh(500 + LAG_MS, end=20, high=10) == ["a"]


def test_a_member_that_the_register_keeps_is_not_left_out() -> None:
    book = leading("a", "b")
    assert book.weigh(LAG_MS, end=20, high=10) == ["a"]
    book.on_refused(LAG_MS + 1, version=1)
    assert book.watermark(20) == -1
    assert book.weigh(LAG_MS + 1 + REFUSED_MS, end=20, high=10) == ["a"]


def test_one_proposal_at_a_time() -> None:
    book = leading("a", "b")
    assert book.weigh(LAG_MS, end=20, high=10) == ["a"]
    book.on_durable(LAG_MS + 1, "c", 20, 20)
    assert book.weigh(LAG_MS + 1, end=20, high=10) is None
    book.on_state(LAG_MS + 2, state("a", version=2))
    assert book.weigh(LAG_MS + 2, end=20, high=10) == ["a", "c"]


def test_the_set_stays_as_it_is_while_everybody_keeps_up() -> None:
    book = leading("a", "b", "c")
    for now in range(0, 5 * LAG_MS, 100):
        for follower in ("b", "c"):
            book.on_durable(now, follower, now, now)
        assert book.weigh(now, end=now, high=now) is None


def test_a_member_that_is_always_a_little_behind_keeps_up() -> None:
    """The end moves on all the time; each time the member has what there was when it was heard last."""
    book = leading("a", "b", end=0)
    for now in range(100, 10 * LAG_MS, 100):
        book.on_durable(now, "b", durable=now - 100, end=now)
        assert book.weigh(now, end=now, high=now - 100) is None


def test_a_member_that_falls_further_behind_all_the_time_leaves() -> None:
    book = leading("a", "b", end=0)
    for now in range(100, LAG_MS + 100, 100):
        assert book.weigh(now, end=now, high=0) is None
        book.on_durable(now, "b", durable=now // 2, end=now)
    assert book.weigh(LAG_MS + 200, end=LAG_MS + 200, high=0) == ["a"]


def test_a_member_that_has_everything_stays_however_long_it_is_silent() -> None:
    book = leading("a", "b")
    book.on_durable(0, "b", 10, 10)
    book.on_gone("b")
    assert book.weigh(100 * LAG_MS, end=10, high=10) is None
    assert book.watermark(10) == 10


def test_a_record_after_a_long_silence_leaves_nobody_behind() -> None:
    book = leading("a", "b")
    book.on_durable(0, "b", 10, 10)
    for now in range(0, 10 * LAG_MS, LAG_MS // 4):
        assert book.weigh(now, 10, 10) is None
    assert book.weigh(10 * LAG_MS, 11, 10) is None
    assert book.weigh(11 * LAG_MS, 11, 10) == ["a"]


def test_a_new_leader_gives_its_members_time_to_find_it() -> None:
    book = leading("a", "b", "c")
    assert book.weigh(LAG_MS - 1, end=20, high=0) is None
    assert book.weigh(LAG_MS, end=20, high=0) == ["a"]


def test_a_member_that_the_leader_has_forgotten_holds_everything_back_until_it_is_heard() -> None:
    """It hung up when its proposal seemed refused, and the register had taken it all the same."""
    book = leading("a")
    book.on_state(0, state("a", "c", version=2))
    assert book.watermark(10) == -1
    book.on_durable(1, "c", 9, 10)
    assert book.watermark(10) == 9


def test_the_register_may_take_a_member_out_by_itself() -> None:
    book = leading("a", "b", "c")
    book.on_durable(0, "c", 10, 10)
    book.on_state(1, state("a", "c", version=2))
    assert book.watermark(10) == 10
    assert list(book.followers) == ["c"]


MEMBERS = ("b", "c")
steps = st.lists(
    st.one_of(
        st.tuples(st.just("write"), st.integers(1, 5), st.just("")),
        st.tuples(st.just("durable"), st.integers(0, 30), st.sampled_from(MEMBERS)),
        st.tuples(st.just("gone"), st.just(0), st.sampled_from(MEMBERS)),
        st.tuples(st.just("wait"), st.sampled_from([10, LAG_MS]), st.just("")),
        st.tuples(st.just("decide"), st.just(0), st.just("")),
        st.tuples(st.just("refuse"), st.just(0), st.just("")),
        st.tuples(st.just("lose"), st.just(0), st.sampled_from(MEMBERS)),
    ),
    max_size=40,
)


@given(steps)
def test_whoever_the_register_may_count_on_has_everything_committed(history: list[tuple[str, int, str]]) -> None:
    """The register may have taken the proposal already, or not: both sets hold everything below the watermark."""
    book, now, end, high = leading("a", end=0), 0, 0, 0
    held = dict.fromkeys(MEMBERS, 0)
    for what, number, who in history:
        if what == "write":
            end += number
        elif what == "durable":
            held[who] = max(held[who], min(number, end))
            book.on_durable(now, who, held[who], end)
        elif what == "gone":
            book.on_gone(who)
        elif what == "wait":
            now += number
        elif what == "decide" and book.proposal is not None:
            book.on_state(now, state(*book.proposal, version=book.state.version + 1))
        elif what == "refuse":
            book.on_refused(now, book.state.version)
        elif what == "lose" and who in book.state.in_sync:
            rest = [member for member in book.state.in_sync if member != who]
            book.on_state(now, state(*rest, version=book.state.version + 1))
        high = max(high, book.watermark(end))
        book.weigh(now, end, high)
        for members in (book.state.in_sync, book.proposal or []):
            assert all(held[member] >= high for member in members if member != "a")
