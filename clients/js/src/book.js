// What a device owns: its events, the next number and the state, and the only ways in which they change.
//
// Theory. The three live and die together. Whoever changes them does it inside a draft, and the draft becomes one
// `persist`: a store never holds an event without its number, or a state without the kills that belong to it.
//
// 1. `next` is above every pending number and never falls; a number is given once.
// 2. Queued actions have no number, and get theirs in the order in which they were done.
// 3. Pending events keep `pendingMax` and `pendingBytesMax`, so that they fit into one bootstrap. Events that the chain
//    returns were pending once, all at the same time, and fit too. What has no room stays queued.
// 4. The state is that of exactly (`generation`, `version`).

import { Full, OctoloomError } from "./errors.js";
import { NUMBER_MAX, pendingEvent } from "./events.js";
import * as mergePatch from "./merge_patch.js";

/** All that a device keeps between two lives, before it has had one. */
export function nothingSaved() {
  return { next: 1, version: 0, generation: 0, state: {}, pending: [], queue: [] };
}

/** Gathers what one input changes, so that it becomes durable as one step. */
export class Draft {
  removed = [];
  adopted = [];
  numbered = [];
  unqueued = [];
  queued = [];
  state = null;
  patches = [];
  settled = [];
}

export class Book {
  #limits;
  #inherited;
  #nextTicket;
  #pendingBytes;
  #queueBytes;

  constructor(saved, limits) {
    this.state = saved.state;
    this.version = saved.version;
    this.generation = saved.generation;
    this.next = saved.next;
    this.pending = new Map(saved.pending.map((event) => [event.sequencer, { ...pendingOf(event), ticket: 0 }]));
    this.queue = saved.queue.map(pendingOf);
    this.#limits = limits;
    this.#inherited = new Set(this.queue.map((action) => action.ticket));
    this.#nextTicket = 1 + Math.max(0, ...this.#inherited);
    this.#pendingBytes = bytesOfAll(this.pending.values());
    this.#queueBytes = bytesOfAll(this.queue);
    if (this.next <= this.#highest()) throw new OctoloomError("a pending number is not below the next one");
  }

  /** All of it. The state is shared, not copied. */
  saved() {
    const { next, version, generation, state } = this;
    const pending = [...this.pending.values()].map((event) => ({ ...event, ticket: 0 }));
    return { next, version, generation, state, pending, queue: [...this.queue] };
  }

  // Actions.

  /** Takes an action that has no number yet; throws Full at the bound. */
  enqueue(draft, name, payload) {
    const action = pendingEvent(0, name, payload, this.#nextTicket);
    this.#checkBound(action);
    this.#nextTicket += 1;
    this.#queueBytes += action.size;
    this.queue.push(action);
    draft.queued.push(action);
    return action;
  }

  #checkBound(action) {
    const count = this.pending.size + this.queue.length;
    const size = this.#pendingBytes + this.#queueBytes;
    if (count >= this.#limits.pendingMax || size + action.size > this.#limits.pendingBytesMax) {
      throw new Full(`${count} events (${size} bytes) are not settled yet: await some of them before sending more`);
    }
  }

  /** Gives numbers to as many queued actions as there is room for; the others follow later kills. */
  numberQueue(draft) {
    while (this.queue.length > 0 && this.#hasRoom(this.queue[0])) {
      const action = this.queue.shift();
      this.#queueBytes -= action.size;
      const at = draft.queued.indexOf(action);
      if (at >= 0) draft.queued.splice(at, 1);
      else draft.unqueued.push(action.ticket);
      const event = pendingEvent(this.next, action.name, action.payload, action.ticket);
      this.next += 1;
      this.#add(event);
      draft.numbered.push(event);
    }
  }

  #hasRoom(action) {
    if (this.pending.size >= this.#limits.pendingMax || this.next > NUMBER_MAX) return false;
    const size = this.#pendingBytes + action.size;
    return size <= this.#limits.pendingBytesMax;
  }

  #add(event) {
    this.pending.set(event.sequencer, event);
    this.#pendingBytes += event.size;
  }

  // What the chain tells.

  /** Moves to `version`: patches on what is here, or on top of a whole `state`. Both are {text, value}. */
  assume(draft, state, patches, version) {
    draft.state = state === null ? null : state.text;
    draft.patches = patches.map((patch) => patch.text);
    if (state !== null) this.state = state.value;
    for (const patch of patches) this.state = mergePatch.apply(this.state, patch.value);
    this.version = version;
  }

  /** Drops settled events. A kill of an event that is not here was heard before, or is another life's. */
  kill(draft, kills) {
    for (const [sequencer, outcome, reason] of kills) {
      const event = this.pending.get(sequencer);
      if (event === undefined) continue;
      this.pending.delete(sequencer);
      this.#pendingBytes -= event.size;
      draft.removed.push(sequencer);
      draft.settled.push(this.#settled(event.ticket, sequencer, outcome, reason));
    }
  }

  #settled(ticket, sequencer, outcome, reason) {
    return { kind: "settled", ticket, sequencer, outcome, reason, version: this.version };
  }

  /** Takes back events that the chain holds and this device had lost. */
  adopt(draft, notes) {
    for (const [sequencer, name, payload] of notes) {
      const own = this.pending.get(sequencer);
      if (own !== undefined && own.name === name && own.payload === payload) continue;
      // The chain's event has the number; ours, if any, used it a second time.
      this.kill(draft, [[sequencer, "superseded", "another event took this number"]]);
      const event = pendingEvent(sequencer, name, payload);
      this.#add(event);
      draft.adopted.push(event);
    }
    if (draft.adopted.length > 0) this.pending = new Map([...this.pending].sort(([one], [other]) => one - other));
  }

  /** The chain says which numbers are taken; the next one is above them and above all that is here. */
  skipTo(sequencer) {
    this.next = Math.max(this.next, sequencer, this.#highest() + 1);
  }

  #highest() {
    return Math.max(0, ...this.pending.keys());
  }

  /** The chain has numbers that this store never gave: it is an older copy, and what it had queued may be done. */
  doubtQueue(draft) {
    for (const { ticket, size } of this.queue.filter((action) => this.#inherited.has(action.ticket))) {
      this.queue = this.queue.filter((action) => action.ticket !== ticket);
      this.#queueBytes -= size;
      draft.unqueued.push(ticket);
      const reason = "the store is an older copy: this may have been sent before";
      draft.settled.push(this.#settled(ticket, 0, "forgotten", reason));
    }
    this.#inherited.clear();
  }

  /** The draft as one step to save: removals first, then additions; `state` first, then `patches`. */
  close(draft) {
    return {
      kind: "persist",
      next: this.next,
      version: this.version,
      generation: this.generation,
      removed: draft.removed,
      numbered: [...draft.adopted, ...draft.numbered],
      unqueued: draft.unqueued,
      queued: draft.queued,
      state: draft.state,
      patches: draft.patches,
    };
  }
}

function pendingOf({ sequencer = 0, name, payload, ticket = 0 }) {
  return pendingEvent(sequencer, name, payload, ticket);
}

function bytesOfAll(events) {
  let bytes = 0;
  for (const event of events) bytes += event.size;
  return bytes;
}
