"""A link's part in the journal: what it publishes, what it may commit, and what it tells when."""

from __future__ import annotations

import pytest

from octoloom.core.effects import Effect, Publish, Restore
from octoloom.core.event import Change
from octoloom.core.journal import Durability
from octoloom.core.publishing import Publishing
from octoloom.core.space import Space

LOBBY = "lobby"


class Link:
    """A link with one space; changes come one after the other."""

    def __init__(self, durability: Durability) -> None:
        self.publishing = Publishing(durability)
        self.space = Space(LOBBY)
        self.publishing.keep(self.space)

    def go_on(self, count: int = 1) -> None:
        """The head gets changes."""
        for _ in range(count):
            change = Change(1, self.space.version + 1, False, b"{}", [])
            self.space.apply(change)
            self.publishing.on_change(self.space, change)

    def follow(self, count: int = 1) -> None:
        """A link that is not the head gets changes."""
        for _ in range(count):
            self.space.apply(Change(1, self.space.version + 1, False, b"{}", []))

    def publish(self) -> list[int]:
        return versions(self.publishing.publish(7, {LOBBY: self.space}))

    def commit(self) -> list[int]:
        """Commits what may be committed; the versions of which devices are told."""
        self.space.committed = self.publishing.committable(self.space)
        return [change.version for change in self.publishing.settled(self.space)]

    def journaled(self, version: int) -> None:
        assert self.space.backlog is not None
        self.space.backlog.on_journaled(version)


def versions(effects: list[Effect]) -> list[int]:
    for effect in effects:
        assert isinstance(effect, Publish)
        assert (effect.space, effect.generation) == (LOBBY, 7)
    return [entry.version for effect in effects if isinstance(effect, Publish) for entry in effect.entries]


def test_without_a_journal_nothing_is_kept_or_published_and_everything_committed() -> None:
    link = Link(Durability.NONE)
    link.go_on(2)
    assert link.space.backlog is None
    assert link.publish() == []
    assert link.commit() == [1, 2]
    assert link.publishing.begin(1) == []
    assert not link.publishing.restoring


@pytest.mark.parametrize("durability", [Durability.CHAIN, Durability.JOURNAL])
def test_a_generation_begins_by_taking_over_what_the_journal_holds(durability: Durability) -> None:
    publishing = Publishing(durability)
    assert publishing.begin(3) == [Restore(3)]
    assert publishing.restoring
    publishing.forget()
    assert not publishing.restoring


@pytest.mark.parametrize("durability", [Durability.CHAIN, Durability.JOURNAL])
def test_the_head_publishes_each_change_once(durability: Durability) -> None:
    link = Link(durability)
    link.go_on(2)
    assert link.publish() == [1, 2]
    assert link.publish() == []
    link.go_on()
    assert link.publish() == [3]


def test_what_only_the_chain_keeps_is_committed_at_once() -> None:
    link = Link(Durability.CHAIN)
    link.go_on(2)
    assert link.commit() == [1, 2]
    assert link.commit() == []


def test_what_the_journal_keeps_is_committed_and_told_when_it_is_there() -> None:
    link = Link(Durability.JOURNAL)
    link.go_on(3)
    assert link.commit() == []
    link.journaled(2)
    assert link.commit() == [1, 2]
    assert link.commit() == []
    link.journaled(3)
    assert link.commit() == [3]


def test_the_journal_may_know_more_than_this_link() -> None:
    link = Link(Durability.JOURNAL)
    link.go_on(1)
    link.journaled(5)
    assert link.publishing.committable(link.space) == 1


def test_a_new_head_publishes_what_it_does_not_know_to_be_there() -> None:
    link = Link(Durability.JOURNAL)
    link.follow(3)
    link.journaled(1)
    assert link.publish() == []
    link.publishing.take_office([link.space])
    assert link.publish() == [2, 3]
    assert link.publish() == []


def test_whoever_is_the_head_again_does_not_know_what_became_of_what_it_had_published() -> None:
    link = Link(Durability.JOURNAL)
    link.go_on(2)
    assert link.publish() == [1, 2]
    link.publishing.take_office([link.space])
    assert link.publish() == [1, 2]


def test_a_new_head_tells_nothing_of_the_time_before_it() -> None:
    """The devices that bootstrap with it are told all of the state; single changes of before are not theirs."""
    link = Link(Durability.JOURNAL)
    link.go_on(2)
    link.publishing.take_office([link.space])
    link.journaled(2)
    assert link.commit() == []
    link.go_on()
    link.journaled(3)
    assert link.commit() == [3]


def test_a_replaced_space_is_published_and_its_older_changes_are_not_told() -> None:
    link = Link(Durability.JOURNAL)
    link.go_on()
    link.follow(2)
    link.publishing.on_replaced(link.space)
    assert link.publish() == [1, 2, 3]
    link.journaled(3)
    assert link.commit() == []


def test_a_replacement_that_came_while_nothing_else_did_is_published() -> None:
    link = Link(Durability.CHAIN)
    link.follow(2)
    link.publishing.on_replaced(link.space)
    assert link.publish() == [1, 2]


def test_a_space_that_keeps_no_backlog_waits_for_no_journal() -> None:
    publishing, space = Publishing(Durability.JOURNAL), Space(LOBBY)
    change = Change(1, 1, False, b"{}", [])
    space.apply(change)
    publishing.on_change(space, change)
    publishing.take_office([space])
    assert publishing.committable(space) == 1
    assert publishing.publish(7, {LOBBY: space}) == []
    assert not publishing.restoring


def test_a_space_that_is_gone_is_not_published() -> None:
    link = Link(Durability.CHAIN)
    link.go_on()
    assert link.publishing.publish(7, {}) == []


def test_a_link_that_is_out_of_the_chain_forgets_what_it_had_to_tell() -> None:
    link = Link(Durability.CHAIN)
    link.go_on()
    link.publishing.forget()
    assert link.publish() == []
    assert link.commit() == []


def test_a_space_keeps_the_backlog_that_it_has() -> None:
    link = Link(Durability.CHAIN)
    backlog = link.space.backlog
    link.publishing.keep(link.space)
    assert link.space.backlog is backlog
