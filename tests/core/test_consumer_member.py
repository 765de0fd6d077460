"""One member of a consumer group: what it asks when, and what it makes of the answers."""

from __future__ import annotations

from typing import Any, TypeVar

import pytest

from octoloom.core import consumer_member_messages as say
from octoloom.core.consumer_member import Member
from octoloom.core.consumer_member_messages import Phase
from octoloom.core.consumer_messages import GroupError
from octoloom.core.consumer_timetable import HAND_OVER_MS, LEAVE_MS
from octoloom.core.errors import UsageError

A, B = ("orders", 0), ("orders", 1)
SETTINGS: dict[str, Any] = {
    "session_ms": 1_000,
    "beat_ms": 200,
    "work_ms_max": 5_000,
    "commit_ms": 500,
    "look_ms": 60_000,
}
Asked = TypeVar("Asked", bound=say.Request)


class Scene:
    """A member, what it has asked and not heard of yet, and the time."""

    def __init__(self, **settings: Any) -> None:
        self.now = 10_000
        self.member = Member(say.MemberSettings(("orders",), **{**SETTINGS, **settings}))
        self.said: list[say.Effect] = []
        self.open: list[say.Ask] = []

    def hear(self, effects: list[say.Effect]) -> None:
        self.open += [effect for effect in effects if isinstance(effect, say.Ask)]
        self.said += [effect for effect in effects if not isinstance(effect, say.Ask)]

    def take(self) -> list[say.Effect]:
        """What it said since, besides its questions."""
        said, self.said = self.said, []
        return said

    def asked(self, kind: type[Asked]) -> Asked:
        """What it wants to know."""
        [request] = [ask.request for ask in self.open if isinstance(ask.request, kind)]
        return request

    def is_asking(self, kind: type[say.Request]) -> bool:
        return any(isinstance(ask.request, kind) for ask in self.open)

    def reply(self, kind: type[say.Request], reply: say.Reply) -> None:
        self.hear(self.member.on_reply(self.now, self._ticket(kind), reply))

    def fail(self, kind: type[say.Request], reason: int | Exception = 7, passes: bool = True) -> None:
        self.hear(self.member.on_failed(self.now, self._ticket(kind), reason, passes))

    def _ticket(self, kind: type[say.Request]) -> int:
        [ask] = [ask for ask in self.open if isinstance(ask.request, kind)]
        self.open.remove(ask)
        return ask.ticket

    def ask_for_next(self) -> None:
        self.hear(self.member.on_asked(self.now))

    def hand_out(self, place: tuple[str, int], offset: int) -> None:
        self.member.on_handed_out(place, offset)
        self.member.on_working(self.now)

    def commit(self, number: int = 1, offsets: dict[tuple[str, int], int] | None = None) -> None:
        self.hear(self.member.on_commit(self.now, number, offsets))

    def wait(self, ms: int) -> None:
        """Time goes on, and it is called when it wants to be."""
        until = self.now + ms
        for _ in range(1_000):
            deadline = self.member.deadline()
            if deadline is None or deadline > until:
                break
            self.now = max(deadline, self.now)
            self.hear(self.member.on_time(self.now))
        else:
            pytest.fail("it wants to be called again and again")
        self.now = until

    def wait_beating(self, ms: int) -> None:
        """The same, while the coordinator hears its heartbeats."""
        for _ in range(0, ms, 100):
            self.wait(100)
            if self.is_asking(say.Beat):
                self.reply(say.Beat, say.Done(0))

    def sync(self, places: tuple[tuple[str, int], ...], generation: int = 3) -> None:
        self.reply(say.Join, say.Joined(0, "me", generation, "eve"))
        assert self.asked(say.Sync) == say.Sync("me", generation, {})
        self.reply(say.Sync, say.Synced(0, places))

    def locate(self, committed: dict[tuple[str, int], int], end: int = 100) -> None:
        self.reply(say.FetchCommitted, say.Fetched(0, committed))
        places = self.asked(say.Locate).places
        self.reply(say.Locate, say.Located(dict.fromkeys(places, (2, end))))

    @classmethod
    def reading(cls, **settings: Any) -> Scene:
        scene = cls(**settings)
        scene.ask_for_next()
        scene.sync((A, B))
        scene.locate({A: 10, B: 20})
        assert scene.take() == [say.Read({A: 10, B: 20})]
        return scene


# In.


def test_one_without_a_name_is_given_one_and_comes_again_with_it() -> None:
    scene = Scene()
    assert scene.member.deadline() is None
    scene.ask_for_next()
    assert scene.asked(say.Join).member == ""
    scene.reply(say.Join, say.Joined(GroupError.MEMBER_ID_REQUIRED, "me"))
    assert scene.asked(say.Join).member == "me"


