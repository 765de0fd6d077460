"""Histories of a device for twins: what is done to it and what it hears, right and wrong, in any order.

A history is made while the Python core runs it, so that what the link says can be about the numbers and versions that
the device has at that moment. Most of it is plausible, some is late, doubled or nonsense.
"""

from __future__ import annotations

import json
import random
from dataclasses import asdict, dataclass
from typing import Any

import msgspec

from octoloom.core import device_messages as m
from octoloom.core.device import DeviceCore, Phase
from octoloom.core.device_effects import Effect, Limits, PendingEvent, Persist, Saved, Send, Settled
from octoloom.core.errors import OctoloomError
from octoloom.wire.device import decode_to_device

Step = list[Any]
Trace = list[dict[str, Any]]

WORDS = ["applied", "rejected", "superseded", "quarantined", "forgotten"]
PAYLOADS = [
    "1", "1.0", '{"b": 1, "a": 2}', '{"a":2,"b":1}', "null", '"\\u00e9"', '"é"', '"€🐙"', "[1, 2.50, 1e3]",
    "12345678901234567890", '{"__proto__":{"x":1}}', '{ "space" : true }', '"' + "x" * 60 + '"', '"\\\\\\""',
    '{"n":[[[]],{"a":"]}"}]}',
]  # fmt: skip
BAD_PAYLOADS = ["", "{", "nope", "[" * 33 + "]" * 33, '"' + "x" * 70_000 + '"', '"' + "é" * 33_000 + '"', "01", "1 2"]
NAMES = ["claim", "say", "é", 'q"\\\n', "🐙" * 64, "x" * 64]
BAD_NAMES = ["", "@join", "x" * 65, "🐙" * 65]
STATES = ["{}", '{"a": 1}', '{"a":{"b":{"c":1.50}},"l":[1,null]}', "null", "[1]", '{"__proto__": {"x": 1}, "é": "🐙"}']
PATCHES = [
    '{"a":2}', '{"a":null}', '{"a":{"b":{"d":1}}}', '{"a": {"b": null}}', '{"l":[{"x":null}]}', "{}", "null", "7",
    '{"__proto__":{"polluted":true}}', '{"constructor":{"prototype":{"polluted":true}}}', '{"a":{"__proto__":null}}',
    '{"toString":{"x":1}}', '{"b":{"c":{}}}', '{"n":12345678901234567890}',
]  # fmt: skip
LINKS = ["ws://one", "ws://two", "ws://three"]
CODES = ["fenced", "forbidden", "bad-name", "bad-number", "malformed", "payload-too-large", "shutting-down"]
BAD_TEXTS = [
    "", "nope", "[]", "7", "null", "{}", '{"type":"nonsense"}', '{"type":7}', '{"type":"gap"}', '{"type":"welcome"}',
    '{"type":"gap","expected":"1"}', '{"type":"gap","expected":true}', '{"type":"gap","expected":null}',
    '{"type":"gap","expected":1.5}', '{"type":"busy","expected":1,"retry_ms":1}', '{"type":"redirect","url":null}',
    '{"type":"change","since":0,"version":1,"kills":[[1,"applied"]]}', '{"type":"toString"}', '{"type":"__proto__"}',
    '{"type":"change","since":0,"version":1,"kills":[[1,"applied","",1]]}',
    '{"type":"change","since":0,"version":1,"kills":{"0":1}}', '{"type":"change","since":0,"version":1,"patches":{}}',
    '{"type":"change","since":0,"version":1,"patches":[01]}', '{"type":"change","since":0}',
    '{"type":"welcome","generation":1,"epoch":1,"version":1,"events":[[1,2,3]]}',
    '{"type":"welcome","generation":1,"epoch":1,"version":1,"links":[1]}',
    '{"type":"welcome","generation":1,"epoch":"1","version":1}', '{"type":"pong"', '{"type":"pong"}{}',
]  # fmt: skip


@dataclass(frozen=True)
class History:
    """What both twins start from and what they are told; `trace` is what the Python one did."""

    seed: int
    device: str
    limits: Limits
    saved: Saved
    steps: list[Step]
    trace: Trace

    def for_browser(self) -> dict[str, Any]:
        limits = {camel(name): value for name, value in asdict(self.limits).items()}
        return {
            "space": "lobby",
            "device": self.device,
            "token": "secret",
            "limits": limits,
            "saved": snapshot_for_browser(self.saved),
            "steps": self.steps,
        }


def camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)


def snapshot_for_browser(saved: Saved) -> dict[str, Any]:
    def rows(events: tuple[PendingEvent, ...]) -> list[dict[str, Any]]:
        return [
            {"sequencer": e.sequencer, "name": e.name, "payload": e.payload.decode(), "ticket": e.ticket}
            for e in events
        ]

    return {
        "next": saved.next_sequencer,
        "version": saved.version,
        "generation": saved.generation,
        "state": saved.state,
        "pending": rows(saved.pending),
        "queue": rows(saved.queue),
    }


class Maker:
    """Makes one history from a seed."""

    def __init__(self, seed: int, steps: int) -> None:
        self.dice = random.Random(seed)
        self.now = 1_000
        self.device = "ada" if self.dice.random() < 0.9 else ""
        self.limits = self._limits()
        self.circles = self.dice.random() < 0.1
        """Whether links point at each other."""
        self.saved = self._saved()
        self.core = self._born(self.saved)
        self.steps: list[Step] = []
        self.trace: Trace = []
        for _ in range(steps):
            self._take(self._step())
        self.history = History(seed, self.device, self.limits, self.saved, self.steps, self.trace)

    def _born(self, saved: Saved) -> DeviceCore:
        # A copy of the state: the core changes it in place.
        state = msgspec.json.decode(msgspec.json.encode(saved.state))
        parts = (saved.next_sequencer, saved.version, saved.generation, state, saved.pending, saved.queue)
        return DeviceCore("lobby", self.device, "secret", Saved(*parts), self.limits)

    def _limits(self) -> Limits:
        if self.dice.random() < 0.3:
            return Limits()
        return Limits(
            pending_max=self.dice.choice([2, 4, 8]),
            pending_bytes_max=self.dice.choice([150, 400, 10_000]),
            send_max=self.dice.choice([1, 2, 256]),
            welcome_ms=self.dice.choice([600, 5_000]),
            retry_ms_max=self.dice.choice([100, 30_000]),
            redirects_max=self.dice.choice([1, 2, 8]),
        )

    def _saved(self) -> Saved:
        if not self.device or self.dice.random() < 0.4:
            return Saved()
        dice = self.dice
        numbers = sorted(dice.sample(range(1, 9), dice.randrange(3)))
        pending = tuple(PendingEvent(n, dice.choice(NAMES), dice.choice(PAYLOADS).encode()) for n in numbers)
        tickets = sorted(dice.sample(range(1, 9), dice.randrange(3)))
        queue = tuple(PendingEvent(0, dice.choice(NAMES), dice.choice(PAYLOADS).encode(), t) for t in tickets)
        next_, version = max(numbers, default=0) + dice.randrange(1, 4), dice.randrange(4)
        state = msgspec.json.decode(dice.choice(STATES).encode()) if version else {}
        return Saved(next_, version, 1 if version else 0, state, pending, queue)

    # What happens.

    def _step(self) -> Step:
        kind = self.dice.choices(
            ["act", "bad act", "connected", "disconnected", "text", "bad text", "time", "restore"],
            [30, 2, 40 if self.core.phase is Phase.OFFLINE else 4, 3, 60, 3, 20, 2],
        )[0]
        if kind == "act":
            return ["act", self.dice.choice(NAMES), self.dice.choice(PAYLOADS)]
        if kind == "bad act":
            if self.dice.random() < 0.5:
                return ["act", self.dice.choice(BAD_NAMES), "1"]
            return ["act", "claim", self.dice.choice(BAD_PAYLOADS)]
        if kind == "restore":
            return ["restore"]
        self.now += self.dice.choice([0, 1, 5, 40])
        if kind == "time":
            return ["time", self._moment()]
        if kind == "text":
            return ["text", self.now, self._text()]
        if kind == "bad text":
            return ["text", self.now, self.dice.choice(BAD_TEXTS)]
        return [kind, self.now]

    def _moment(self) -> int:
        """Exactly when it is due, a moment before, a moment after, or much later."""
        deadline = self.core.deadline()
        if deadline is not None:
            self.now = max(self.now, deadline + self.dice.choice([-1, -1, 0, 0, 0, 1, 600, 5_000]))
        return self.now

    def _text(self) -> str:
        kinds = [self._welcome, self._change, self._gap, self._busy, self._redirect, self._error, self._pong]
        weights = [30, 40, 6, 6, 3, 5, 3]
        if self.core.phase is Phase.AWAITING:
            weights[4 if self.circles else 0] = 120
        members = self.dice.choices(kinds, weights)[0]()
        if self.dice.random() < 0.1:
            members.append(("unknown", '{"state": [1, "]"], "type": "pong"}'))
        if self.dice.random() < 0.2:
            self.dice.shuffle(members)
        space = self.dice.choice(["", "", " ", "\n\t "])
        return "{" + space + f"{space},{space}".join(f'"{name}"{space}:{space}{text}' for name, text in members) + "}"

    def _welcome(self) -> list[tuple[str, str]]:
        core, dice = self.core, self.dice
        generation = core.generation or 1
        generation = dice.choices([generation, generation + 1, 0], [20, 2, 1])[0]
        version = max(0, core.version + dice.choices([0, 1, 2, -1, -9], [6, 6, 3, 2, 1])[0])
        members = [("type", '"welcome"'), ("generation", str(generation)), ("epoch", "1"), ("version", str(version))]
        if dice.random() < 0.9:
            members.append(("next", str(max(0, core.next_sequencer + dice.choices([0, -1, 1, 5], [8, 3, 3, 1])[0]))))
        if dice.random() < 0.5:
            members.append(("kills", self._kills()))
        if dice.random() < 0.4:
            members.append(("events", self._events()))
        if dice.random() < 0.6:
            members.append(("state", dice.choice(STATES)))
        if dice.random() < 0.5:
            members.append(("patches", self._patches()))
        if dice.random() < 0.5:
            members.append(("links", json.dumps(dice.sample(LINKS, dice.randrange(4)))))
        return members

    def _change(self) -> list[tuple[str, str]]:
        core, dice = self.core, self.dice
        since = max(0, core.version + dice.choices([0, 1, -1], [12, 1, 1])[0])
        version = max(0, since + dice.choices([1, 2, 0, -1], [10, 3, 2, 1])[0])
        members = [("type", '"change"'), ("since", str(since)), ("version", str(version))]
        if dice.random() < 0.1:
            members.append(("state", dice.choice(STATES)))
        if dice.random() < 0.8:
            members.append(("patches", self._patches()))
        if dice.random() < 0.6:
            members.append(("kills", self._kills()))
        return members

    def _patches(self) -> str:
        return "[" + ", ".join(self.dice.choices(PATCHES, k=self.dice.randrange(4))) + "]"

    def _kills(self) -> str:
        count = self.dice.randrange(4)
        words = self.dice.choices([*WORDS, "eaten", "toString"], [40, 20, 5, 5, 5, 1, 1], k=count)
        return json.dumps([[self._number(), word, self.dice.choice(["", "no", "é\n"])] for word in words])

    def _events(self) -> str:
        numbers = sorted({self._number() for _ in range(self.dice.randrange(4))})
        return "[" + ",".join(self._event(number) for number in numbers) + "]"

    def _event(self, number: int) -> str:
        """The same as the device has, or another one."""
        own = self.core.pending.get(number)
        if own is not None and self.dice.random() < 0.5:
            return f"[{number},{json.dumps(own.name)},{own.payload.decode().strip()}]"
        return f"[{number} , {json.dumps(self.dice.choice(NAMES))} ,{self.dice.choice(PAYLOADS).strip()} ]"

    def _number(self) -> int:
        """Most often one that is pending."""
        if self.core.pending and self.dice.random() < 0.7:
            return self.dice.choice(list(self.core.pending))
        return max(0, self.core.next_sequencer + self.dice.choice([-2, -1, 0, 1, 3]))

    def _gap(self) -> list[tuple[str, str]]:
        return [("type", '"gap"'), ("expected", str(self._expected()))]

    def _expected(self) -> int:
        return self.dice.choice([self._number(), self._number(), self.core.next_sequencer])

    def _busy(self) -> list[tuple[str, str]]:
        retry = str(self.dice.choice([0, 1, 50, 400, 90_000]))
        return [("type", '"busy"'), ("expected", str(self._expected())), ("retry_ms", retry), ("detail", '"slow"')]

    def _redirect(self) -> list[tuple[str, str]]:
        url = self.dice.choice(['""', '"ws://two"'])
        return [("type", '"redirect"'), ("url", url), *([("retry_ms", "70")] if self.dice.random() < 0.7 else [])]

    def _error(self) -> list[tuple[str, str]]:
        code = json.dumps(self.dice.choice(CODES))
        number = [("sequencer", str(self._number()))] if self.dice.random() < 0.6 else []
        return [("type", '"error"'), ("code", code), ("detail", '"why"'), *number]

    def _pong(self) -> list[tuple[str, str]]:
        return [("type", '"pong"')]

    # What the Python core does about it.

    def _take(self, step: Step) -> None:
        said: dict[str, Any]
        try:
            said = {"effects": [form_of(effect) for effect in self._obey(step)]}
        except OctoloomError as error:
            said = {"error": type(error).__name__}
        core = self.core
        told = {"deadline": core.deadline(), "phase": core.phase.value, "links": core.links}
        self.steps.append(step)
        self.trace.append({**said, "snapshot": snapshot_form(core.snapshot()), **told})

    def _obey(self, step: Step) -> list[Effect]:
        kind, *rest = step
        if kind == "act":
            return self.core.act(rest[0], rest[1].encode())[1]
        if kind == "connected":
            return self.core.on_connected(rest[0])
        if kind == "disconnected":
            return self.core.on_disconnected(rest[0])
        if kind == "time":
            return self.core.on_time(rest[0])
        if kind == "text":
            return self.core.on_message(rest[0], decode_to_device(rest[1].encode()))
        self.core = self._born(self.core.snapshot())
        return []


