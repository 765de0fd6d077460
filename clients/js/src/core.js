// A device: numbers what its user does, says it until it is settled, and follows the shared state.
//
// Theory. A number is given once, and the chain is the authority on which numbers are taken. A device may have
// forgotten them (a wiped store, an older copy of it), so it numbers nothing until the chain has answered its
// bootstrap. From then on it says every event in order and keeps it until a committed change kills it.
//
//     OFFLINE ──onConnected: bootstrap──▶ AWAITING ──welcome──▶ READY ──lost its place: bootstrap──▶ AWAITING
//        ▲                                   │                   │
//        └───────────onDisconnected──────────┴───────────────────┘        refused for good ──▶ STOPPED
//
// A device without a name is an observer: it says `observe` where a device says `bootstrap`, and cannot act.
//
// 1. Numbers are given only in READY and outside a busy wait; until then actions stay queued, in order.
// 2. A pending event leaves only through a kill, or because the chain said that it can never take it.
// 3. Kills and the state that they belong to change in one step and in one `persist`.
// 4. A change that does not start at the device's version is not applied: the device asks for its place again.
// 5. A resent event has the text it had before.
// 6. A message that breaks the protocol throws before anything has changed.
//
// Inputs go in, effects come out; times are milliseconds and come as `now`. Effects are obeyed in their order, and
// nothing that follows a `persist` may leave, or be told, before that is durable:
//
//     persist   save this step, all or none of it        settled    an event of this device has ended
//     send      say this on the current connection       advanced   the state is now that of `version`
//     dial      leave, and call `url` at once             reset      the chain began a new history
//     hangup    leave, and try another link after a pause stopped    the chain refuses this device for good

import { Book, Draft, nothingSaved } from "./book.js";
import { ProtocolError, UsageError } from "./errors.js";
import { LIMITS, checkEvent } from "./events.js";
import { PING, Patience, RESUME } from "./patience.js";

export const OFFLINE = "offline";
export const AWAITING = "awaiting";
export const READY = "ready";
export const STOPPED = "stopped";

const OUTCOMES = ["applied", "rejected", "superseded", "quarantined", "forgotten"];
/** Refusals that another connection would meet again. */
const FINAL_CODES = ["fenced", "forbidden", "bad-name", "bad-number"];

/** The pure core of a device, or of an observer if `device` is empty. */
export class Core {
  #space;
  #device;
  #token;
  #limits;
  #book;
  #patience;
  #askedVersion;
  #resumeFrom = 0;
  #redirects = 0;

  constructor(space, device = "", token = "", saved = null, limits = LIMITS) {
    this.#space = space;
    this.#device = device;
    this.#token = token;
    this.#limits = limits;
    this.phase = OFFLINE;
    this.links = [];
    this.#book = new Book(saved ?? nothingSaved(), limits);
    this.#patience = new Patience(limits);
    this.#askedVersion = this.version;
  }

  /** All that is kept; a core made from it goes on where this one was. The state is shared, not copied. */
  snapshot() {
    return this.#book.saved();
  }

  get state() {
    return this.#book.state;
  }

  get version() {
    return this.#book.version;
  }

  get generation() {
    return this.#book.generation;
  }

  get next() {
    return this.#book.next;
  }