def test_who_leads_divides_what_there_is_among_all() -> None:
    scene = Scene()
    scene.ask_for_next()
    wanted = {"eve": ["orders", "moves"], "me": ["orders"]}
    scene.reply(say.Join, say.Joined(0, "me", 1, "me", "range", wanted))
    assert scene.asked(say.Count).topics == ("moves", "orders")
    scene.fail(say.Count)
    assert not scene.is_asking(say.Count)
    scene.wait(100)
    scene.reply(say.Count, say.Counted({"moves": 1, "orders": 3}))
    shares = {"eve": {"orders": [0, 1], "moves": [0]}, "me": {"orders": [2]}}
    assert scene.asked(say.Sync) == say.Sync("me", 1, shares)


@pytest.mark.parametrize(
    ("start", "committed", "begins_at"),
    [
        ("beginning", None, 2),
        ("beginning", 50, 50),
        ("beginning", 100, 100),
        ("beginning", 1, 2),
        ("beginning", 101, 2),
        ("end", None, 100),
        ("end", 50, 50),
        ("end", 1, 2),
        ("end", 101, 100),
    ],
)
def test_a_group_goes_on_where_it_was(start: str, committed: int | None, begins_at: int) -> None:
    scene = Scene(start=start)
    scene.ask_for_next()
    scene.sync((A,))
    scene.locate({} if committed is None else {A: committed})
    if scene.is_asking(say.Commit):
        scene.reply(say.Commit, say.Done(0))
    assert scene.take()[-1] == say.Read({A: begins_at})


def test_a_group_that_begins_at_the_end_commits_that_first() -> None:
    """Or what is written before a crash, and never committed, would be passed over by the next."""
    scene = Scene(start="end", commit_ms=None)
    scene.ask_for_next()
    scene.sync((A, B))
    scene.locate({A: 7})
    assert scene.asked(say.Commit) == say.Commit("me", 3, {B: 100})
    assert not scene.member.is_sure(scene.now)
    scene.fail(say.Commit)
    scene.wait_beating(5_000)
    assert scene.take() == [say.Reconnect()]
    scene.reply(say.Commit, say.Done(0))
    assert scene.take() == [say.Read({A: 7, B: 100})]


def test_one_too_many_waits_and_stays_in() -> None:
    scene = Scene()
    scene.ask_for_next()
    scene.sync(())
    assert scene.member.phase is Phase.READING
    scene.wait(300)
    scene.reply(say.Beat, say.Done(GroupError.REBALANCE_IN_PROGRESS))
    assert scene.asked(say.Join).member == "me"


@pytest.mark.parametrize("code", [GroupError.UNKNOWN_MEMBER_ID, GroupError.REBALANCE_IN_PROGRESS, 16, 14])
def test_who_is_refused_on_the_way_in_tries_again_after_a_pause(code: int) -> None:
    scene = Scene()
    scene.ask_for_next()
    pauses = []
    for _ in range(7):
        scene.reply(say.Join, say.Joined(code))
        assert not scene.is_asking(say.Join)
        pauses.append((scene.member.deadline() or 0) - scene.now)
        scene.wait(pauses[-1])
    assert pauses == [50, 100, 200, 400, 800, 1_000, 1_000]


def test_what_does_not_pass_is_told_and_who_asks_again_tries_again() -> None:
    scene = Scene()
    scene.ask_for_next()
    scene.reply(say.Join, say.Joined(GroupError.INCONSISTENT_GROUP_PROTOCOL))
    assert scene.take() == [say.Halt(), say.Fail(GroupError.INCONSISTENT_GROUP_PROTOCOL)]
    assert scene.member.deadline() is None
    scene.ask_for_next()
    scene.fail(say.Join, error := RuntimeError("no such topic"), passes=False)
    assert scene.take()[-1] == say.Fail(error)
    scene.ask_for_next()
    assert scene.is_asking(say.Join)


# What is done, and committed.


def test_what_was_handed_out_is_committed_when_it_is_done_and_not_before() -> None:
    scene = Scene.reading()
    scene.hand_out(A, 15)
    scene.wait_beating(2_000)
    assert not scene.is_asking(say.Commit)
    scene.ask_for_next()
    scene.wait_beating(600)
    assert scene.asked(say.Commit) == say.Commit("me", 3, {A: 15})
    scene.reply(say.Commit, say.Done(0))
    scene.wait_beating(2_000)
    assert not scene.is_asking(say.Commit)


def test_the_app_commits_all_that_it_got_or_what_it_says() -> None:
    scene = Scene.reading(commit_ms=None)
    scene.hand_out(A, 15)
    scene.commit(1)
    assert scene.asked(say.Commit).offsets == {A: 15}
    scene.commit(2, {B: 18})
    scene.reply(say.Commit, say.Done(0))
    assert scene.take() == [say.Settle(1, 0)]
    assert scene.asked(say.Commit).offsets == {B: 18}
    scene.reply(say.Commit, say.Done(0))
    assert scene.take() == [say.Settle(2, 0)]
    with pytest.raises(UsageError, match="other-0 is not read by this consumer"):
        scene.commit(3, {("other", 0): 1})


