"""The commits that a member has yet to make."""

from __future__ import annotations

import pytest

from octoloom.core.consumer_commit_queue import COMMITS_MAX, CommitQueue, Kind, Wish
from octoloom.core.consumer_member_messages import Commit
from octoloom.core.consumer_messages import GroupError
from octoloom.core.consumer_progress import Progress
from octoloom.core.consumer_standing import Standing
from octoloom.core.errors import UsageError

A = ("orders", 0)
APP = Wish(Kind.APP, 100, {A: 9}, number=1)


def queue(*wishes: Wish) -> tuple[CommitQueue, Progress, Standing]:
    progress, standing = Progress(), Standing()
    progress.begin({A: 5}, {A: 5})
    standing.member, standing.generation = "me", 3
    made = CommitQueue(progress, standing)
    for wish in wishes:
        made.add(wish)
    return made, progress, standing


def test_a_commit_carries_the_generation_of_now_and_counts_when_it_is_answered() -> None:
    commits, progress, _ = queue(APP)
    assert commits.advance() == Commit("me", 3, {A: 9})
    commits.ticket = 7
    assert commits.advance() is None
    assert progress.committed == {A: 5}
    assert commits.on_reply(0) == (APP, 0)
    assert (progress.committed, progress.done, len(commits)) == ({A: 9}, {A: 9}, 0)


def test_a_refused_commit_does_not_count() -> None:
    commits, progress, standing = queue(APP)
    commits.advance()
    assert commits.on_reply(GroupError.ILLEGAL_GENERATION) == (APP, GroupError.ILLEGAL_GENERATION)
    assert (progress.committed, progress.done) == ({A: 5}, {A: 5})
    assert not standing.is_in


def test_nothing_is_committed_as_nobody() -> None:
    commits, _, standing = queue(APP)
    standing.on_left()
    assert commits.advance() == (APP, GroupError.UNKNOWN_MEMBER_ID)


def test_what_is_committed_already_is_not_asked() -> None:
    timer = Wish(Kind.TIMER, 0)
    commits, progress, _ = queue(timer)
    assert commits.advance() == (timer, 0)
    progress.on_handed_out(A, 8)
    commits.add(timer)
    assert commits.advance() == (timer, 0)
    progress.on_next_asked()
    commits.add(timer)
    assert commits.advance() == Commit("me", 3, {A: 8})


def test_what_passes_is_tried_again_until_its_time_is_up() -> None:
    commits, _, _ = queue(APP)
    commits.advance()
    assert commits.on_failed(50, 7, 80) is None
    assert (commits.again_at, commits.advance()) == (80, None)
    commits.again_at = None
    assert isinstance(commits.advance(), Commit)
    assert commits.on_failed(100, 7, 130) == (APP, 7)
    commits.add(APP)
    commits.advance()
    assert commits.on_failed(50, 7, None) == (APP, 7)


def test_when_all_is_dropped_the_app_is_told_of_its_own() -> None:
    commits, _, _ = queue(Wish(Kind.TIMER, 0), APP)
    assert commits.clear() == [APP]
    assert not commits


def test_there_is_room_for_so_many() -> None:
    commits, _, _ = queue(*[APP] * COMMITS_MAX)
    with pytest.raises(UsageError, match="1000 commits wait already"):
        commits.add(APP)