  /** Every event that is not settled, numbered or not, in the order in which they were done. */
  unsettled() {
    return [...this.#book.pending.values(), ...this.#book.queue];
  }

  // What the application does.

  /** Takes an action: {ticket, effects}. It gets its number now, or as soon as the chain has answered. */
  act(name, payload) {
    if (!this.#device) throw new UsageError("an observer cannot send: connect as a Device, with a name");
    checkEvent(name, payload);
    const draft = new Draft();
    const { ticket } = this.#book.enqueue(draft, name, payload);
    return { ticket, effects: this.#close(draft) };
  }

  // What the connection does.

  onConnected(now) {
    if (this.phase === STOPPED) return [];
    this.#patience.onConnected(now);
    return this.#bootstrap(now);
  }

  onDisconnected(_now) {
    if (this.phase !== STOPPED) this.phase = OFFLINE;
    return [];
  }

  /** Takes a decoded message. Throws ProtocolError, with nothing changed, if the link said what it may not say. */
  onMessage(now, message) {
    if (this.phase === OFFLINE || this.phase === STOPPED) return [];
    this.#patience.onHeard(now);
    switch (message.type) {
      case "welcome":
        return this.#onWelcome(now, message);
      case "change":
        return this.#onChange(now, message);
      case "gap":
        // After a busy wait everything is sent again anyway.
        return this.#patience.waiting ? [] : this.#resend(now, message.expected);
      case "busy":
        return this.#wait(now, message.retry_ms, message.expected);
      case "redirect":
        return this.#onRedirect(now, message);
      case "error":
        return this.#onError(now, message);
      default:
        return [];
    }
  }

  /** May be called too early or too late; does what is due. */
  onTime(now) {
    const effects = [];
    for (const due of this.deadline() === null ? [] : this.#patience.due(now)) {
      if (due === PING) effects.push({ kind: "send", message: { type: "ping" } });
      else if (due === RESUME) effects.push(...this.#resume(now));
      else effects.push(...this.#hangUp(now, due));
    }
    return effects;
  }

  /** When `onTime` wants to be called, or null. */
  deadline() {
    return this.phase === OFFLINE || this.phase === STOPPED ? null : this.#patience.deadline();
  }

  // The chain's messages. Each is checked first; then all of it is applied.

  #onWelcome(now, welcome) {
    checkKills(welcome.kills);
    const book = this.#book;
    // Behind what was asked: this chain does not know the history that the device has seen.
    const fresh = welcome.generation !== book.generation || welcome.version < this.#askedVersion;
    const moves = fresh || welcome.version > book.version || book.version === 0;
    if (fresh && book.version !== 0 && welcome.state === null) {
      throw new ProtocolError("no-state", "a welcome to another history must bring the state");
    }
    if (moves && welcome.state === null && this.#askedVersion !== book.version) {
      // It answers an older bootstrap, and its patches start elsewhere.
      return this.#bootstrap(now);
    }
    const lost = fresh && book.generation !== 0;
    const draft = new Draft();
    book.generation = welcome.generation;
    if (moves) book.assume(draft, welcome.state, welcome.patches, welcome.version);
    // Kills come first: where a number was used twice, the chain's own event is taken back in its place.
    book.kill(draft, welcome.kills);
    if (welcome.next > book.next) book.doubtQueue(draft);
    book.adopt(draft, welcome.events);
    book.skipTo(welcome.next);
    this.#enter(welcome.links);
    const reset = lost ? [{ kind: "reset", generation: book.generation }] : [];
    return this.#close(draft, reset, [{ kind: "advanced", version: book.version }]);
  }

  #enter(links) {
    this.phase = READY;
    this.#redirects = 0;
    this.links = [...links];
    this.#patience.onAnswered();
  }

  #onChange(now, change) {
    // While a welcome is on its way it tells all of this too, counted from the version that was asked for.
    if (!this.#ready || change.version < this.version) return [];
    checkKills(change.kills);
    const draft = new Draft();
    if (change.version === this.version) {
      this.#book.kill(draft, change.kills);
      return draft.removed.length > 0 ? this.#close(draft) : [];
    }
    if (change.since !== this.version) return this.#bootstrap(now);
    this.#book.assume(draft, change.state, change.patches, change.version);
    this.#book.kill(draft, change.kills);
    return this.#close(draft, [], [{ kind: "advanced", version: this.version }]);
  }

  #onRedirect(now, redirect) {
    if (!redirect.url) {
      this.phase = AWAITING;
      return this.#wait(now, redirect.retry_ms, 0);
    }
    this.#redirects += 1;
    if (this.#redirects > this.#limits.redirectsMax) {
      // Two links that point at each other must not be called in a tight circle.
      this.#redirects = 0;
      return this.#hangUp(now, "too many redirects");
    }
    return [...this.onDisconnected(now), { kind: "dial", url: redirect.url }];
  }

  #onError(now, { code, detail, sequencer }) {
    if (this.#book.pending.has(sequencer)) {
      const draft = new Draft();
      this.#book.kill(draft, [[sequencer, "rejected", `${code}: ${detail}`]]);
      // Only a bootstrap can skip a number. Until its answer, nothing is numbered.
      const bootstrap = this.#bootstrap(now);
      return [...this.#close(draft), ...bootstrap];
    }
    if (sequencer !== 0 && this.#ready) return [];
    if (FINAL_CODES.includes(code)) {
      this.phase = STOPPED;
      return [{ kind: "stopped", code, detail }];
    }
    return this.#hangUp(now, `${code}: ${detail}`);
  }

  // Steps that several of the above share.

  get #ready() {
    return this.phase === READY;
  }

  /** Numbers what may be numbered, and turns the draft into effects: first durable, then told, then said. */
  #close(draft, reset = [], advanced = []) {
    if (this.#ready && !this.#patience.waiting) this.#book.numberQueue(draft);
    return [this.#book.close(draft), ...reset, ...draft.settled, ...advanced, ...this.#say(draft.numbered)];
  }

  #bootstrap(now) {
    this.phase = AWAITING;
    this.#askedVersion = this.version;
    this.#patience.onAsked(now);
    const { generation, version, next } = this.#book;
    if (!this.#device) return [{ kind: "send", message: { type: "observe", space: this.#space, generation, version } }];
    const who = { space: this.#space, device: this.#device, token: this.#token };
    const events = onWire(this.#book.pending.values());
    return [{ kind: "send", message: { type: "bootstrap", ...who, next, events, generation, version } }];
  }

  #wait(now, retryMs, resumeFrom) {
    this.#resumeFrom = resumeFrom;
    this.#patience.onWait(now, retryMs);
    return [];
  }

  #resume(now) {
    return this.#ready ? this.#resend(now, this.#resumeFrom) : this.#bootstrap(now);
  }

  #hangUp(now, detail) {
    return [...this.onDisconnected(now), { kind: "hangup", detail }];
  }

  /** Says all from `expected` on again, and what was queued meanwhile; asks if that number is unknown here. */
  #resend(now, expected) {
    if (!this.#ready) return [];
    const { pending, next } = this.#book;
    if (!pending.has(expected) && expected !== next) return this.#bootstrap(now);
    const draft = new Draft();
    this.#book.numberQueue(draft);
    const again = this.#say([...pending.values()].filter((event) => event.sequencer >= expected));
    return draft.numbered.length > 0 ? [this.#book.close(draft), ...again] : again;
  }

  #say(events) {
    const notes = onWire(events);
    const sends = [];
    for (let start = 0; start < notes.length; start += this.#limits.sendMax) {
      const some = notes.slice(start, start + this.#limits.sendMax);
      sends.push({ kind: "send", message: { type: "events", events: some } });
    }
    return sends;
  }
}

function onWire(events) {
  return Array.from(events, ({ sequencer, name, payload }) => [sequencer, name, payload]);
}

function checkKills(kills) {
  for (const [, outcome] of kills) {
    if (!OUTCOMES.includes(outcome)) throw new ProtocolError("unknown-outcome", `an event cannot end as "${outcome}"`);
  }
}
