"""Small chains, driven by hand: who says what to whom when links come and go.

`Line` passes what the links say straight on, in order. A transcript reads like a conversation: `a → b  events 2`.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import msgspec
import pytest

from octoloom.core import device_messages as device_say
from octoloom.core import link_messages as say
from octoloom.core import merge_patch
from octoloom.core import ring as ring_module
from octoloom.core.app import App, AppEvent
from octoloom.core.chain import Chain
from octoloom.core.effects import Fan, Report, Tell, ToPeer, Trial
from octoloom.core.event import Change, Event
from octoloom.core.journal import Durability
from octoloom.core.register_messages import Directory, LinkAddress, Ready, Suspect, View, Whole


def make_app() -> App:
    app = App("tally", state={"puts": []})

    @app.on("put")
    def put(state: Any, event: AppEvent) -> None:
        state["puts"].append(event.payload)

    @app.on("turn")
    def turn(state: Any, event: AppEvent) -> None:
        """Waits until there are so many puts."""
        if len(state["puts"]) < event.payload:
            event.defer()

    return app


def spoken(message: say.LinkMessage) -> str:
    """A message in a few words; positions are next event/version."""
    word = type(message).__name__.lower()
    if isinstance(message, say.Hello | say.Welcome):
        word += "".join(f" {at.next_chain_sequencer}/v{at.version}" for at in message.positions)
    elif isinstance(message, say.Events):
        word += "".join(f" {event.chain_sequencer}" for event in message.events)
    elif isinstance(message, say.Changes):
        word += "".join(f" v{change.version}" for change in message.changes)
    elif isinstance(message, say.Snapshot):
        word += f" v{message.snapshot.version}"
    elif isinstance(message, say.Ack):
        word += "".join(f" v{version}" for _, version in message.versions)
    elif isinstance(message, say.Stale):
        word += f" {message.epoch}"
    return word


class Screen:
    """What a device or an observer has been told, folded."""

    def __init__(self) -> None:
        self.state: Any = None
        self.version = 0
        self.kills: list[tuple[int, str]] = []
        self.messages: list[device_say.ToDevice] = []
        self.closed = False

    def show(self, since: int, version: int, state: bytes | None, patches: list[bytes]) -> None:
        assert since == self.version
        if state is not None:
            self.state = msgspec.json.decode(state)
        for patch in patches:
            self.state = merge_patch.apply(self.state, msgspec.json.decode(patch))
        self.version = version

    def tell(self, told: Tell) -> None:
        self.messages.append(told.message)
        self.closed = self.closed or told.close
        message = told.message
        if isinstance(message, device_say.Welcome | device_say.Changed):
            since = self.version if isinstance(message, device_say.Welcome) else message.since
            state = None if isinstance(message.state, msgspec.UnsetType) else bytes(message.state)
            self.show(since, message.version, state, [bytes(patch) for patch in message.patches])
            self.kills.extend((sequencer, word) for sequencer, word, _ in message.kills)


class Line:
    """Links by name, the connections between them, and everything that was said."""

    def __init__(self, *links: str, replicas: int = 1) -> None:
        self.chains = {link: Chain("main", link, make_app()) for link in links}
        self.replicas = replicas
        self.now, self.epoch, self.revision = 1000, 0, 0
        self.said: list[str] = []
        self.reports: list[tuple[str, object]] = []
        self.trials: list[tuple[str, Trial]] = []
        self.screens: dict[int, Screen] = defaultdict(Screen)
        self.held: dict[tuple[str, str], list[say.LinkMessage]] = {}
        for link in links:
            self.connect(link)

    def __getitem__(self, link: str) -> Chain:
        return self.chains[link]

    def connect(self, link: str) -> None:
        for other in [other for other in self.chains if other != link]:
            self.chains[link].on_peer_up(self.now, other)
            self.chains[other].on_peer_up(self.now, link)

    def hold(self, sender: str, receiver: str) -> None:
        """From now on what this one says to that one is under way."""
        self.held[sender, receiver] = []

    def release(self, sender: str, receiver: str) -> None:
        for message in self.held.pop((sender, receiver)):
            self.chains[receiver].on_message(self.now, sender, message)
        self.settle()

    def kill(self, link: str) -> None:
        """The link dies, and with it what it had under way."""
        del self.chains[link]
        self.held = {pair: kept for pair, kept in self.held.items() if link not in pair}
        for chain in self.chains.values():
            chain.on_peer_down(self.now, link)

    def view(
        self,
        *links: str,
        whole: list[str] | None = None,
        learner: str = "",
        generation: int = 1,
        tell: list[str] | None = None,
        same_epoch: bool = False,
    ) -> None:
        self.epoch += not same_epoch
        self.revision += 1
        everyone = list(links) if whole is None else whole
        view = View("main", self.epoch, generation, list(links), everyone, learner, self.replicas)
        addresses = {link: LinkAddress(link, f"{link}:1", f"ws://{link}") for link in self.chains}
        self.directory = Directory(self.revision, addresses, {"main": view})
        for link in list(self.chains) if tell is None else tell:
            self.announce(link)
        self.settle()

    def announce(self, link: str) -> None:
        self.chains[link].on_directory(self.now, self.directory)

    def settle(self) -> None:
        """Turn after turn, until nobody has anything more to say or to compute."""
        busy = True
        while busy:
            busy = sum(self._turn(link) for link in list(self.chains)) > 0

    def _turn(self, link: str) -> bool:
        effects = self.chains[link].flush(self.now)
        for effect in effects:
            if isinstance(effect, ToPeer):
                self._pass_on(link, effect)
            elif isinstance(effect, Tell):
                self.screens[effect.connection].tell(effect)
            elif isinstance(effect, Fan):
                for connection in effect.connections:
                    screen = self.screens[connection]
                    screen.show(effect.since, effect.version, effect.state, effect.patches)
                    screen.kills.extend((number, word) for number, word, _ in effect.kills.get(connection, []))
            elif isinstance(effect, Report):
                self.reports.append((link, effect.message))
            elif isinstance(effect, Trial):
                self.trials.append((link, effect))
        return bool(effects) or self.chains[link].deadline() == 0

    def _pass_on(self, link: str, effect: ToPeer) -> None:
        if (link, effect.peer) in self.held:
            self.held[link, effect.peer].append(effect.message)
        elif effect.peer in self.chains:
            self.said.append(f"{link} → {effect.peer}  {spoken(effect.message)}")
            self.chains[effect.peer].on_message(self.now, link, effect.message)

    def heard(self) -> list[str]:
        """What was said since the last time that somebody asked."""
        said, self.said = self.said, []
        return said

    # Devices.

    def bootstrap(self, link: str, connection: int, device: str = "ada", **more: Any) -> Screen:
        self.chains[link].service.on_message(self.now, connection, device_say.Bootstrap("lobby", device, **more))
        self.settle()
        return self.screens[connection]

    def observe(self, link: str, connection: int, **more: Any) -> Screen:
        self.chains[link].service.on_message(self.now, connection, device_say.Observe("lobby", **more))
        self.settle()
        return self.screens[connection]

    def put(self, link: str, connection: int, sequencer: int, payload: bytes = b"1") -> None:
        events = [(sequencer, "put", msgspec.Raw(payload))]
        self.chains[link].service.on_message(self.now, connection, device_say.Send(events))
        self.settle()

    def versions(self) -> dict[str, int]:
        return {link: chain.space("lobby").version for link, chain in self.chains.items()}

    def assert_equal_replicas(self) -> None:
        """All that they hold and remember; the order of keys and of devices is not part of it."""
        replicas = []
        for chain in self.chains.values():
            replica = msgspec.structs.asdict(chain.spaces["lobby"].snapshot())
            replica["state"] = msgspec.json.decode(replica["state"])
            replica["devices"] = {record.device: record for record in replica["devices"] if record.watermark}
            replicas.append(replica)
        assert all(replica == replicas[0] for replica in replicas)


def playing(*links: str, replicas: int = 1) -> tuple[Line, Screen]:
    """A chain in its first view, with Ada on the head and her join (event 1, version 1) behind her."""
    line = Line(*links, replicas=replicas)
    line.view(*links)
    ada = line.bootstrap(links[0], 1)
    line.heard()
    return line, ada


# One event's way.


def test_an_event_goes_down_its_change_comes_up_and_the_acknowledgement_goes_down() -> None:
    line, ada = playing("a", "b", "c")
    line.put("a", 1, 1, b'"x"')
    assert line.heard() == [
        "a → b  events 2",
        "b → c  events 2",
        "c → b  changes v2",
        "b → a  changes v2",
        "a → b  ack v2",
        "b → c  ack v2",
    ]
    assert (ada.version, ada.state, ada.kills) == (2, {"puts": ["x"]}, [(1, "applied")])
    assert [chain.spaces["lobby"].committed for chain in line.chains.values()] == [2, 2, 2]
    line.assert_equal_replicas()


def test_links_that_meet_for_the_first_time_exchange_positions() -> None:
    line = Line("a", "b", "c")
    line.view("a", "b", "c")
    assert line.heard() == [
        "b → a  hello",
        "c → b  hello",
        "a → b  welcome",
        "a → b  ack",
        "a → b  synced",
        "b → c  welcome",
        "b → c  ack",
        "b → c  synced",
    ]


def test_a_chain_of_one_is_head_and_tail() -> None:
    line, ada = playing("a")
    line.put("a", 1, 1)
    assert (ada.version, ada.kills, line.heard()) == (2, [(1, "applied")], [])


def test_a_turn_gathers_what_it_got_into_one_batch_per_neighbour() -> None:
    line, ada = playing("a", "b")
    for number in (1, 2, 3):
        line["a"].service.on_message(line.now, 1, device_say.Send([(number, "put", msgspec.Raw(b"%d" % number))]))
    line.settle()
    assert line.heard() == ["a → b  events 2 3 4", "b → a  changes v2", "a → b  ack v2"]
    assert ada.state == {"puts": [1, 2, 3]}


def test_nobody_is_shown_what_the_head_does_not_have() -> None:
    line, ada = playing("a", "b", "c")
    watcher = line.observe("c", 9)
    line.hold("b", "a")
    line.put("a", 1, 1)
    assert line.versions() == {"a": 1, "b": 2, "c": 2}
    assert (ada.version, watcher.version) == (1, 1)
    line.release("b", "a")
    assert (ada.version, watcher.version) == (2, 2)
    assert watcher.state == ada.state


def test_no_link_calls_committed_what_it_does_not_hold() -> None:
    line, _ = playing("a", "b")
    line["b"].on_message(line.now, "a", say.Ack("main", 1, [("lobby", 99)]))
    assert line["b"].spaces["lobby"].committed == 1


def test_time_and_dice_of_the_head_reach_the_tail() -> None:
    line, _ = playing("a", "b")
    line.hold("b", "a")
    line.now = 5000
    line.put("a", 1, 1)
    event = line["a"].spaces["lobby"].events[2]
    assert (event.time_ms, event.dice != 0) == (5000, True)
    assert line["b"].spaces["lobby"].time_ms == 5000


# The head dies.


def test_the_next_link_is_promoted_with_what_it_has_and_the_device_resends_the_rest() -> None:
    line, _ = playing("a", "b")
    line.put("a", 1, 1, b'"x"')
    line.hold("a", "b")
    line.put("a", 1, 2, b'"lost"')
    line.kill("a")
    line.view("b")
    assert line["b"].place.is_head
    assert line.versions() == {"b": 2}

    pending = [(1, "put", msgspec.Raw(b'"x"')), (2, "put", msgspec.Raw(b'"lost"'))]
    ada = line.bootstrap("b", 2, next=3, events=pending)
    welcome = ada.messages[0]
    assert isinstance(welcome, device_say.Welcome)
    assert (welcome.next, welcome.kills, welcome.links) == (3, [(1, "applied", "")], ["ws://b"])
    assert ada.state == {"puts": ["x", "lost"]}
    assert ada.kills == [(1, "applied"), (2, "applied")]
    assert line["b"].spaces["lobby"].next_chain_sequencer == 4, "she is still here: there is no second join"


def test_a_promoted_head_commits_what_it_holds_and_tells_the_links_below() -> None:
    line, _ = playing("a", "b", "c")
    watcher = line.observe("c", 9)
    line.hold("b", "a")
    line.put("a", 1, 1)
    line.kill("a")
    line.view("b", "c")
    assert line["b"].spaces["lobby"].committed == 2
    assert (watcher.version, watcher.state) == (2, {"puts": [1]})


# The middle dies.


def lose_the_middle(line: Line) -> None:
    """Events 3 and 4 have not come down past b, changes 2 has not come up past it."""
    line.hold("b", "a")
    line.put("a", 1, 1, b'"x"')
    line.hold("a", "b")
    line.put("a", 1, 2, b'"y"')
    line.put("a", 1, 3, b'"z"')
    line.heard()
    line.kill("b")
    line.view("a", "c")


def test_around_a_dead_middle_events_go_down_and_changes_come_up() -> None:
    line, ada = playing("a", "b", "c")
    lose_the_middle(line)
    assert line.heard() == [
        "c → a  hello 3/v2",
        "a → c  welcome 5/v1",
        "a → c  events 3 4",
        "a → c  ack v1",
        "a → c  synced",
        "c → a  changes v2",
        "c → a  changes v3",
        "a → c  ack v3",
    ]
    assert (ada.version, ada.state) == (3, {"puts": ["x", "y", "z"]})
    assert ada.kills == [(1, "applied"), (2, "applied"), (3, "applied")]
    line.assert_equal_replicas()


def test_a_link_that_lags_further_than_the_ring_gets_all_of_the_space(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ring_module, "CHANGES_MAX", 1)
    line, ada = playing("a", "b", "c")
    line.hold("b", "a")
    line.put("a", 1, 1, b'"x"')
    line.put("a", 1, 2, b'"y"')
    line.hold("a", "b")
    line.put("a", 1, 3, b'"z"')
    line.heard()
    line.kill("b")
    line.view("a", "c")
    assert line.heard() == [
        "c → a  hello 4/v3",
        "a → c  welcome 5/v1",
        "a → c  events 4",
        "a → c  ack v1",
        "a → c  synced",
        "c → a  snapshot v3",
        "c → a  changes v4",
        "a → c  ack v4",
    ]
    line.assert_equal_replicas()
    assert ada.closed, "the snapshot does not say how her events ended: she bootstraps again and is told"
    again = line.bootstrap("a", 2, next=4, events=[(n, "put", msgspec.Raw(b'"%c"' % (119 + n))) for n in (1, 2, 3)])
    assert again.state == {"puts": ["x", "y", "z"]}
    assert again.kills == [(1, "applied"), (2, "applied"), (3, "applied")]


def test_a_middle_passes_a_snapshot_from_below_on_to_the_head(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ring_module, "CHANGES_MAX", 1)
    line, _ = playing("a", "b", "c", "d")
    line.hold("c", "b")
    line.put("a", 1, 1, b'"x"')
    line.put("a", 1, 2, b'"y"')
    line.heard()
    line.kill("c")
    line.view("a", "b", "d")
    said = line.heard()
    assert "d → b  snapshot v3" in said
    assert "b → a  snapshot v3" in said
    assert line.versions() == {"a": 3, "b": 3, "d": 3}
    line.assert_equal_replicas()


def test_a_change_with_a_hole_before_it_is_not_applied_but_asked_for() -> None:
    line, _ = playing("a", "b")
    line.hold("b", "a")
    line.put("a", 1, 1)
    line.put("a", 1, 2)
    lost, kept = line.held.pop(("b", "a"))
    assert (spoken(lost), spoken(kept)) == ("changes v2", "changes v3")
    line["a"].on_message(0, "b", kept)
    assert line.versions()["a"] == 1
    line.heard()
    line.settle()
    assert line.heard() == ["a → b  welcome 4/v1", "b → a  changes v2 v3", "a → b  ack v3"]
    line["a"].on_message(0, "b", lost)
    line.settle()
    assert (line.versions()["a"], line.heard()) == (3, []), "what comes twice is dropped"


def test_neighbours_that_lose_only_their_connection_agree_again() -> None:
    line, ada = playing("a", "b")
    line.hold("a", "b")
    line.put("a", 1, 1, b'"x"')
    line.held.clear()
    line["a"].on_peer_down(0, "b")
    line["b"].on_peer_down(0, "a")
    line.connect("a")
    line.settle()
    assert "a → b  events 2" in line.heard()
    assert ada.state == {"puts": ["x"]}


# The tail dies.


def test_the_link_above_a_dead_tail_computes_on_from_its_own_version_after_a_trial() -> None:
    line, ada = playing("a", "b")
    line.hold("b", "a")
    line.put("a", 1, 1, b'"x"')
    assert line.versions() == {"a": 1, "b": 2}
    line.kill("b")
    line.view("a")
    ((where, trial),) = line.trials
    assert (where, trial.space, [event.chain_sequencer for event in trial.events]) == ("a", "lobby", [2])
    assert line.versions() == {"a": 1}, "the event may be what killed the tail: nothing is computed before the trial"
    line.put("a", 1, 2, b'"y"')
    assert line.versions() == {"a": 1}, "and nothing behind it either"
    line["a"].on_trial(line.now, "lobby", [])
    line.settle()
    assert ada.state == {"puts": ["x", "y"]}
    assert ada.kills == [(1, "applied"), (2, "applied")]


def test_an_event_that_ends_the_trial_too_is_quarantined() -> None:
    line, ada = playing("a", "b")
    line.hold("b", "a")
    line.put("a", 1, 1, b'"poison"')
    line.put("a", 1, 2, b'"y"')
    line.kill("b")
    line.view("a")
    line["a"].on_trial(line.now, "lobby", [2])
    line.settle()
    assert ada.state == {"puts": ["y"]}
    assert ada.kills == [(1, "quarantined"), (2, "applied")]


def test_a_link_that_joined_itself_suspects_what_a_later_tail_died_of() -> None:
    line, ada = playing("a")
    for newcomer, links in (("b", "ab"), ("c", "abc")):
        line.chains[newcomer] = Chain("main", newcomer, make_app())
        line.connect(newcomer)
        line.view(*links[:-1], learner=newcomer)
        line.view(*links, whole=list(links[:-1]))
        line.view(*links, same_epoch=True)
    line.hold("c", "b")
    line.put("a", 1, 1, b'"poison"')
    line.kill("c")
    line.view("a", "b")
    ((where, trial),) = line.trials
    assert (where, [event.chain_sequencer for event in trial.events]) == ("b", [2])
    assert ada.version == 1, "b computes nothing before the trial"
    line["b"].on_trial(line.now, "lobby", [2])
    line.settle()
    assert ada.kills == [(1, "quarantined")]


def test_what_is_not_suspicious_is_computed_without_a_trial() -> None:
    line, ada = playing("a", "b")
    line.kill("b")
    line.view("a")
    line.put("a", 1, 1)
    assert (line.trials, ada.version) == ([], 2)


def test_the_last_copy_of_several_tries_every_event_first() -> None:
    line, ada = playing("a", replicas=2)
    assert [len(trial.events) for _, trial in line.trials] == [1], "even the join"
    line["a"].on_trial(line.now, "lobby", [])
    line.settle()
    line.put("a", 1, 1)
    assert [[event.chain_sequencer for event in trial.events] for _, trial in line.trials] == [[1], [2]]
    assert ada.version == 1
    line["a"].on_trial(line.now, "lobby", [])
    line.settle()
    assert ada.version == 2
    assert len(line.trials) == 2


# A link joins.


def test_a_learner_becomes_ready_is_appended_becomes_whole_and_only_then_computes() -> None:
    line, ada = playing("a")
    line.put("a", 1, 1, b'"x"')
    line.chains["b"] = Chain("main", "b", make_app())
    line.connect("b")
    line.heard()

    line.view("a", learner="b", same_epoch=True)
    assert line.heard() == [
        "b → a  hello",
        "a → b  welcome 3/v2",
        "a → b  snapshot v2",
        "a → b  ack v2",
        "a → b  synced",
    ]
    assert line.reports == [("b", Ready("main", 1))]
    line.put("a", 1, 2, b'"y"')
    assert line.heard() == ["a → b  events 3", "a → b  changes v3"], "a learner is told changes from above"
    assert ada.version == 3
    assert not line["b"].serving

    line.hold("a", "b")
    line.view("a", "b", whole=["a"])
    line.put("a", 1, 3, b'"z"')
    assert line.versions() == {"a": 3, "b": 3}, "the old tail no longer computes, the new one does not yet"
    assert line.reports[1:] == []
    line.release("a", "b")
    assert line.reports[1:] == [("b", Whole("main", 2))]
    assert line.versions() == {"a": 4, "b": 4}
    assert ada.state == {"puts": ["x", "y", "z"]}
    line.view("a", "b", same_epoch=True)
    line.assert_equal_replicas()


def test_a_report_is_repeated_until_the_register_knows() -> None:
    line, _ = playing("a")
    line.chains["b"] = Chain("main", "b", make_app())
    line.connect("b")
    line.view("a", learner="b")
    assert line.reports == [("b", Ready("main", 2))]
    line.now += 499
    line.settle()
    assert len(line.reports) == 1
    assert line["b"].deadline() == 1500
    line.now += 1
    line.settle()
    assert line.reports[1:] == [("b", Ready("main", 2))]
    line["b"].on_register_up(line.now)
    line.settle()
    assert len(line.reports) == 3, "a register that was away may have missed it"


def test_a_learner_that_loses_its_tail_starts_over() -> None:
    line, _ = playing("a")
    line.put("a", 1, 1)
    line.chains["b"] = Chain("main", "b", make_app())
    line.connect("b")
    line.view("a", learner="b")
    line["b"].on_peer_down(line.now, "a")
    assert line["b"].spaces == {}
    line["a"].on_peer_down(line.now, "b")
    line.heard()
    line.connect("b")
    line.settle()
    assert "a → b  snapshot v2" in line.heard()


def test_a_new_tail_takes_over_without_a_trial_for_nothing_was_lost() -> None:
    line, _ = playing("a")
    line.chains["b"] = Chain("main", "b", make_app())
    line.connect("b")
    line.view("a", learner="b")
    line.view("a", "b", whole=["a"])
    line.put("a", 1, 1)
    assert line.trials == []
    assert line.versions() == {"a": 2, "b": 2}


def test_a_link_that_still_catches_up_when_its_neighbour_dies_catches_up_with_the_next() -> None:
    line, ada = playing("a", "b")
    line.chains["c"] = Chain("main", "c", make_app())
    line.connect("c")
    line.view("a", "b", learner="c")
    line.hold("b", "c")
    line.put("a", 1, 1, b'"x"')
    line.put("a", 1, 2, b'"y"')
    line.view("a", "b", "c", whole=["a", "b"])
    assert line.versions() == {"a": 3, "b": 3, "c": 1}
    line.heard()
    line.kill("b")
    line.view("a", "c", whole=["a"])
    assert line.heard() == [
        "c → a  hello 2/v1",
        "a → c  welcome 4/v3",
        "a → c  changes v2 v3",
        "a → c  ack v3",
        "a → c  synced",
    ]
    assert line.reports[-1] == ("c", Whole("main", 4))
    line.put("a", 1, 3, b'"z"')
    assert ada.state == {"puts": ["x", "y", "z"]}
    line.assert_equal_replicas()


def test_a_new_tail_gets_the_live_events_before_the_changes_that_kill_later_ones() -> None:
    """A kill moves the receiver's next number on: an event below it that came later would be taken for a duplicate."""
    line, ada = playing("a", "b")
    line.chains["c"] = Chain("main", "c", make_app())
    line.connect("c")
    line.view("a", "b", learner="c")
    line.hold("b", "c")
    line["a"].service.on_message(line.now, 1, device_say.Send([(1, "turn", msgspec.Raw(b"3"))]))
    line.settle()
    line.put("a", 1, 2, b'"y"')
    assert ada.kills == [(2, "applied")], "the first waits for its turn"
    line.view("a", "b", "c", whole=["a", "b"])
    line.kill("b")
    line.view("a", "c", whole=["a"])
    assert list(line["c"].spaces["lobby"].events) == [2]
    line.put("a", 1, 3, b'"z"')
    line.put("a", 1, 4, b'"w"')
    assert ada.kills == [(2, "applied"), (3, "applied"), (4, "applied"), (1, "applied")]
    line.assert_equal_replicas()


