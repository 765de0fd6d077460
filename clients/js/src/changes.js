// The changes of a space, for `for await`. A slow reader gets the newest, with the outcomes of those between.

/** How many outcomes a change that nobody reads gathers; older ones go first. */
const SETTLED_MAX = 256;

export class Changes {
  #unread = null;
  #ended = false;
  #error = null;
  #readers = [];
  #onDone;

  constructor(onDone) {
    this.#onDone = onDone;
  }

  offer(change) {
    const old = this.#unread;
    if (old === null) {
      this.#unread = change;
    } else {
      const settled = Object.freeze([...old.settled, ...change.settled].slice(-SETTLED_MAX));
      this.#unread = Object.freeze({ version: change.version, settled, reset: old.reset || change.reset });
    }
    this.#wake();
  }

  /** Nothing more will come. With an error, the reader is told it after the last change. */
  end(error = null) {
    this.#ended = true;
    this.#error = error;
    this.#wake();
  }

  async next() {
    while (this.#unread === null && !this.#ended) await new Promise((resolve) => this.#readers.push(resolve));
    const value = this.#unread;
    this.#unread = null;
    if (value !== null) return { value, done: false };
    const error = this.#error;
    this.#error = null;
    if (error !== null) throw error;
    return { value: undefined, done: true };
  }

  async return() {
    this.#unread = null;
    this.end();
    this.#onDone(this);
    return { value: undefined, done: true };
  }

  [Symbol.asyncIterator]() {
    return this;
  }

  #wake() {
    for (const resolve of this.#readers.splice(0)) resolve();
  }
}
