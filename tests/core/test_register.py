"""The register, in scenarios that read like stories, and in random histories that keep its invariants."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from octoloom.core.errors import UsageError
from octoloom.core.register import Announce, Decline, Effect, Persist, Register, RegisterConfig, Tell
from octoloom.core.register_messages import Adopted, Directory, Enlist, LinkAddress, Ready, Suspect, View, Whole


def address(link: str) -> LinkAddress:
    return LinkAddress(link, f"{link}:1", f"ws://{link}:2")


class World:
    """A register, its disk and its links. Connected links beat; learners get ready and whole, unless told not to."""

    def __init__(self, chains: int = 1, replicas: int = 2, **settings: int) -> None:
        self.config = RegisterConfig([f"c{i}" for i in range(chains)], replicas, **settings)
        self.now = 1000
        self.disk: Directory | None = None
        self.announced: list[Directory] = []
        self.declined: list[tuple[str, str]] = []
        self.told: list[str] = []
        self.connected: list[str] = []
        self.mute: list[str] = []
        self.idle: list[str] = []
        self.said: list[str] = []
        self.complaints: list[tuple[str, str]] = []
        self.register = Register(self.config, None, self.now)

    def view(self, chain: str = "c0") -> View:
        return self.register.directory().views[chain]

    def shape(self, chain: str = "c0") -> str:
        """Epoch and links; a star marks the whole, a plus the learner."""
        view = self.view(chain)
        links = [link.replace("#1", "") + "*" * (link in view.whole) for link in view.links]
        return " ".join([f"{view.epoch}:", *links, *([f"+{view.learner.replace('#1', '')}"] if view.learner else [])])

    def obey(self, effects: list[Effect]) -> None:
        for effect in effects:
            match effect:
                case Persist(directory):
                    self._check(directory)
                    self.disk = directory
                case Announce(directory):
                    assert directory is self.disk, "announced before it was durable"
                    assert not self.announced or directory.revision > self.announced[-1].revision
                    self.announced.append(directory)
                case Tell(link, directory):
                    assert directory == self.disk
                    self.told.append(link)
                case Decline(link, code, _, ends):
                    self.declined.append((link, code))
                    if ends and link in self.connected:
                        self.connected.remove(link)

    def _check(self, new: Directory) -> None:
        for chain, view in new.views.items():
            assert len(set(view.links)) == len(view.links)
            assert view.whole
            assert set(view.whole) <= set(view.links)
            assert view.learner not in view.links
            assert set(view.links) <= set(new.links)
            old = self.disk.views.get(chain) if self.disk else None
            if old is None or old.epoch != view.epoch:
                assert view.epoch > (old.epoch if old else 0)
                assert set(view.whole) & set(self.connected), "a view was made without a whole link that is there"
            else:
                assert (old.links, old.generation) == (view.links, view.generation)
            if old is not None and old.generation == view.generation and old.epoch != view.epoch:
                assert set(view.whole) <= {*old.whole, *old.former, *self.said}, "a link became whole without saying so"

    def enlist(self, *links: str) -> None:
        for link in links:
            if link not in self.connected:
                self.connected.append(link)
            self.obey(self.register.on_enlist(self.now, link, Enlist(address(link))))
        self.adopt()

    def close(self, *links: str) -> None:
        for link in links:
            self.connected.remove(link)
            self.obey(self.register.on_closed(self.now, link))

    def leave(self, link: str) -> None:
        self.obey(self.register.on_leave(self.now, link))

    def restart(self, pause_ms: int = 500) -> None:
        self.now += pause_ms
        self.connected.clear()
        self.register = Register(self.config, self.disk, self.now)

    def run(self, ms: int) -> None:
        end = self.now + ms
        while self.now < end:
            self.now = min(self.now + 10, end)
            deadline = self.register.deadline()
            if deadline is not None and deadline <= self.now:
                self.obey(self.register.on_time(self.now))
            self.adopt()
            if self.now % 100 == 0:
                self._beat()

    def adopt(self) -> None:
        for chain, view in self.register.directory().views.items():
            for link in [link for link in view.whole if link in self.connected and link not in self.mute]:
                if not view.in_force:
                    self.obey(self.register.on_adopted(self.now, link, Adopted(chain, view.epoch)))

    def _beat(self) -> None:
        for link in [link for link in self.connected if link not in self.mute]:
            self.obey(self.register.on_beat(self.now, link))
            for chain, view in self.register.directory().views.items():
                if link not in self.idle and link in self.connected:
                    self._progress(link, chain, view)
        for link, peer in self.complaints:
            if self.now % 200 == 0 and link in self.connected:
                self.obey(self.register.on_suspect(self.now, link, Suspect("c0", self.view().epoch, peer)))

    def _progress(self, link: str, chain: str, view: View) -> None:
        if link == view.learner:
            self.obey(self.register.on_ready(self.now, link, Ready(chain, view.epoch)))
        elif link in view.links and link not in view.whole:
            self.said = [link]
            self.obey(self.register.on_whole(self.now, link, Whole(chain, view.epoch)))
            self.said = []


def grown(*links: str, chains: int = 1, replicas: int = 0) -> World:
    world = World(chains, replicas or len(links))
    world.enlist(*links)
    world.run(3000)
    return world


def test_the_first_link_serves_at_once_and_the_next_ones_grow_the_chain() -> None:
    world = World(replicas=2)
    world.enlist("a#1")
    assert (world.shape(), world.view().generation) == ("1: a*", 1)
    world.enlist("b#1", "c#1")
    assert world.shape() == "1: a* +b"
    world.run(100)
    assert world.shape() == "2: a* b"
    world.run(1000)
    assert world.shape() == "2: a* b*"


def test_ready_and_whole_count_in_the_current_epoch_only() -> None:
    world = World(replicas=2)
    world.enlist("a#1", "b#1")
    for link, epoch in (("b#1", 0), ("b#1", 2), ("a#1", 1)):
        assert world.register.on_ready(world.now, link, Ready("c0", epoch)) == []
    world.obey(world.register.on_ready(world.now, "b#1", Ready("c0", 1)))
    assert world.shape() == "2: a* b"
    assert world.register.on_whole(world.now, "b#1", Whole("c0", 2)) == []  # the view is not in force yet
    world.adopt()
    assert world.register.on_whole(world.now, "b#1", Whole("c0", 1)) == []
    assert world.register.on_whole(world.now, "b#1", Whole("nowhere", 2)) == []
    world.obey(world.register.on_whole(world.now, "b#1", Whole("c0", 2)))
    assert world.shape() == "2: a* b*"


def test_a_killed_link_is_out_after_the_grace_of_its_connection() -> None:
    world = grown("a#1", "b#1", "c#1")
    assert world.shape() == "3: a* b* c*"
    world.close("a#1")
    world.run(140)
    assert world.shape() == "3: a* b* c*"
    world.run(60)
    assert world.shape() == "4: b* c*"


def test_a_link_that_reconnects_within_its_grace_keeps_its_place() -> None:
    world = grown("a#1", "b#1")
    revision = world.register.directory().revision
    world.close("b#1")
    world.run(100)
    world.enlist("b#1")
    world.run(1000)
    assert (world.shape(), world.register.directory().revision) == ("2: a* b*", revision)
    assert world.told == ["b#1"]


def test_a_link_that_says_nothing_loses_its_lease_and_its_connection_and_may_come_back() -> None:
    world = grown("a#1", "b#1")
    world.mute.append("a#1")
    world.run(1900)
    assert world.shape() == "2: a* b*"
    world.run(200)
    assert world.shape() == "3: b*"
    assert world.declined == [("a#1", "lapsed")]
    assert [type(effect) for effect in world.register.on_beat(world.now, "a#1")] == [Decline]
    world.mute.clear()
    world.enlist("a#1")
    world.run(1000)
    assert world.shape() == "4: b* a*"


def test_the_register_does_not_hold_its_own_pause_against_anybody() -> None:
    world = grown("a#1", "b#1")
    world.now += 60_000
    world.obey(world.register.on_time(world.now))
    world.run(1000)
    assert world.shape() == "2: a* b*"
    assert world.declined == []


def test_a_pause_noticed_by_a_beat_counts_as_well() -> None:
    world = grown("a#1", "b#1")
    world.now += 60_000
    world.obey(world.register.on_beat(world.now, "a#1"))
    world.obey(world.register.on_time(world.now))
    world.run(1000)
    assert world.shape() == "2: a* b*"


def test_a_newer_incarnation_ends_the_older_at_once() -> None:
    world = grown("a#1", "b#1")
    world.enlist("a#2")
    world.run(10)
    assert world.shape() == "3: b* +a#2"
    assert world.declined == [("a#1", "outdated")]
    world.enlist("a#1")
    assert world.declined == [("a#1", "outdated")] * 2
    world.run(1000)
    assert world.shape() == "4: b* a#2*"


def test_a_chain_that_lost_its_last_whole_link_waits_for_it() -> None:
    world = grown("a#1", "b#1", replicas=1)
    assert world.shape() == "1: a*"
    world.close("a#1")
    world.run(10_000)
    assert world.shape() == "1: a*"
    assert "a#1" in world.register.directory().links
    world.enlist("a#1")
    world.run(1000)
    assert (world.shape(), world.view().generation) == ("1: a*", 1)


def test_it_begins_anew_only_when_every_whole_link_is_certainly_lost() -> None:
    world = grown("a#1", "b#1", "c#1", replicas=2)
    world.close("a#1", "b#1")
    world.run(5000)
    assert world.shape() == "2: a* b*"
    world.enlist("a#2")
    world.run(5000)
    assert world.shape() == "2: a* b*"
    world.enlist("b#2")
    assert world.view().generation == 2
    assert world.view().whole == world.view().links == ["a#2"]
    assert world.view().epoch == 3
    world.run(1000)
    assert world.shape() == "4: a#2* b#2*"


def test_the_proof_of_a_loss_outlives_its_bearer_and_the_register() -> None:
    """a#2 proves that a#1 is lost; it dies and the register restarts; then b#2 is all that is still needed."""
    world = grown("a#1", "b#1")
    world.close("a#1", "b#1")
    world.run(1000)
    world.enlist("a#2")
    world.close("a#2")
    world.run(1000)
    world.restart()
    world.run(3000)
    assert world.shape() == "2: a* b*"
    world.enlist("b#2")
    assert world.view().links == ["b#2"]


