// A device: what a page holds to act in a space and to see it.

import { UsageError } from "./errors.js";
import { Follower, checkName, checkToken, checkedUrls } from "./follower.js";
import { copied } from "./merge_patch.js";
import { DeviceStore, MemoryStore } from "./store.js";

export class Device extends Follower {
  #preview;
  #sendings = new Map();
  #view = { revision: -1, state: null };
  #pending = { revision: -1, events: [] };

  constructor(preview = null) {
    super();
    this.#preview = preview;
  }

  static async connect(url, options = {}) {
    const urls = checkedUrls(url);
    const { space, device, store = null, token = "", preview = null } = options;
    checkName("space", space);
    checkName("device", device);
    checkToken(token);
    if (preview !== null && typeof preview !== "function") {
      throw new UsageError("preview is a function: pass (state, events) => { ... }");
    }
    if (store !== null && (typeof store !== "string" || store === "")) {
      throw new UsageError('store is the name of a database, for example { store: "ada" }: leave it out for none');
    }
    return new Device(preview)._open(urls, store === null ? new MemoryStore() : new DeviceStore(store), options);
  }

  send(name, payload = null) {
    const ticket = this._driver.act(name, encoded(name, payload));
    const sending = new Promise((resolve, reject) => this.#sendings.set(ticket, { resolve, reject }));
    // Nobody has to await an event: an error that is not looked at is no news.
    sending.catch(() => {});
    return sending;
  }

  get pending() {
    const { revision, core } = this._driver;
    if (this.#pending.revision !== revision) this.#pending = { revision, events: Object.freeze(eventsOf(core)) };
    return this.#pending.events;
  }

  get view() {
    if (this.#preview === null) return this.state;
    const { revision, core } = this._driver;
    if (this.#view.revision !== revision) {
      // The function may change what it is given, and neither the state nor `pending` is its to change.
      const copy = copied(core.state);
      const events = eventsOf(core).map((event) => ({ device: this.device, ...event }));
      this.#view = { revision, state: this.#preview(copy, events) ?? copy };
    }
    return this.#view.state;
  }

  async settled() {
    while (this._driver.core.unsettled().length > 0 || !this._driver.saved) await this._told();
  }

  _onSettled(outcomes) {
    for (const [ticket, outcome] of outcomes) {
      this.#sendings.get(ticket)?.resolve(outcome);
      this.#sendings.delete(ticket);
    }
  }

  _onFailed(error) {
    const sendings = [...this.#sendings.values()];
    this.#sendings.clear();
    for (const { reject } of sendings) reject(error);
  }
}

function eventsOf(core) {
  return core.unsettled().map(({ sequencer, name, payload }) =>
    Object.freeze({ sequencer, name, payload: JSON.parse(payload) }),
  );
}

function encoded(name, payload) {
  let text;
  let detail = `it is a ${typeof payload}`;
  try {
    text = JSON.stringify(payload);
  } catch (error) {
    detail = error.message;
  }
  if (text !== undefined) return text;
  throw new UsageError(
    `the payload of "${name}" cannot be written as JSON (${detail}): use objects, arrays, text, numbers or null`,
  );
}