def test_nothing_is_taught_while_it_is_on_trial() -> None:
    line, _ = playing("a", "b")
    line.hold("b", "a")
    line.put("a", 1, 1, b'"x"')
    line.kill("b")
    line.view("a")
    line.chains["c"] = Chain("main", "c", make_app())
    line.connect("c")
    line.view("a", learner="c", same_epoch=True)
    assert line.heard()[-1] == "c → a  hello", "the learner would take over what may have killed the tail"
    line["a"].on_trial(line.now, "lobby", [2])
    line.settle()
    assert line.reports[-1] == ("c", Ready("main", 2))
    assert line["c"].spaces["lobby"].version == 2
    line.assert_equal_replicas()


def test_a_last_copy_under_load_still_teaches_a_learner() -> None:
    line, _ = playing("a", replicas=2)
    line["a"].on_trial(line.now, "lobby", [])
    line["a"].service.on_message(line.now, 2, device_say.Bootstrap("attic", "bob"))
    line.chains["b"] = Chain("main", "b", make_app())
    line.connect("b")
    line.view("a", learner="b", same_epoch=True)
    for number in range(1, 6):
        line.put("a", 1, number)
        line["a"].on_trial(line.now, "attic", [])
        line.settle()
        line.put("a", 2, number)
        line["a"].on_trial(line.now, "lobby", [])
        line.settle()
    assert any(words.startswith("a → b  welcome") for words in line.heard())


