// What devices and observers have in common: they follow a space's state and tell of its changes.

import { Changes } from "./changes.js";
import { Core } from "./core.js";
import { Driver } from "./driver.js";
import { UsageError } from "./errors.js";
import { SYSTEM } from "./events.js";
import { charactersOf, isTorn } from "./json_text.js";
import { Route } from "./route.js";

const NAME_MAX = 128;
const TOKEN_MAX = 4096;

export class Follower {
  #driver = null;
  #changes = new Set();
  #onChange = new Set();
  #onUpdate = new Set();
  #waiters = [];

  /** Opens the store, calls a link, and waits for its welcome up to `waitMs`. */
  async _open(urls, store, { space, device = "", token = "", waitMs = 1_000, takeOver = false }) {
    this.space = space;
    this.device = device;
    const saved = await store.load(space, device, takeOver);
    const core = new Core(space, device, token, saved);
    const listener = { onTold: (told) => this.#onTold(told), onTouched: () => this.#tell(this.#onUpdate) };
    this.#driver = new Driver(core, new Route(urls), store, listener);
    let timer;
    const patience = new Promise((resolve) => (timer = setTimeout(resolve, waitMs)));
    try {
      await Promise.race([this.online(), patience]);
    } finally {
      clearTimeout(timer);
    }
    return this;
  }

  get _driver() {
    return this.#driver;
  }

  get state() {
    return this.#driver.core.state;
  }

  get version() {
    return this.#driver.core.version;
  }

  get generation() {
    return this.#driver.core.generation;
  }

  get connected() {
    return this.#driver.connected;
  }

  get error() {
    return this.#driver.left ? null : this.#driver.error;
  }

  get closed() {
    return this.#driver.error !== null;
  }

  async online() {
    while (!this.connected) await this._told();
  }

  changes() {
    const changes = new Changes((done) => this.#changes.delete(done));
    if (this.#driver.error !== null) changes.end(this.error);
    else this.#changes.add(changes);
    return changes;
  }

  onChange(listener) {
    return subscribed(this.#onChange, listener);
  }

  onUpdate(listener) {
    return subscribed(this.#onUpdate, listener);
  }

  async close() {
    await this.#driver.close();
  }

  [Symbol.asyncDispose ?? Symbol.for("Symbol.asyncDispose")]() {
    return this.close();
  }

  /** Waits until the driver tells something; throws if it has ended. */
  async _told() {
    if (this.#driver.error !== null) throw this.#driver.error;
    await new Promise((resolve) => this.#waiters.push(resolve));
    if (this.#driver.error !== null) throw this.#driver.error;
  }

  #onTold(told) {
    const settled = told.filter((effect) => effect.kind === "settled");
    const outcomes = settled.map(outcomeOf);
    this._onSettled(settled.map(({ ticket }, at) => [ticket, outcomes[at]]));
    const versions = told.filter((effect) => effect.kind === "advanced").map((effect) => effect.version);
    if (versions.length > 0 || outcomes.length > 0) {
      const version = versions.length > 0 ? versions.at(-1) : outcomes.at(-1).version;
      const reset = told.some((effect) => effect.kind === "reset");
      this.#onMoved(Object.freeze({ version, settled: Object.freeze(outcomes), reset }));
    }
    const error = this.#driver?.error ?? null;
    if (error !== null) this.#onEnded(error);
    for (const resolve of this.#waiters.splice(0)) resolve();
  }

  #onMoved(change) {
    for (const changes of this.#changes) changes.offer(change);
    this.#tell(this.#onChange, change);
  }

  #onEnded(error) {
    for (const changes of this.#changes) changes.end(this.error);
    this.#changes.clear();
    this._onFailed(error);
  }

  /** Calls listeners. What one of them throws is reported, and is no concern of the others. */
  #tell(listeners, ...news) {
    for (const listener of [...listeners]) {
      try {
        listener(...news);
      } catch (error) {
        (globalThis.reportError ?? console.error)(error);
      }
    }
  }

  /** Some of this device's events have ended. */
  _onSettled(_outcomes) {}

  /** Nothing more will come. */
  _onFailed(_error) {}
}

function subscribed(listeners, listener) {
  if (typeof listener !== "function") throw new UsageError("a listener is a function: pass (change) => { ... }");
  // Wrapped, so that a function that was given twice is called twice.
  const own = (...news) => listener(...news);
  listeners.add(own);
  return () => listeners.delete(own);
}

function outcomeOf({ outcome, reason, version, sequencer }) {
  return Object.freeze({ status: outcome, reason, version, sequencer, applied: outcome === "applied" });
}

/** The urls as a list; throws a UsageError if there is none, or one that is none. */
export function checkedUrls(url) {
  const urls = typeof url === "string" ? [url] : [...(url ?? [])];
  if (urls.length === 0) throw new UsageError("give at least one url, for example ws://127.0.0.1:7080");
  for (const one of urls) {
    if (typeof one !== "string" || !/^wss?:\/\//.test(one)) {
      throw new UsageError(`"${one}" is not a WebSocket url: write ws:// or wss://, for example ws://127.0.0.1:7080`);
    }
  }
  return urls;
}

export function checkName(kind, name) {
  if (typeof name !== "string") throw new UsageError(`give the ${kind} a name, for example { ${kind}: "lobby" }`);
  const characters = charactersOf(name);
  if (characters < 1 || characters > NAME_MAX) {
    throw new UsageError(`the name of a ${kind} has 1 to ${NAME_MAX} characters, this one ${characters}`);
  }
  if (name.startsWith(SYSTEM)) {
    throw new UsageError(`names that start with "${SYSTEM}" are the chain's own: rename the ${kind} "${name}"`);
  }
  if (isTorn(name)) throw new UsageError(`the name of the ${kind} has half of a character: cut it between characters`);
}

export function checkToken(token) {
  if (typeof token !== "string" || charactersOf(token) > TOKEN_MAX || isTorn(token)) {
    throw new UsageError(`a token is text of at most ${TOKEN_MAX} characters`);
  }
}