def make(seed: int, steps: int = 60) -> History:
    return Maker(seed, steps).history


# One form for the effects of both twins.


def form_of(effect: Effect) -> dict[str, Any]:
    if isinstance(effect, Send):
        return {"kind": "send", **message_form(effect.message)}
    if isinstance(effect, Settled):
        form = {name: getattr(effect, name) for name in ("ticket", "sequencer", "reason", "version")}
        return {"kind": "settled", "outcome": effect.outcome.word, **form}
    if isinstance(effect, Persist):
        return {
            "kind": "persist",
            "next": effect.next_sequencer,
            "version": effect.version,
            "generation": effect.generation,
            "removed": list(effect.removed),
            "numbered": rows(effect.numbered),
            "unqueued": list(effect.unqueued),
            "queued": rows(effect.queued),
            "state": None if effect.state is None else effect.state.decode(),
            "patches": [patch.decode() for patch in effect.patches],
        }
    return {"kind": type(effect).__name__.lower(), **asdict(effect)}


def message_form(message: m.FromDevice) -> dict[str, Any]:
    fields = {name: getattr(message, name) for name in message.__struct_fields__}
    if "events" in fields:
        fields["events"] = [[number, name, bytes(payload).decode()] for number, name, payload in fields["events"]]
    return {"message": type(message).__name__, **fields}