# Epochs.


def test_what_was_said_in_an_older_epoch_is_answered_with_stale_and_never_obeyed() -> None:
    line, _ = playing("a", "b")
    line.view("a", "b")
    line.heard()
    before = line["b"].spaces["lobby"].snapshot()
    event = Event(2, "ada", 1, "put", b"1", 5, 5)
    for message in (
        say.Hello("main", 1, []),
        say.Events("main", 1, "lobby", [event]),
        say.Ack("main", 1, [("lobby", 9)]),
        say.Snapshot("main", 1, before),
        say.Synced("main", 1),
    ):
        line["b"].on_message(0, "a", message)
        assert line["b"].flush(line.now) == [ToPeer("a", say.Stale("main", 2))]
    assert line["b"].spaces["lobby"].snapshot() == before


def test_a_message_from_a_newer_epoch_is_not_obeyed_either() -> None:
    line, _ = playing("a", "b")
    event = Event(2, "ada", 1, "put", b"1", 5, 5)
    line["b"].on_message(0, "a", say.Events("main", 7, "lobby", [event]))
    assert (line["b"].flush(line.now), line["b"].spaces["lobby"].events) == ([], {})


def test_only_neighbours_are_listened_to() -> None:
    line, _ = playing("a", "b", "c")
    event = Event(2, "ada", 1, "put", b"1", 5, 5)
    line["c"].on_message(0, "a", say.Events("main", 1, "lobby", [event]))
    line["c"].on_message(0, "x", say.Events("main", 1, "lobby", [event]))
    assert line["c"].spaces["lobby"].events == {}


