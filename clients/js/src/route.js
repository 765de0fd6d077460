// Which link a device calls next, and after what pause.
//
// The links that the chain named last come first, then the urls that the user gave; after a loss the turn goes to the
// one behind the lost one. A redirect jumps the queue, once. Pauses grow from 20 to 500 ms and are jittered, so that a
// thousand devices that lost the same link do not come back in the same instant.

const PAUSE_MS_MIN = 20;
const PAUSE_MS_MAX = 500;
const LINKS_MAX = 16;

export class Route {
  #given;
  #known;
  #current = "";
  #redirect = "";
  #pauseMs = PAUSE_MS_MIN;
  #random;

  constructor(urls, random = Math.random) {
    this.#given = [...new Set(urls)];
    this.#known = this.#given;
    this.#random = random;
  }

  /** The url to call now. */
  next() {
    // Behind the current one; the first one if that is unknown (-1 + 1).
    const at = this.#known.indexOf(this.#current) + 1;
    this.#current = this.#redirect || this.#known[at % this.#known.length];
    this.#redirect = "";
    return this.#current;
  }

  redirect(url) {
    this.#redirect = url;
  }

  /** The current link works and names its fellows. */
  welcomed(links) {
    this.#pauseMs = PAUSE_MS_MIN;
    if (links.length > 0) this.#known = [...new Set([...links.slice(0, LINKS_MAX), ...this.#given])];
  }

  /** How long to wait before the next call; nothing before one that was redirected. */
  pauseMs() {
    if (this.#redirect) return 0;
    const pauseMs = (0.5 + this.#random() / 2) * this.#pauseMs;
    this.#pauseMs = Math.min(PAUSE_MS_MAX, 2 * this.#pauseMs);
    return pauseMs;
  }
}