def test_one_commit_is_under_way_at_a_time() -> None:
    scene = Scene.reading()
    for number in range(1, 4):
        scene.commit(number, {A: 10 + number})
    for number in range(1, 4):
        assert scene.asked(say.Commit).offsets == {A: 10 + number}
        scene.reply(say.Commit, say.Done(0))
    assert scene.take() == [say.Settle(number, 0) for number in range(1, 4)]


def test_a_commit_that_nobody_answers_is_tried_again_for_a_while() -> None:
    scene = Scene.reading(patience_ms=4_000)
    scene.commit(1, {A: 12})
    tries = 0
    while not (settled := [said for said in scene.take() if isinstance(said, say.Settle)]):
        scene.fail(say.Commit, 7)
        scene.wait_beating(1_000)
        tries += 1
    assert settled == [say.Settle(1, 7)]
    assert tries > 2


@pytest.mark.parametrize("code", [GroupError.UNKNOWN_MEMBER_ID, GroupError.ILLEGAL_GENERATION])
def test_who_is_fenced_hears_it_and_commits_nothing_more(code: GroupError) -> None:
    scene = Scene.reading()
    scene.hand_out(A, 15)
    scene.commit(1)
    scene.reply(say.Commit, say.Done(code))
    assert scene.take() == [say.Settle(1, code), say.Halt()]
    scene.commit(2)
    assert scene.take() == [say.Settle(2, GroupError.UNKNOWN_MEMBER_ID)]
    scene.wait(4_000)
    assert scene.open == []
    scene.ask_for_next()
    assert scene.asked(say.Join).member == ("" if code == GroupError.UNKNOWN_MEMBER_ID else "me")


def test_a_commit_of_what_went_to_others_is_not_taken_for_made() -> None:
    """The app commits by hand, gives up waiting in the middle of a change, and commits what it had before."""
    scene = Scene.reading(commit_ms=None)
    scene.hand_out(A, 15)
    scene.ask_for_next()
    scene.wait(300)
    scene.reply(say.Beat, say.Done(GroupError.REBALANCE_IN_PROGRESS))
    scene.member.on_working(scene.now)
    scene.sync((B,), generation=4)
    scene.locate({B: 20})
    scene.take()
    scene.commit(1)
    assert scene.take() == [say.Settle(1, GroupError.ILLEGAL_GENERATION)]
    scene.ask_for_next()
    scene.hand_out(B, 30)
    scene.commit(2)
    assert scene.asked(say.Commit) == say.Commit("me", 4, {B: 30})


# Partitions change hands.


def test_partitions_go_when_the_app_asks_for_more_and_not_before() -> None:
    scene = Scene.reading()
    scene.hand_out(A, 15)
    scene.wait(300)
    scene.reply(say.Beat, say.Done(GroupError.REBALANCE_IN_PROGRESS))
    assert scene.take() == [say.Halt()]
    scene.wait_beating(3_000)
    assert not scene.is_asking(say.Join)
    assert list(scene.member.places) == [A, B]
    scene.ask_for_next()
    assert scene.asked(say.Commit) == say.Commit("me", 3, {A: 15})
    assert not scene.is_asking(say.Join)
    scene.reply(say.Commit, say.Done(0))
    assert scene.asked(say.Join).member == "me"
    assert list(scene.member.places) == []


def test_a_revoked_partition_is_not_read_on() -> None:
    scene = Scene.reading()
    scene.wait(300)
    scene.member.on_working(scene.now)
    scene.reply(say.Beat, say.Done(GroupError.REBALANCE_IN_PROGRESS))
    assert scene.take() == [say.Halt()]
    assert not scene.member.is_sure(scene.now)
    with pytest.raises(AssertionError):
        scene.member.on_handed_out(A, 15)


@pytest.mark.parametrize("is_answered", [True, False])
def test_a_last_commit_holds_up_nobody_for_long(is_answered: bool) -> None:
    scene = Scene.reading()
    scene.hand_out(A, 15)
    scene.wait(300)
    scene.reply(say.Beat, say.Done(GroupError.REBALANCE_IN_PROGRESS))
    scene.ask_for_next()
    if is_answered:
        scene.fail(say.Commit)
    scene.wait(HAND_OVER_MS - 100)
    assert not scene.is_asking(say.Join)
    scene.wait(200)
    assert scene.is_asking(say.Join)