def test_a_zombie_head_learns_of_its_death_from_its_old_neighbour_and_sends_its_devices_away() -> None:
    line, ada = playing("a", "b", "c")
    line.view("b", "c", tell=["b", "c"])
    line.heard()
    line.put("a", 1, 1)
    assert line.heard() == ["a → b  events 2", "b → a  stale 2"]
    assert line["a"].suspended
    assert ada.messages[-1] == device_say.Redirect("", 100)
    assert ada.closed
    late = line.bootstrap("a", 2, "bob")
    assert late.messages == [device_say.Redirect("", 100)]
    assert late.closed
    assert line.versions() == {"a": 1, "b": 1, "c": 1}
    line.announce("a")
    assert line["a"].spaces == {}, "out of the view it forgets everything, the lost event too"


def test_a_suspended_link_serves_again_once_it_knows_the_newer_view() -> None:
    line, ada = playing("a", "b", "c")
    line.kill("c")
    line.view("a", "b", tell=["b"])
    line.put("a", 1, 1, b'"x"')
    assert line["a"].suspended
    line.announce("a")
    line.settle()
    line["b"].on_trial(line.now, "lobby", [])
    again = line.bootstrap("a", 2, next=2, events=[(1, "put", msgspec.Raw(b'"x"'))])
    assert again.state == {"puts": ["x"]}
    assert (ada.closed, again.closed) == (True, False)


