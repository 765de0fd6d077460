// How long a device waits: for any sign of life, for the answer to its bootstrap, and because it was asked to.
//
// Theory. A link that lives says something at least every `deadMs`, because a device that hears nothing for `pingMs`
// pings it. Silence after that ping is death. The answer to a bootstrap has its own, longer time. A wait that the link
// asked for (busy, redirect) suspends only the latter: the link must stay alive meanwhile.
//
// 1. Whoever is declared dead was pinged first: a pause of our own page kills no connection.
// 2. A ping goes out only into silence, once per silence.
// 3. `due` may be asked too early or too late, and `deadline` is never later than the next thing that is due.

export const PING = "ping";
export const RESUME = "resume";
export const DEAD = "the link is silent";
export const UNANSWERED = "the link does not answer the bootstrap";

/** The times of one connection, in milliseconds. */
export class Patience {
  #limits;
  #heardAt = 0;
  #pingedAt = null;
  #askedAt = null;
  #waitUntil = null;

  constructor(limits) {
    this.#limits = limits;
  }

  /** Whether the link asked for a pause that is not over. */
  get waiting() {
    return this.#waitUntil !== null;
  }

  onConnected(now) {
    this.#askedAt = this.#waitUntil = null;
    this.onHeard(now);
  }

  onHeard(now) {
    this.#heardAt = now;
    this.#pingedAt = null;
  }

  onAsked(now) {
    this.#askedAt = now;
    this.#waitUntil = null;
  }

  onAnswered() {
    this.#askedAt = this.#waitUntil = null;
  }

  /** A wait has a least and a most: neither a busy circle nor a device asleep for good. */
  onWait(now, retryMs) {
    this.#waitUntil = now + Math.max(1, Math.min(retryMs, this.#limits.retryMsMax));
  }

  /** What is due now. A ping that is due counts as sent, a wait that is over as ended. */
  due(now) {
    if (this.#pingedAt !== null && now >= this.#silentAt()) return [DEAD];
    if (!this.waiting && this.#askedAt !== null && now >= this.#askedAt + this.#limits.welcomeMs) return [UNANSWERED];
    const due = [];
    if (this.#waitUntil !== null && now >= this.#waitUntil) {
      this.#waitUntil = null;
      due.push(RESUME);
    }
    if (this.#pingedAt === null && now >= this.#heardAt + this.#limits.pingMs) {
      this.#pingedAt = now;
      due.push(PING);
    }
    return due;
  }

  deadline() {
    const due = this.#silentAt();
    if (this.#waitUntil !== null) return Math.min(due, this.#waitUntil);
    return this.#askedAt === null ? due : Math.min(due, this.#askedAt + this.#limits.welcomeMs);
  }

  /** When the ping is due or, if it is out, when the silence after it means death. */
  #silentAt() {
    if (this.#pingedAt === null) return this.#heardAt + this.#limits.pingMs;
    return this.#pingedAt + this.#limits.deadMs - this.#limits.pingMs;
  }
}