def test_a_link_that_is_not_whole_never_serves_alone() -> None:
    world = World(replicas=2)
    world.idle.append("b#1")
    world.enlist("a#1", "b#1")
    world.obey(world.register.on_ready(world.now, "b#1", Ready("c0", 1)))
    world.close("a#1")
    world.run(5000)
    assert world.shape() == "2: a* b"


def test_a_lost_chain_whose_links_come_back_one_after_another_keeps_them_all() -> None:
    world = grown("a#1", "b#1", "c#1")
    world.close("a#1", "b#1", "c#1")
    world.run(5000)
    world.enlist("b#1")
    world.run(100)
    world.enlist("a#1", "c#1")
    world.run(1000)
    assert world.shape() == "3: a* b* c*"


def test_nobody_is_given_up_for_one_whose_connection_is_closed_too() -> None:
    """Both are killed, b a little later: while b is absent the chain must not come to rest on it."""
    world = grown("a#1", "b#1")
    world.close("a#1")
    world.run(100)
    world.close("b#1")
    world.run(1000)
    assert world.shape() == "2: a* b*"
    world.enlist("a#1")
    world.run(1000)
    assert world.shape() == "3: a*"


def test_a_dead_learner_makes_room_and_a_slow_one_too() -> None:
    world = World(replicas=2)
    world.idle += ["b#1", "c#1"]
    world.enlist("a#1", "b#1", "c#1")
    assert world.shape() == "1: a* +b"
    world.close("b#1")
    world.run(200)
    assert world.shape() == "1: a* +c"
    world.enlist("b#1")
    world.run(30_100)
    assert world.shape() == "1: a* +b"