def test_a_suspended_tail_computes_nothing() -> None:
    line, ada = playing("a", "b")
    line["b"].on_message(line.now, "a", say.Stale("main", 2))
    line.put("a", 1, 1)
    assert line.versions() == {"a": 1, "b": 1}
    assert line["b"].deadline() is None
    line.view("a", "b")
    assert ada.version == 2


def test_a_whole_link_takes_its_state_from_below_only() -> None:
    line, _ = playing("a", "b", "c")
    line["b"].on_message(0, "a", say.Changes("main", 1, "lobby", [Change(1, 2, False, b'{"puts":["no"]}', [])]))
    assert line.versions()["b"] == 1


def test_an_expelled_neighbour_is_told_nothing_more() -> None:
    line, _ = playing("a", "b", "c")
    line.view("a", "c", tell=["a"])
    line.put("a", 1, 1)
    assert line.heard() == [], "b is out of the view, and c has not said hello yet"


def test_a_lost_neighbour_is_told_nothing_until_it_is_back() -> None:
    line, ada = playing("a", "b")
    line["a"].on_peer_down(line.now, "b")
    line.put("a", 1, 1)
    assert line.heard() == []
    line["b"].on_peer_down(line.now, "a")
    line.connect("b")
    line.settle()
    assert ada.version == 2


