"""The register of groups, in scenarios that read like stories, and in random histories that keep its invariants."""

from __future__ import annotations

import random

import pytest

from octoloom.core.errors import UsageError
from octoloom.core.group_messages import EnlistMember, GroupView, MemberAddress, SetOrder, SuspectMember
from octoloom.core.group_register import GroupRegister, GroupRegisterConfig
from octoloom.core.group_saved import Announce, Decline, GroupEffect, GroupsSaved, Persist, Tell
from octoloom.core.roster import name_of

Place = tuple[str, str]
"""A group and a member of it."""


def enlist(group: str, member: str, order: str = "", epoch: int = 0, transport: str = "tcp") -> EnlistMember:
    return EnlistMember(group, MemberAddress(member, "127.0.0.1:1", transport), order, epoch)


class World:
    """A register, its disk and the members. Those connected beat every 100 ms, unless they are mute."""

    def __init__(self, **settings: int) -> None:
        self.config = GroupRegisterConfig(**settings)
        self.now = 1000
        self.disk = GroupsSaved()
        self.register = GroupRegister(self.config, None, self.now)
        self.known: dict[Place, GroupView] = {}
        """The newest view that each was told."""
        self.connected: dict[Place, None] = {}
        self.mute: list[Place] = []
        self.complaints: dict[Place, str] = {}
        self.declined: list[tuple[str, str]] = []
        self.details: list[str] = []
        self.epochs: list[int] = []
        self.were: dict[Place, None] = {}
        """Everybody who was in a view once."""

    def shape(self, group: str = "room") -> str:
        view = next((view for view in self.register.views() if view.group == group), None)
        return f"{view.epoch}: {view.order} {' '.join(view.names)}".replace("#1", "") if view else "none"

    def flush(self) -> None:
        self.obey(self.register.flush(self.now))
        assert not self.register.restless
        assert self.register.snapshot() == self.disk

    def obey(self, effects: list[GroupEffect] | list[Decline]) -> None:
        for effect in effects:
            match effect:
                case Persist():
                    self._persist(effect)
                case Announce(view):
                    assert view == self.disk.groups[view.group].view, "announced before it was durable"
                    for member in view.names:
                        self._tell((view.group, member), view)
                case Tell(group, member, view):
                    if member in view.names:
                        assert view == self.disk.groups[group].view
                    self._tell((group, member), view)
                    if member not in view.names:
                        self.connected.pop((group, member), None)
                case Decline(group, member, code, detail, ends):
                    self.declined.append((member, code))
                    self.details.append(detail)
                    if ends:
                        self.connected.pop((group, member), None)

    def _tell(self, place: Place, view: GroupView) -> None:
        if place in self.connected:
            self.known[place] = view

    def _persist(self, step: Persist) -> None:
        assert step.epoch > self.disk.epoch
        for name, group in step.groups.items():
            old = self.disk.groups.get(name)
            before = old.view.names if old else []
            if group is None:
                continue
            view, names = group.view, group.view.names
            assert names
            assert view.epoch not in self.epochs, "an epoch was used twice"
            assert view.epoch > self.disk.epoch
            assert len({name_of(member) for member in names}) == len(names) <= self.config.members_max
            assert len({address.transport for address in view.members}) == 1
            stayed = [member for member in before if member in names]
            assert names[: len(stayed)] == stayed, "the oldest come first"
            for member in names[len(stayed) :]:
                assert (name, member) in self.connected, "a view began with somebody who is not there"
                assert (name, member) not in self.were, "somebody who was given up is back"
            self.were.update(dict.fromkeys((name, member) for member in names))
            self.epochs.append(view.epoch)
        self.disk = self.disk.after(step)

    def join(self, *members: str, group: str = "room", order: str = "", flush: bool = True) -> None:
        for member in members:
            known = self.known.get((group, member))
            message = enlist(group, member, order, known.epoch if known else 0)
            self.connected[group, member] = None
            self.obey(self.register.on_enlist(self.now, message))
        if flush:
            self.flush()

    def close(self, *members: str, group: str = "room") -> None:
        for member in members:
            self.connected.pop((group, member), None)
            self.obey(self.register.on_closed(self.now, group, member))
        self.flush()

    def leave(self, member: str, group: str = "room") -> None:
        self.obey(self.register.on_leave(self.now, group, member))
        self.flush()

    def switch(self, member: str, order: str, group: str = "room") -> None:
        self.obey(self.register.on_set_order(self.now, group, member, SetOrder(order)))
        self.flush()

    def restart(self, pause_ms: int = 500) -> None:
        self.now += pause_ms
        self.connected.clear()
        self.register = GroupRegister(self.config, self.disk, self.now)

    def run(self, ms: int) -> None:
        end = self.now + ms
        while self.now < end:
            self.now = min(self.now + 10, end)
            deadline = self.register.deadline()
            if deadline is not None and deadline <= self.now:
                self.obey(self.register.on_time(self.now))
            if self.now % 100 == 0:
                self._beat()
            self.flush()

    def _beat(self) -> None:
        for group, member in [place for place in self.connected if place not in self.mute]:
            self.obey(self.register.on_beat(self.now, group, member))
            view = self.known.get((group, member))
            if (group, member) in self.complaints and (group, member) in self.connected and view:
                accused = SuspectMember(view.epoch, self.complaints[group, member])
                self.obey(self.register.on_suspect(self.now, group, member, accused))