def snapshot_form(saved: Saved) -> dict[str, Any]:
    place = {"next": saved.next_sequencer, "version": saved.version, "generation": saved.generation}
    return {**place, "state": canonical(saved.state), "pending": rows(saved.pending), "queue": rows(saved.queue)}


def rows(events: tuple[PendingEvent, ...]) -> list[list[Any]]:
    return [[event.sequencer, event.name, event.payload.decode(), event.ticket, event.size] for event in events]


def canonical(value: Any) -> str:
    """The value as text, numbers as JavaScript has them."""
    return json.dumps(_with_floats(value), sort_keys=True)


def _with_floats(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _with_floats(member) for key, member in value.items()}
    if isinstance(value, list):
        return [_with_floats(item) for item in value]
    return float(value) if isinstance(value, int) and not isinstance(value, bool) else value


def read_trace(trace: Trace) -> Trace:
    """What the browser's twin told, in the form of the Python one's."""
    return [_read_told(told) for told in trace]


def _read_told(told: dict[str, Any]) -> dict[str, Any]:
    snapshot = {**told["snapshot"], "state": canonical(told["snapshot"]["state"])}
    effects = {"effects": [_read_effect(effect) for effect in told["effects"]]} if "effects" in told else {}
    return {**told, "snapshot": snapshot, **effects}


def _read_effect(effect: dict[str, Any]) -> dict[str, Any]:
    if effect["kind"] != "send":
        return effect
    message = msgspec.json.decode(effect["text"], type=m.FromDevice)
    return {"kind": "send", **message_form(message)}