def test_changes_wait_until_the_upper_neighbour_has_said_where_it_stands() -> None:
    line, ada = playing("a", "b", "c")
    line.hold("b", "c")
    line.put("a", 1, 1)
    (events,) = line.held["b", "c"]
    line["c"].on_message(line.now, "b", events)
    line.kill("b")
    line.hold("a", "c")
    line.heard()
    line.view("a", "c")
    assert line.versions()["c"] == 2
    assert line.heard() == ["c → a  hello 3/v1"]
    line.release("a", "c")
    assert line.heard() == ["c → a  changes v2", "a → c  ack v2"]
    assert ada.version == 2


def test_a_new_upper_neighbour_is_told_nothing_before_it_has_said_where_it_stands() -> None:
    """Not even if the old one is still connected."""
    line, ada = playing("a", "b", "c")
    line.hold("b", "c")
    line.put("a", 1, 1)
    (events,) = line.held["b", "c"]
    line["c"].on_message(line.now, "b", events)
    line.hold("a", "c")
    line.heard()
    line.view("a", "c", tell=["c"])
    assert line.versions()["c"] == 2
    assert line.heard() == ["c → a  hello 3/v1"]
    line.announce("a")
    line.settle()
    line.release("a", "c")
    assert ada.version == 2


def test_a_hello_from_a_newer_epoch_waits_for_its_view() -> None:
    line, ada = playing("a", "b", "c")
    line.kill("b")
    line.view("a", "c", tell=["c"])
    assert line.heard() == ["c → a  hello 2/v1"]
    line.announce("a")
    line.settle()
    assert line.heard() == ["a → c  welcome 2/v1", "a → c  ack v1", "a → c  synced"]
    line.put("a", 1, 1)
    assert ada.version == 2


