// Hosts a device's core: moves text between a WebSocket, a store and the core, and obeys its effects.
//
// All inputs of one turn of the page are one batch: one transaction makes them durable, then their sends leave as one
// message. What happens while a transaction is under way is the next batch. Every effect remembers the connection that
// it was meant for: what was to be said on a connection that has ended is not said on the next one, where the bootstrap
// must come first.

import { READY } from "./core.js";
import { OctoloomError, ProtocolError, Refused, StoreError, UsageError } from "./errors.js";
import { decode, encode, joined } from "./messages.js";
import { Socket } from "./socket.js";

const TOLD = ["settled", "advanced", "reset"];
const ADVICE = {
  fenced: "the same device is connected elsewhere, and the newer connection wins: give each client its own name",
  forbidden: "the chain does not accept this token: pass another one as `token`",
};
/** A timer that comes later than this was held back, and so, maybe, was what the link said. */
const LATE_MS = 100;

/** Runs one core until it is closed, or ended by what cannot be mended. */
export class Driver {
  error = null;
  /** Whether it was closed, and did not fail. */
  left = false;
  /** Rises whenever pending events or the state may have changed. */
  revision = 0;
  #route;
  #store;
  #listener;
  #socket = null;
  #call = null;
  #pause = null;
  #timer = null;
  #timerAt = 0;
  #late = false;
  #effects = [];
  #flushing = false;
  #unsaved = 0;
  #touched = false;
  #whenIdle = [];