def test_members_come_and_go_and_every_change_is_a_view() -> None:
    world = World()
    world.join("ada#1", order="causal")
    assert world.shape() == "1: causal ada"
    world.join("bob#1")
    world.join("cy#1", order="causal")
    assert world.shape() == "3: causal ada bob cy"
    world.leave("ada#1")
    assert world.shape() == "4: causal bob cy"
    assert world.known["room", "ada#1"].names == ["bob#1", "cy#1"], "who leaves is told the view without it"
    world.switch("cy#1", "total")
    assert world.shape() == "5: total bob cy"
    assert all(world.known["room", member].epoch == 5 for member in ("bob#1", "cy#1"))
    assert world.declined == []


def test_what_happens_between_two_flushes_makes_one_view() -> None:
    world = World()
    world.join("ada#1", "bob#1", "cy#1")
    assert world.shape() == "1: fifo ada bob cy"
    world.obey(world.register.on_leave(world.now, "room", "ada#1"))
    world.obey(world.register.on_set_order(world.now, "room", "bob#1", SetOrder("total")))
    world.join("dan#1", "bob#2")
    assert world.shape() == "2: total cy dan bob#2"
    assert world.declined == [("bob#1", "outdated")]


def test_nothing_new_makes_no_view() -> None:
    world = World()
    world.join("ada#1")
    world.switch("ada#1", "fifo")
    assert world.register.flush(world.now) == []
    assert world.shape() == "1: fifo ada"


def test_all_groups_count_their_epochs_together_and_an_empty_one_is_forgotten() -> None:
    world = World()
    world.join("ada#1", group="room")
    world.join("ada#1", group="hall", order="total")
    world.leave("ada#1", group="hall")
    assert world.known["hall", "ada#1"] == GroupView("hall", 3, "total", [])
    assert world.disk == GroupsSaved(3, {"room": world.disk.groups["room"]})
    world.restart()
    world.join("bob#1", group="hall")
    assert world.shape("hall") == "4: fifo bob", "the order went with the group, the epoch did not"


def test_the_last_to_leave_takes_the_deadline_with_it() -> None:
    world = World()
    assert world.register.deadline() is None
    world.join("ada#1")
    assert world.register.deadline() == world.now + 50
    world.leave("ada#1")
    assert world.register.deadline() is None


def test_a_newcomer_takes_the_groups_order_or_is_told_how_to_switch() -> None:
    world = World()
    world.join("ada#1", order="causal")
    world.join("bob#1", order="total")
    assert world.declined == [("bob#1", "other-order")]
    assert "SetOrder" in world.details[0]
    assert world.shape() == "1: causal ada"
    world.join("bob#1", order="causal")
    assert world.shape() == "2: causal ada bob"


