// One call to a link: a WebSocket, from dialling to its end.
//
// It tells its listener `onOpened` at most once, then every `onText`, and `onClosed` exactly once, unless it was
// abandoned. A browser may take long to close a WebSocket to a link that is gone; nobody here waits for that.

const CONNECT_MS_MAX = 3_000;
const CLOSE_MS_MAX = 500;

export class Socket {
  #ws;
  #listener;
  #timer;

  constructor(url, listener) {
    this.#listener = listener;
    this.#ws = new WebSocket(url);
    this.#timer = setTimeout(() => this.hangUp(), CONNECT_MS_MAX);
    this.#ws.onopen = () => {
      clearTimeout(this.#timer);
      listener.onOpened(this);
    };
    this.#ws.onmessage = (event) => listener.onText(this, event.data);
    this.#ws.onclose = () => this.hangUp();
  }

  say(text) {
    this.#ws.send(text);
  }

  /** Ends it now, and says so. */
  hangUp() {
    if (this.#listener === null) return;
    const listener = this.#listener;
    this.abandon();
    listener.onClosed(this);
  }

  /** Ends it now, and tells nobody. */
  abandon() {
    this.#listener = null;
    clearTimeout(this.#timer);
    this.#ws.onopen = this.#ws.onmessage = this.#ws.onclose = null;
    this.#ws.close();
  }

  /** Lets what was said leave, and waits a little for the other side's goodbye. Tells nobody. */
  bidFarewell() {
    this.abandon();
    return new Promise((resolve) => {
      if (this.#ws.readyState === WebSocket.CLOSED) return resolve();
      this.#ws.onclose = () => resolve();
      setTimeout(resolve, CLOSE_MS_MAX);
    });
  }
}