def test_the_learner_goes_on_in_the_new_epoch() -> None:
    world = grown("a#1", "b#1", replicas=3)
    world.idle.append("c#1")
    world.enlist("c#1")
    world.close("b#1")
    world.run(200)
    assert world.shape() == "3: a* +c"
    world.idle.clear()
    world.run(1000)
    assert world.shape() == "4: a* c*"


def test_a_leaver_goes_at_once_and_the_last_whole_link_may_not() -> None:
    world = grown("a#1", "b#1")
    world.leave("a#1")
    world.run(10)
    assert world.shape() == "3: b*"
    world.leave("b#1")
    assert world.declined == [("b#1", "last")]
    world.run(1000)
    assert world.shape() == "3: b*"


def test_the_only_link_may_leave_as_soon_as_another_took_its_place() -> None:
    world = World(replicas=1)
    world.enlist("a#1", "a2#1")
    world.leave("a#1")
    assert world.shape() == "1: a* +a2"
    world.run(1000)
    assert world.shape() == "3: a2*"
    world.run(1000)
    assert world.shape() == "3: a2*"


def test_a_link_cut_off_from_both_neighbours_is_taken_out() -> None:
    world = grown("a#1", "b#1", "c#1")
    world.complaints += [("a#1", "b#1"), ("c#1", "b#1"), ("b#1", "a#1"), ("b#1", "c#1")]
    world.run(390)
    assert world.shape() == "3: a* b* c*"
    world.run(400)
    assert world.shape().startswith("4: a* c*")
    world.complaints.clear()
    world.run(3000)
    assert world.shape() == "5: a* c* b*"