def test_a_newcomer_with_another_transport_is_declined() -> None:
    world = World()
    world.join("ada#1")
    world.obey(world.register.on_enlist(world.now, enlist("room", "bob#1", transport="udp")))
    assert world.declined == [("bob#1", "other-transport")]
    assert "transport=tcp" in world.details[0]


def test_a_lost_connection_costs_the_place_only_when_its_grace_is_over() -> None:
    world = World()
    world.join("ada#1", "bob#1")
    world.close("ada#1")
    world.run(100)
    del world.known["room", "ada#1"]
    world.join("ada#1")
    world.run(1000)
    assert world.shape() == "1: fifo ada bob"
    assert world.known["room", "ada#1"].epoch == 1
    world.close("ada#1")
    world.run(150)
    assert world.shape() == "2: fifo bob"
    world.join("ada#1")
    assert world.declined == [("ada#1", "expelled")]
    assert "new incarnation" in world.details[0]
    world.join("ada#2")
    assert world.shape() == "3: fifo bob ada#2"
    world.join("ada#1")
    assert world.declined[1:] == [("ada#1", "outdated")]


def test_who_moves_to_another_address_keeps_its_place_in_a_new_view() -> None:
    world = World()
    world.join("ada#1", "bob#1")
    moved = EnlistMember("room", MemberAddress("ada#1", "127.0.0.1:2"), "", 1)
    assert world.register.on_enlist(world.now, moved) == []
    world.flush()
    assert world.shape() == "2: fifo ada bob"
    assert world.known["room", "bob#1"].members[0].peer == "127.0.0.1:2"


def test_a_silent_member_is_given_up_with_its_lease() -> None:
    world = World()
    world.join("ada#1", "bob#1")
    world.mute.append(("room", "ada#1"))
    world.run(1900)
    assert world.shape() == "1: fifo ada bob"
    world.run(200)
    assert world.shape() == "2: fifo bob"
    assert world.declined == [("ada#1", "expelled")]


def test_a_newcomer_that_is_gone_before_its_view_was_never_there() -> None:
    world = World()
    world.join("ada#1", flush=False)
    world.close("ada#1")
    assert world.shape() == "none"
    assert world.disk.epoch == 0
    world.join("bob#1")
    world.join("ada#1", flush=False)
    world.close("ada#1")
    assert world.shape() == "1: fifo bob"
    world.join("ada#1")
    assert world.shape() == "2: fifo bob ada"


def test_who_left_cannot_come_back_as_it_was_even_if_it_never_heard_of_a_view() -> None:
    world = World()
    world.join("ada#1", "bob#1")
    world.leave("bob#1")
    del world.known["room", "bob#1"]
    world.restart()
    world.join("ada#1", "bob#1")
    assert world.declined == [("bob#1", "expelled")]


def test_an_older_incarnation_that_never_joined_is_too_late_for_ever() -> None:
    world = World()
    world.join("ada#1", "bob#2")
    world.leave("bob#2")
    world.join("bob#1")
    assert world.declined == [("bob#1", "outdated")]


def test_who_was_in_a_group_that_is_forgotten_cannot_begin_it_again() -> None:
    world = World()
    world.join("ada#1")
    world.close("ada#1")
    world.run(200)
    assert world.shape() == "none"
    world.join("ada#1")
    assert world.declined == [("ada#1", "expelled")]
    assert world.shape() == "none"
    world.join("ada#2")
    assert world.shape() == "3: fifo ada#2"


def test_what_a_leaver_says_before_it_is_told_is_not_held_against_it() -> None:
    world = World()
    world.join("ada#1", "bob#1")
    world.obey(world.register.on_leave(world.now, "room", "ada#1"))
    world.obey(world.register.on_beat(world.now, "room", "ada#1"))
    world.obey(world.register.on_leave(world.now, "room", "ada#1"))
    world.flush()
    assert world.declined == []
    world.obey(world.register.on_beat(world.now, "room", "ada#1"))
    assert world.declined == [("ada#1", "unknown")]