def test_an_answer_that_comes_too_late_changes_nothing() -> None:
    scene = Scene.reading()
    scene.ask_for_next()
    scene.wait(600)
    beat = scene.open[0]
    scene.reply(say.Beat, say.Done(GroupError.REBALANCE_IN_PROGRESS))
    scene.sync((A,), generation=4)
    scene.take()
    late = scene.member.on_reply(scene.now, beat.ticket, say.Done(GroupError.UNKNOWN_MEMBER_ID))
    assert late == []
    assert scene.member.standing.generation == 4


def test_who_divided_the_partitions_notices_when_there_are_more() -> None:
    scene = Scene(look_ms=1_000)
    scene.ask_for_next()
    scene.reply(say.Join, say.Joined(0, "me", 1, "me", "range", {"me": ["orders"]}))
    scene.reply(say.Count, say.Counted({"orders": 1}))
    scene.reply(say.Sync, say.Synced(0, (A,)))
    scene.locate({A: 10})
    scene.wait_beating(1_100)
    scene.reply(say.Count, say.Counted({"orders": 1}))
    scene.wait_beating(1_100)
    assert not scene.is_asking(say.Join)
    scene.reply(say.Count, say.Counted({"orders": 2}))
    assert scene.is_asking(say.Join)


def test_a_place_that_is_gone_is_left_without_disturbing_the_others() -> None:
    scene = Scene.reading()
    scene.ask_for_next()
    scene.hear(scene.member.on_place_gone(scene.now))
    scene.reply(say.Locate, say.Located({A: (12, 100), B: (2, 100)}))
    halted, note, read = scene.take()
    assert (halted, read) == (say.Halt(), say.Read({A: 12, B: 20}))
    assert isinstance(note, say.Note)
    assert "orders-0 has offsets 12 to 100, and the group was at 10" in note.text


# Staying in, and out.


def test_who_has_heard_nothing_for_a_session_is_not_sure() -> None:
    """As a process that was frozen: what it has read may be another's by now."""
    scene = Scene.reading()
    scene.ask_for_next()
    scene.wait_beating(900)
    assert scene.member.is_sure(scene.now)
    scene.now += 5_000
    assert not scene.member.is_sure(scene.now)
    scene.open.clear()
    scene.hear(scene.member.on_doubt(scene.now))
    scene.hear(scene.member.on_doubt(scene.now))
    scene.reply(say.Beat, say.Done(0))
    assert scene.member.is_sure(scene.now)
    scene.now += 5_000
    scene.hear(scene.member.on_doubt(scene.now))
    scene.reply(say.Beat, say.Done(GroupError.UNKNOWN_MEMBER_ID))
    assert scene.asked(say.Join).member == ""
    assert not scene.is_asking(say.Commit)


def test_an_answer_from_before_a_long_sleep_is_no_proof() -> None:
    scene = Scene.reading()
    scene.wait(300)
    scene.now += 5_000
    scene.reply(say.Beat, say.Done(0))
    assert not scene.member.is_sure(scene.now)


def test_heartbeats_go_on_while_the_app_works_until_it_takes_too_long() -> None:
    scene = Scene.reading()
    scene.hand_out(A, 15)
    scene.wait_beating(4_900)
    assert scene.member.standing.is_in
    scene.wait(200)
    assert scene.asked(say.Leave).member == "me"
    assert say.Halt() in scene.take()
    scene.commit(1)
    assert scene.take() == [say.Settle(1, GroupError.ILLEGAL_GENERATION)]
    scene.wait(10_000)
    scene.ask_for_next()
    assert scene.asked(say.Join).member == ""


def test_who_ends_commits_what_is_done_and_leaves() -> None:
    scene = Scene.reading()
    scene.hand_out(A, 15)
    scene.ask_for_next()
    scene.hand_out(B, 25)
    scene.hear(scene.member.on_close(scene.now))
    assert scene.asked(say.Commit).offsets == {A: 15}
    scene.reply(say.Commit, say.Done(0))
    scene.reply(say.Leave, say.Done(0))
    assert scene.take() == [say.Halt(), say.Ended()]
    assert scene.member.on_close(scene.now) == []
    assert scene.member.deadline() is None


def test_who_ends_while_others_are_waited_for_does_not_wait_with_them() -> None:
    scene = Scene()
    scene.ask_for_next()
    scene.reply(say.Join, say.Joined(GroupError.MEMBER_ID_REQUIRED, "me"))
    scene.hear(scene.member.on_close(scene.now))
    assert scene.take() == [say.Halt(), say.Reconnect()]
    assert scene.asked(say.Leave).member == "me"
    scene.fail(say.Leave)
    scene.wait(LEAVE_MS)
    assert say.Ended() in scene.take()


def test_who_never_began_ends_at_once() -> None:
    scene = Scene()
    scene.hear(scene.member.on_close(scene.now))
    assert scene.take() == [say.Halt(), say.Ended()]