def test_an_older_view_changes_nothing() -> None:
    line, _ = playing("a", "b")
    old = line.directory
    line.view("a", "b")
    line["a"].on_directory(line.now, old)
    assert line["a"].epoch == 2


def test_a_link_out_of_the_view_forgets_everything_and_may_learn_again() -> None:
    line, _ = playing("a", "b")
    watcher = line.observe("b", 9)
    line.view("a", tell=["a", "b"])
    assert (line["b"].spaces, line["b"].whole, watcher.closed) == ({}, False, True)
    line.view("a", learner="b", same_epoch=True)
    assert line.versions() == {"a": 1, "b": 1}
    line.assert_equal_replicas()


def test_a_new_generation_starts_from_nothing() -> None:
    line, _ = playing("a", "b")
    line.put("a", 1, 1)
    line.kill("a")
    line.view("b", generation=2)
    assert line["b"].spaces == {}
    ada = line.bootstrap("b", 5)
    assert ada.version == 1
    assert ada.state == {"puts": []}


# Neighbours out of reach.


def test_what_the_journal_has_of_an_older_generation_says_nothing_about_this_one() -> None:
    """Versions start again in a generation: a late word about version 9 is of another version 9."""
    line = Line()
    chain = line.chains["a"] = Chain("main", "a", make_app(), durability=Durability.JOURNAL)
    for generation in (1, 2):
        line.view("a", generation=generation)
        chain.on_restored(line.now, generation, [])
        line.settle()
        ada = line.bootstrap("a", generation)
        line.put("a", generation, 1, b'"x"')
        chain.on_journaled(line.now, "lobby", 1, 9)
        line.settle()
        assert ada.version == (2 if generation == 1 else 0)
        assert ada.kills == ([(1, "applied")] if generation == 1 else [])
    assert chain.spaces["lobby"].committed == 0
    chain.on_journaled(line.now, "lobby", 2, 2)
    line.settle()
    assert (ada.version, ada.kills) == (2, [(1, "applied")])