def test_after_a_restart_everybody_has_a_lease_to_come_back_in() -> None:
    world = World()
    world.join("ada#1", "bob#1", order="total")
    world.restart(pause_ms=60_000)
    world.run(1500)
    world.join("bob#1")
    assert world.shape() == "1: total ada bob"
    world.run(600)
    assert world.shape() == "2: total bob"


def test_nobody_is_given_up_for_a_pause_of_the_register() -> None:
    world = World()
    world.join("ada#1", "bob#1")
    world.run(300)
    world.now += 10_000
    world.obey(world.register.on_time(world.now))
    world.flush()
    world.run(300)
    world.now += 10_000
    world.run(300)
    assert world.shape() == "1: fifo ada bob"


def test_a_register_that_lost_its_store_is_found_out() -> None:
    world = World()
    world.join("ada#1", "bob#1")
    world.disk, world.epochs = GroupsSaved(), []
    world.restart()
    world.join("ada#1")
    assert world.declined == [("ada#1", "lost-register")]
    assert world.shape() == "none"


def test_the_most_accused_goes_and_may_not_come_back() -> None:
    world = World()
    world.join("ada#1", "bob#1", "cy#1")
    world.complaints = {("room", "bob#1"): "ada#1", ("room", "cy#1"): "ada#1", ("room", "ada#1"): "cy#1"}
    world.run(300)
    assert world.shape() == "1: fifo ada bob cy"
    world.run(300)
    assert world.shape() == "2: fifo bob cy"
    assert world.declined == [("ada#1", "expelled")]
    world.join("ada#1")
    assert world.declined[1:] == [("ada#1", "expelled")]


def test_between_equally_accused_the_youngest_goes_and_the_last_stays() -> None:
    world = World()
    world.join("ada#1", "bob#1")
    world.complaints = {("room", "bob#1"): "ada#1", ("room", "ada#1"): "bob#1"}
    world.run(2000)
    assert world.shape() == "2: fifo ada"
    assert world.declined == [("bob#1", "expelled")]


def test_the_only_one_who_is_there_does_not_go_for_the_complaints_of_one_who_is_not() -> None:
    world = World(closed_grace_ms=1000)
    world.join("ada#1", "bob#1")
    world.complaints = {("room", "bob#1"): "ada#1"}
    world.run(300)
    world.close("bob#1")
    world.run(1200)
    assert world.shape() == "2: fifo ada"


def test_complaints_of_another_epoch_or_about_strangers_do_not_count() -> None:
    world = World()
    world.join("ada#1", "bob#1", "cy#1")
    for _ in range(10):
        for accused in (SuspectMember(0, "bob#1"), SuspectMember(1, "eve#1"), SuspectMember(1, "ada#1")):
            world.obey(world.register.on_suspect(world.now, "room", "ada#1", accused))
        world.run(100)
    assert world.shape() == "1: fifo ada bob cy"


def test_complaints_end_with_their_view() -> None:
    world = World()
    world.join("ada#1", "bob#1")
    world.complaints = {("room", "ada#1"): "bob#1"}
    world.run(200)
    world.complaints = {}
    world.join("cy#1")
    world.run(1000)
    assert world.shape() == "2: fifo ada bob cy"


@pytest.mark.parametrize(
    ("message", "code"),
    [
        (enlist("", "ada#1"), "bad-group"),
        (enlist("r" * 101, "ada#1"), "bad-group"),
        (enlist("ro\0om", "ada#1"), "bad-group"),
        (enlist("room", "ada"), "bad-member"),
        (enlist("room", "a" * 101 + "#1"), "bad-member"),
        (enlist("room", "ada#-1"), "bad-member"),
        (enlist("room", "ada#1", transport="pigeon"), "bad-address"),
        (EnlistMember("room", MemberAddress("ada#1", "")), "bad-address"),
        (EnlistMember("room", MemberAddress("ada#1", "x" * 301)), "bad-address"),
        (enlist("room", "ada#1", "o" * 101), "bad-order"),
        (enlist("room", "ada#1", epoch=1), "lost-register"),
    ],
)
def test_bad_input_is_declined_and_changes_nothing(message: EnlistMember, code: str) -> None:
    world = World()
    world.obey(world.register.on_enlist(world.now, message))
    assert [declined for _, declined in world.declined] == [code]
    assert not world.register.restless
    assert world.register.flush(world.now) == []
    assert world.register.deadline() is None


