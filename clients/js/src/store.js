// What a device keeps between two lives: events, next number and state, saved together in one IndexedDB transaction.
//
// The state is stored as a base text and the patches since. A small change then writes a small row, not the whole
// state; once the patches outgrow the base, they are folded into a new one, which costs what was written since the last
// time.
//
// 1. What `load` answers is what one prefix of the committed steps makes: never a part of a step.
// 2. A commit is over when the steps are on the disk (`durability: "strict"`).
// 3. A database belongs to one device of one space, and to one life of it at a time. Each life writes its number when
//    it opens the store, and every transaction reads it: a tab that was taken over changes nothing any more.

import { OctoloomError, StoreError } from "./errors.js";
import { hold, takenOver } from "./lock.js";
import * as mergePatch from "./merge_patch.js";

const FORMAT = 1;
const STORES = ["owner", "place", "events", "queue", "base", "patches"];
/** The key of the only row of owner, place and base. */
const ONLY = 1;
/** Below this much text of patches a new base is not worth writing, however small the old one is. */
const PATCHES_MIN = 64 * 1024;

/** Keeps nothing: the device starts anew each time, and the chain tells it where it was. */
export class MemoryStore {
  load() {
    return Promise.resolve(null);
  }

  /** There is nothing to wait for. */
  commit() {
    return null;
  }

  close() {}
}

/** One IndexedDB database for one device of one space. */
export class DeviceStore {
  #name;
  #db = null;
  #release = () => {};
  #life = 0;
  #baseSize = 0;
  #patchesSize = 0;
  #lost = null;
  #onLost = () => {};

  constructor(name) {
    this.#name = name;
  }

  /** Called with an error if the store is taken away while it is open. */
  set onLost(listener) {
    this.#onLost = listener;
    if (this.#lost !== null) listener(this.#lost);
  }

  /** Opens the database for this life of the device, and answers what was saved last, or null. */
  async load(space, device, takeOver = false) {
    try {
      this.#release = await hold(this.#name, takeOver, (error) => this.#lose(error));
      this.#db = await openDatabase(this.#name);
      this.#db.onversionchange = () => this.#lose(this.#fault("it was deleted by another page"));
      this.#db.onclose = () => this.#lose(this.#fault("the browser closed it"));
      return await this.#claim(space, device);
    } catch (error) {
      this.close();
      throw error instanceof OctoloomError ? error : this.#fault(error);
    }
  }

  /** Makes all steps durable, or none of them. */
  commit(steps) {
    return this.#transact((rows, refuse) => {
      read(rows.owner.get(ONLY), (owner) => {
        if (owner?.life !== this.#life) refuse(takenOver(this.#name));
      });
      for (const step of steps) this.#write(rows, step);
      if (this.#patchesSize > Math.max(PATCHES_MIN, this.#baseSize)) this.#fold(rows);
    });
  }

  close() {
    this.#db?.close();
    this.#db = null;
    this.#release();
  }

  #lose(error) {
    this.#lost = error;
    this.close();
    this.#onLost(error);
  }