  /** `listener.onTold(effects)` hears of what is durable, `listener.onTouched()` that there is something else to show. */
  constructor(core, route, store, listener) {
    this.core = core;
    this.#route = route;
    this.#store = store;
    this.#listener = listener;
    store.onLost = (error) => this.#end(error);
    globalThis.addEventListener?.("online", this.#onOnline);
    globalThis.document?.addEventListener("visibilitychange", this.#onVisible);
    this.#dial();
  }

  get connected() {
    return this.core.phase === READY;
  }

  /** Whether all that happened is durable. */
  get saved() {
    return this.#unsaved === 0;
  }

  act(name, payload) {
    if (this.error !== null) throw this.error;
    const { ticket, effects } = this.core.act(name, payload);
    this.#perform(effects);
    return ticket;
  }

  /** Makes durable what was done, says what was to be said, and leaves. */
  async close() {
    while (this.#flushing && this.error === null) await new Promise((resolve) => this.#whenIdle.push(resolve));
    if (this.error !== null) return;
    const farewell = this.#socket?.bidFarewell();
    this.#call = null;
    this.left = true;
    this.#end(new UsageError("this connection was closed: open a new one with connect(...)"));
    await farewell;
  }

  // Connecting.

  #dial() {
    clearTimeout(this.#pause);
    this.#pause = null;
    if (this.error !== null) return;
    try {
      this.#call = new Socket(this.#route.next(), this);
    } catch {
      // A link may name an address that is none.
      this.#dialLater();
    }
  }

  #dialLater() {
    this.#pause = setTimeout(() => this.#dial(), this.#route.pauseMs());
  }

  #onOnline = () => {
    if (this.#socket !== null) return;
    this.#call?.abandon();
    this.#dial();
  };

  #onVisible = () => {
    // A page in the background is woken seldom; when it is looked at, it should not still pause.
    if (document.visibilityState === "visible" && this.#pause !== null) this.#dial();
  };

  onOpened(socket) {
    this.#socket = socket;
    this.#input(() => this.core.onConnected(now()));
  }

  onClosed(socket) {
    this.#call = null;
    if (socket === this.#socket) {
      this.#socket = null;
      this.#input(() => this.core.onDisconnected(now()));
    }
    if (this.error === null) this.#dialLater();
  }

  onText(socket, text) {
    this.#input(() => this.core.onMessage(now(), decode(text)));
  }

  /** Tells the core something. A link's fault ends that connection, a fault of our own ends the device. */
  #input(tell) {
    if (this.error !== null) return;
    const connected = this.connected;
    try {
      this.#perform(tell());
    } catch (error) {
      if (error instanceof ProtocolError) {
        console.warn(`octoloom: the link broke the protocol: ${error.message}`);
        this.#socket?.hangUp();
      } else {
        this.#end(new OctoloomError(`this is a fault in the client: ${error?.stack ?? error}`));
      }
    }
    if (connected !== this.connected) this.#touch();
  }

  // Time.

  /** Most deadlines only move back, and then the timer that is set asks again soon enough. */
  #arm() {
    const deadline = this.core.deadline();
    if (deadline === null || (this.#timer !== null && this.#timerAt <= deadline)) return;
    clearTimeout(this.#timer);
    this.#timerAt = deadline;
    this.#timer = setTimeout(this.#onTimer, Math.max(0, deadline - performance.now()));
  }

  #onTimer = () => {
    this.#late = !this.#late && now() > this.#timerAt + LATE_MS;
    if (this.#late) {
      // This page was asleep. What the link said meanwhile waits in line: it is heard first.
      this.#timer = setTimeout(this.#onTimer, LATE_MS);
      return;
    }
    this.#timer = null;
    // A timer may come a little early; a deadline in whole milliseconds must still count as reached.
    this.#input(() => this.core.onTime(now() + 1));
  };

  // Effects.

  /** Takes effects for the end of this turn. */
  #perform(effects) {
    const steps = effects.filter((effect) => effect.kind === "persist").length;
    if (steps > 0) {
      this.#unsaved += steps;
      this.revision += 1;
      this.#touch();
    }
    for (const effect of effects) this.#effects.push({ socket: this.#socket, effect });
    this.#schedule();
    this.#arm();
  }

  #schedule() {
    if (this.#effects.length === 0 || this.#flushing) return;
    this.#flushing = true;
    queueMicrotask(() => this.#flush());
  }

  #flush() {
    if (this.error !== null) return;
    const batch = this.#effects;
    this.#effects = [];
    const steps = batch.filter(({ effect }) => effect.kind === "persist").map(({ effect }) => effect);
    const commit = steps.length > 0 ? this.#store.commit(steps) : null;
    if (commit === null) this.#obey(batch, steps.length);
    else commit.then(() => this.#obey(batch, steps.length), (error) => this.#end(storeError(error)));
  }

  #obey(batch, steps) {
    if (this.error !== null) return;
    this.#flushing = false;
    this.#unsaved -= steps;
    const told = batch.map(({ effect }) => effect).filter((effect) => TOLD.includes(effect.kind));
    if (told.some((effect) => effect.kind === "advanced")) this.#route.welcomed(this.core.links);
    const isCurrent = ({ socket }) => socket !== null && socket === this.#socket;
    const current = batch.filter(isCurrent).map(({ effect }) => effect);
    const sends = current.filter((effect) => effect.kind === "send").map((effect) => effect.message);
    for (const message of joined(sends)) this.#socket.say(encode(message));
    if (steps > 0) this.#listener.onTold(told);
    for (const effect of current) this.#leave(effect);
    this.#schedule();
    this.#wakeIdle();
  }

  #leave(effect) {
    if (this.error !== null || this.#socket === null) return;
    if (effect.kind === "stopped") {
      const advice = ADVICE[effect.code] ?? "see the device protocol for this code";
      this.#end(new Refused(effect.code, `${effect.code}: ${effect.detail} (${advice})`));
    } else if (effect.kind === "dial" || effect.kind === "hangup") {
      if (effect.kind === "dial") this.#route.redirect(effect.url);
      this.#socket.hangUp();
    }
  }

  /** Nothing more will happen; whoever waits is told why. */
  #end(error) {
    if (this.error !== null) return;
    this.error = error;
    this.#flushing = false;
    this.#effects = [];
    clearTimeout(this.#timer);
    clearTimeout(this.#pause);
    globalThis.removeEventListener?.("online", this.#onOnline);
    globalThis.document?.removeEventListener("visibilitychange", this.#onVisible);
    this.#socket = null;
    this.core.onDisconnected(now());
    this.#call?.abandon();
    this.#store.close();
    this.#listener.onTold([]);
    this.#touch();
    this.#wakeIdle();
  }

  #wakeIdle() {
    for (const resolve of this.#whenIdle.splice(0)) resolve();
  }

  #touch() {
    if (this.#touched) return;
    this.#touched = true;
    queueMicrotask(() => {
      this.#touched = false;
      this.#listener.onTouched();
    });
  }
}

function now() {
  return Math.floor(performance.now());
}

function storeError(error) {
  return error instanceof OctoloomError ? error : new StoreError(`cannot save: ${error}`);
}