@pytest.mark.parametrize("order", ["", "o" * 101])
def test_a_bad_order_is_declined_and_the_member_stays(order: str) -> None:
    world = World()
    world.join("ada#1")
    world.switch("ada#1", order)
    assert world.declined == [("ada#1", "bad-switch")]
    assert ("room", "ada#1") in world.connected
    assert world.shape() == "1: fifo ada"


def test_who_never_enlisted_is_unknown() -> None:
    world = World()
    world.join("ada#1")
    world.leave("eve#1")
    world.switch("eve#1", "total")
    world.obey(world.register.on_suspect(world.now, "room", "eve#1", SuspectMember(1, "ada#1")))
    world.obey(world.register.on_beat(world.now, "nowhere", "ada#1"))
    world.close("eve#1", group="nowhere")
    assert [code for _, code in world.declined] == ["unknown"] * 4
    assert world.shape() == "1: fifo ada"


def test_groups_and_members_are_bounded() -> None:
    world = World(members_max=2, groups_max=2)
    world.join("ada#1", "bob#1", "cy#1")
    assert world.declined == [("cy#1", "full")]
    world.join("bob#2")
    assert world.shape() == "2: fifo ada bob#2", "who takes its own place needs no other"
    world.join("ada#1", group="hall")
    world.join("ada#1", group="yard")
    assert world.declined[1:] == [("bob#1", "outdated"), ("ada#1", "full")]
    with pytest.raises(UsageError, match="one group with one member"):
        GroupRegisterConfig(groups_max=0)


class Dice:
    """Random things happen to a few members of two groups."""

    def __init__(self, seed: int) -> None:
        self.roll = random.Random(seed)
        self.world = World(members_max=4)
        self.numbers: dict[Place, int] = {}

    def member(self, group: str) -> str:
        name = self.roll.choice("abcde")
        return f"{name}#{self.numbers.setdefault((group, name), 1)}"

    def step(self) -> None:
        world, roll = self.world, self.roll
        group = roll.choice(("room", "hall"))
        member = self.member(group)
        connected = (group, member) in world.connected
        flush = roll.random() < 0.5
        match roll.randrange(9):
            case 0 | 1 | 2:
                world.join(member, group=group, order=roll.choice(("", "", "total")), flush=flush)
            case 3:
                self.numbers[group, name_of(member)] += 1
            case 4 if connected:
                world.connected.pop((group, member))
                world.obey(world.register.on_closed(world.now, group, member))
            case 5 if connected:
                world.obey(world.register.on_leave(world.now, group, member))
            case 6 if connected:
                world.switch(member, roll.choice(("fifo", "total")), group)
            case 7 if roll.random() < 0.2:
                world.flush()
                world.restart(roll.randrange(3000))
            case 8:
                world.complaints = {(group, self.member(group)): self.member(group) for _ in range(3)}
                world.mute = [(group, member)] if roll.random() < 0.3 else []
        if flush:
            world.flush()
        world.run(roll.choice((0, 10, 100, 400, 1000)))


@pytest.mark.parametrize("seed", range(60))
def test_random_histories_keep_the_invariants(seed: int) -> None:
    """`World` checks every view that is made; in the end everybody who is there and speaks knows the same one."""
    dice = Dice(seed)
    for _ in range(60):
        dice.step()
    world = dice.world
    world.mute, world.complaints = [], {}
    world.run(3000)
    for view in world.register.views():
        assert [member for group, member in world.connected if group == view.group and member not in view.names] == []
        assert all(world.known[view.group, member] == view for member in view.names)
    assert len(world.epochs) == len(set(world.epochs)) <= world.disk.epoch