def test_of_two_that_accuse_each_other_the_one_nearest_the_tail_goes() -> None:
    world = grown("a#1", "b#1", "c#1")
    world.complaints += [("b#1", "c#1"), ("c#1", "b#1")]
    world.run(900)
    assert world.shape().startswith("4: a* b*")


def test_an_accuser_goes_if_the_accused_cannot_be_spared() -> None:
    world = World(replicas=2, rejoin_ms=60_000)
    world.idle.append("b#1")
    world.enlist("a#1", "b#1")
    world.obey(world.register.on_ready(world.now, "b#1", Ready("c0", 1)))
    world.complaints.append(("b#1", "a#1"))
    world.run(900)
    assert world.shape() == "3: a*"


def test_one_complaint_that_is_not_repeated_changes_nothing_nor_does_one_of_an_older_epoch() -> None:
    world = grown("a#1", "b#1")
    world.obey(world.register.on_suspect(world.now, "a#1", Suspect("c0", 2, "b#1")))
    for _ in range(10):
        world.obey(world.register.on_suspect(world.now, "a#1", Suspect("c0", 1, "b#1")))
        world.obey(world.register.on_suspect(world.now, "a#1", Suspect("c0", 2, "x#1")))
        world.run(300)
    assert world.shape() == "2: a* b*"


def test_after_a_restart_everybody_has_a_lease_to_come_back_in() -> None:
    world = grown("a#1", "b#1", "c#1")
    world.restart()
    world.run(300)
    world.enlist("c#1", "b#1")
    world.run(1500)
    assert world.shape() == "3: a* b* c*"
    world.run(300)
    assert world.shape() == "4: b* c*"


def test_a_saved_directory_is_taken_up_as_it_was() -> None:
    world = grown("a#1", "b#1", "c#1", chains=3, replicas=2)
    before = world.register.snapshot()
    world.restart()
    world.enlist("a#1", "b#1", "c#1")
    assert world.register.directory() == before == world.disk
    assert world.told == ["a#1", "b#1", "c#1"]


def test_several_chains_get_different_heads_and_even_loads() -> None:
    world = grown("a#1", "b#1", "c#1", chains=3, replicas=2)
    views = [world.view(f"c{i}") for i in range(3)]
    assert sorted(view.head for view in views) == ["a#1", "b#1", "c#1"]
    served = [link for view in views for link in view.links]
    assert all(served.count(link) == 2 for link in ("a#1", "b#1", "c#1"))


def test_several_chains_do_not_wait_for_ever_for_more_links() -> None:
    world = World(chains=3, replicas=1)
    world.enlist("a#1")
    assert world.register.directory().views == {}
    world.run(310)
    assert [world.view(f"c{i}").links for i in range(3)] == [["a#1"]] * 3


@pytest.mark.parametrize("link", ["a", "#1", "a#", "a#x", "a#-1", "n" * 101 + "#1", "a#" + "9" * 30])
def test_a_bad_name_is_declined(link: str) -> None:
    world = World()
    world.enlist(link)
    assert world.declined == [(link, "bad-link")]
    assert world.announced == []


def test_the_table_of_links_is_bounded_and_the_dead_do_not_fill_it() -> None:
    world = World(replicas=1, links_max=3)
    world.enlist("a#1", "b#1", "c#1", "d#1")
    assert world.declined == [("d#1", "full")]
    world.close("c#1")
    world.run(200)
    world.enlist("d#1")
    assert sorted(world.register.directory().links) == ["a#1", "b#1", "d#1"]


def test_a_register_needs_chains_and_replicas() -> None:
    for chains, replicas in (([], 1), (["c", "c"], 1), (["c"], 0)):
        with pytest.raises(UsageError):
            RegisterConfig(chains, replicas)


@pytest.mark.parametrize("seed", range(60))
def test_any_history_keeps_the_invariants_and_a_healthy_set_grows_to_its_replicas(seed: int) -> None:
    """`World` checks every directory that is persisted or announced; afterwards all is well again, and stays so."""
    dice = random.Random(seed)
    world = World(chains=dice.choice([1, 3]), replicas=dice.choice([1, 2, 3]))
    incarnations = dict.fromkeys("abcde", 1)
    for _ in range(80):
        _stir(dice, world, incarnations)
        world.run(dice.choice([0, 10, 50, 200, 2500]))
    world.mute.clear(), world.idle.clear(), world.complaints.clear()  # type: ignore[func-returns-value]
    incarnations = {name: number + 1 for name, number in incarnations.items()}
    world.enlist(*(f"{name}#{number}" for name, number in incarnations.items()))
    world.run(8000)
    settled = world.register.directory()
    assert len(settled.views) == len(world.config.chains)
    assert all(len(view.links) == len(view.whole) == world.config.replicas for view in settled.views.values())
    world.run(5000)
    assert world.register.directory() == settled