def test_how_an_event_ended_is_told_when_that_is_in_the_journal_even_to_who_comes_back() -> None:
    line = Line()
    chain = line.chains["a"] = Chain("main", "a", make_app(), durability=Durability.JOURNAL)
    line.view("a")
    chain.on_restored(line.now, 1, [])
    line.settle()
    line.bootstrap("a", 1)
    chain.on_journaled(line.now, "lobby", 1, 1)
    line.put("a", 1, 1, b'"x"')
    chain.service.on_closed(line.now, 1)
    event = (1, "put", msgspec.Raw(b'"x"'))
    again = line.screens[2]
    again.version, again.state = 1, {"puts": []}
    line.bootstrap("a", 2, next=2, events=[event], generation=1, version=1)
    assert again.messages == [], "what became of event 1 is known here, and may still be lost"
    chain.on_journaled(line.now, "lobby", 1, 2)
    line.settle()
    assert (again.version, again.kills) == (2, [(1, "applied")])


def test_a_neighbour_that_stays_away_is_reported_after_a_while_and_again() -> None:
    line = Line("a", "b")
    for link, other in (("a", "b"), ("b", "a")):
        line[link].on_peer_down(line.now, other)
    line.view("a", "b")
    assert line["a"].deadline() == 1400
    line.now = 1399
    line.settle()
    assert line.reports == []
    line.now = 1400
    line.settle()
    assert line.reports == [("a", Suspect("main", 1, "b")), ("b", Suspect("main", 1, "a"))]
    line.now = 1599
    line.settle()
    assert len(line.reports) == 2
    line.now = 1600
    line.settle()
    assert len(line.reports) == 4
    line.connect("a")
    line.settle()
    line.now = 9000
    line.settle()
    assert len(line.reports) == 4, "they have talked"


def test_a_neighbour_that_goes_away_is_given_the_same_time() -> None:
    line, _ = playing("a", "b")
    line.now = 5000
    line["a"].on_peer_down(line.now, "b")
    line.settle()
    assert (line.reports, line["a"].deadline()) == ([], 5400)


def test_a_chain_at_rest_wants_no_turn() -> None:
    line, _ = playing("a", "b")
    assert line["a"].deadline() is None
    assert line["b"].deadline() is None