  async #claim(space, device) {
    let all = null;
    await this.#transact((rows, refuse) => {
      read(rows.owner.get(ONLY), (owner) => {
        const fault = owner && this.#ownerFault(owner, space, device);
        if (fault) return refuse(fault);
        this.#life = (owner?.life ?? 0) + 1;
        rows.owner.put({ format: FORMAT, space, device, life: this.#life }, ONLY);
      });
      all = readAll(rows);
    });
    return this.#saved(all);
  }

  #ownerFault(owner, space, device) {
    if (owner.format !== FORMAT) {
      return this.#fault(`it has format ${owner.format}, this version reads ${FORMAT}: update, or choose another name`);
    }
    if (owner.space === space && owner.device === device) return null;
    return new StoreError(
      `the store "${this.#name}" belongs to device "${owner.device}" of space "${owner.space}", not to "${device}" ` +
        `of "${space}": give each device of each space a store of its own`,
    );
  }

  #saved({ place, events, queue, base, patches }) {
    this.#baseSize = base?.length ?? 0;
    this.#patchesSize = sizeOf(patches.flat());
    if (place === undefined) return null;
    return { ...place, state: folded(base, patches), pending: events, queue };
  }

  // Writing.

  #transact(work) {
    return new Promise((resolve, reject) => {
      const transaction = this.#begin();
      let refusal = null;
      transaction.oncomplete = resolve;
      transaction.onabort = () => reject(refusal ?? this.#fault(transaction.error));
      const rows = Object.fromEntries(STORES.map((name) => [name, transaction.objectStore(name)]));
      const refuse = (error) => {
        refusal = error;
        transaction.abort();
      };
      try {
        work(rows, refuse);
      } catch (error) {
        // What was asked for before the fault must not be saved without the rest.
        refuse(this.#fault(error));
      }
    });
  }

  #begin() {
    if (this.#db === null) throw this.#lost ?? this.#fault("it is closed");
    try {
      return this.#db.transaction(STORES, "readwrite", { durability: "strict" });
    } catch (error) {
      throw this.#fault(error);
    }
  }

  #write(rows, step) {
    for (const sequencer of step.removed) rows.events.delete(sequencer);
    for (const { sequencer, name, payload } of step.numbered) rows.events.put({ sequencer, name, payload });
    for (const ticket of step.unqueued) rows.queue.delete(ticket);
    for (const { ticket, name, payload } of step.queued) rows.queue.put({ ticket, name, payload });
    if (step.state !== null) this.#replace(rows, step.state);
    if (step.patches.length > 0) {
      rows.patches.add(step.patches);
      this.#patchesSize += sizeOf(step.patches);
    }
    const { next, version, generation } = step;
    rows.place.put({ next, version, generation }, ONLY);
  }

  #replace(rows, text) {
    rows.base.put(text, ONLY);
    rows.patches.clear();
    this.#baseSize = text.length;
    this.#patchesSize = 0;
  }

  #fold(rows) {
    // Counted as folded at once: the rows are read before this transaction is over.
    this.#patchesSize = 0;
    read(rows.base.get(ONLY), (base) => {
      read(rows.patches.getAll(), (patches) => this.#replace(rows, JSON.stringify(folded(base, patches))));
    });
  }

  #fault(error) {
    const detail = typeof error === "string" ? error : `${error?.name}: ${error?.message}`;
    return new StoreError(`the store "${this.#name}" cannot be used (${detail}): ${ADVICE[error?.name] ?? ELSE}`);
  }
}

const ADVICE = {
  QuotaExceededError: "free some space on the disk, or delete other data of this site",
  VersionError: "it was made by a newer version, or is not a device's store: update, or choose another name",
  InvalidStateError: "the browser does not let this page keep data (a private window?): connect without `store`",
  SecurityError: "the browser does not let this page keep data: allow it, or connect without `store`",
};

const ELSE = "connect again; if that fails too, delete the site's data or choose another name";

function openDatabase(name) {
  return new Promise((resolve, reject) => {
    const request = indexedDB.open(name, FORMAT);
    request.onupgradeneeded = () => create(request.result);
    request.onerror = () => reject(request.error);
    request.onsuccess = () => {
      const db = request.result;
      if (STORES.every((store) => db.objectStoreNames.contains(store))) return resolve(db);
      db.close();
      reject(new StoreError(`"${name}" is a database, but not a device's store: choose another name`));
    };
  });
}

function create(db) {
  for (const name of ["owner", "place", "base"]) db.createObjectStore(name);
  db.createObjectStore("events", { keyPath: "sequencer" });
  db.createObjectStore("queue", { keyPath: "ticket" });
  db.createObjectStore("patches", { autoIncrement: true });
}

function read(request, then) {
  request.onsuccess = () => then(request.result);
}

/** All rows, once the transaction is over. */
function readAll(rows) {
  const all = {};
  for (const name of ["place", "base"]) read(rows[name].get(ONLY), (row) => (all[name] = row));
  for (const name of ["events", "queue", "patches"]) read(rows[name].getAll(), (found) => (all[name] = found));
  return all;
}

function folded(base, patches) {
  let state = base === undefined ? {} : JSON.parse(base);
  for (const text of patches.flat()) state = mergePatch.apply(state, JSON.parse(text));
  return state;
}

function sizeOf(texts) {
  return texts.reduce((size, text) => size + text.length, 0);
}