def _stir(dice: random.Random, world: World, incarnations: dict[str, int]) -> None:
    name = dice.choice("abcde")
    link = f"{name}#{incarnations[name]}"
    there = link in world.connected

    def crash() -> None:
        incarnations[name] += 1
        if there:
            world.close(link)

    deeds: list[Callable[[], object]] = [
        lambda: None if there else world.enlist(link),
        lambda: None if there else world.enlist(link),
        lambda: world.close(link) if there else None,
        crash,
        lambda: world.leave(link) if there and dice.random() < 0.3 else None,
        lambda: world.mute.remove(link) if link in world.mute else world.mute.append(link),
        lambda: world.idle.remove(link) if link in world.idle else world.idle.append(link),
        lambda: world.restart(dice.choice([0, 5000])) if dice.random() < 0.3 else None,
        lambda: _complain(dice, world),
    ]
    dice.choice(deeds)()


def _complain(dice: random.Random, world: World) -> None:
    world.complaints.clear()
    views = world.register.directory().views
    if "c0" in views and dice.random() < 0.7:
        links = views["c0"].links
        world.complaints += [(dice.choice(links), dice.choice(links)) for _ in range(3)]


def test_a_view_comes_into_force_when_a_whole_link_has_adopted_it() -> None:
    world = grown("a#1", "b#1", "c#1")
    world.mute += ["b#1", "c#1"]
    world.close("a#1")
    world.run(300)
    assert (world.shape(), world.view().in_force, world.view().former) == ("4: b* c*", False, ["a#1", "b#1", "c#1"])
    world.mute.remove("c#1")
    world.run(20)
    assert (world.shape(), world.view().in_force, world.view().former) == ("4: b* c*", True, [])


def test_the_chain_goes_back_to_those_it_left_out_if_nobody_took_over() -> None:
    """The link that was to go on was dead as well, and only its last beats were still heard."""
    world = grown("a#1", "b#1")
    world.mute.append("b#1")
    world.close("a#1")
    world.run(300)
    assert (world.shape(), world.view().in_force) == ("3: b*", False)
    world.enlist("a#1")
    world.run(3000)
    assert (world.shape(), world.view().in_force) == ("4: a*", True)


def test_a_register_that_lost_its_store_declines_those_who_know_more() -> None:
    world = World(replicas=2)
    enlist = Enlist(address("a#1"), {"c0": 7})
    assert [type(effect) for effect in world.register.on_enlist(world.now, "a#1", enlist)] == [Decline]
    assert world.register.directory().views == {}


def test_those_who_were_left_out_stay_on_call_until_somebody_has_taken_over() -> None:
    """One after the other dies before it has taken up the view that was to go on without the first."""
    world = grown("a#1", "b#1", "c#1")
    world.mute += ["b#1", "c#1"]
    world.close("a#1")
    world.run(300)
    world.close("b#1")
    world.run(300)
    assert (world.view().links, world.view().in_force) == (["c#1"], False)
    assert world.view().former == ["a#1", "b#1", "c#1"]
    world.close("c#1")
    world.enlist("a#1")
    world.run(3000)
    assert (world.view().links, world.view().in_force) == (["a#1"], True)


def test_nobody_learns_while_the_last_who_joined_is_not_whole() -> None:
    world = World(replicas=3)
    world.idle.append("b#1")
    world.enlist("a#1", "b#1")
    world.run(500)
    world.obey(world.register.on_ready(world.now, "b#1", Ready("c0", world.view().epoch)))
    world.enlist("c#1")
    world.run(500)
    assert world.shape() == "2: a* b", "c waits until b is whole"
    world.idle.clear()
    world.run(3000)
    assert world.shape() == "3: a* b* c*"


def test_a_register_that_lost_only_its_last_decision_declines_as_well() -> None:
    world = grown("a#1", "b#1")
    enlist = Enlist(address("a#1"), {"c0": world.view().epoch + 1})
    (declined,) = world.register.on_enlist(world.now, "a#1", enlist)
    assert isinstance(declined, Decline)
    assert declined.code == "lost-register"
