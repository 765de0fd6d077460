/** A JSON value. What the client hands out is read-only: copy what you want to change. */
export type Json = null | boolean | number | string | Json[] | { [key: string]: Json };

/** What became of an event that this device sent. */
export interface Outcome {
  /**
   * - `applied`: it is in the state, once.
   * - `rejected`: the app refused it; `reason` says why.
   * - `superseded`: the device went back to an older store and used this number twice; this event had no effect.
   * - `quarantined`: it ended the process that computed it; it had no effect.
   * - `forgotten`: it was settled, or possibly sent, too long ago to say how; it will not happen again.
   */
  readonly status: "applied" | "rejected" | "superseded" | "quarantined" | "forgotten";
  readonly reason: string;
  /** The version of the state in which it was settled. */
  readonly version: number;
  /** Its number, or 0 if it never had one. */
  readonly sequencer: number;
  /** Whether `status` is `applied`. */
  readonly applied: boolean;
}

/** The state moved to `version`. */
export interface Change {
  readonly version: number;
  /** This device's own events that ended on the way. */
  readonly settled: readonly Outcome[];
  /** The chain lost its history and began a new one: everything may be different. */
  readonly reset: boolean;
}

/** An event that is not settled. */
export interface PendingEvent {
  /** Its number, or 0 while it has none. */
  readonly sequencer: number;
  readonly name: string;
  readonly payload: Json;
}

/** An event as `preview` gets it. */
export interface PreviewEvent extends PendingEvent {
  readonly device: string;
}

/** The changes of a space, for `for await`. It ends when the connection is closed, and throws if that failed. */
export interface Changes extends AsyncIterableIterator<Change> {
  return(): Promise<IteratorResult<Change>>;
}

export interface ObserverOptions {
  /** The space's name: 1 to 128 characters, not starting with `@`. */
  space: string;
  /** How long `connect` waits for a link, in milliseconds (1,000); then it goes on offline. */
  waitMs?: number;
}

export interface DeviceOptions<State = any> extends ObserverOptions {
  /** The device's name: 1 to 128 characters, not starting with `@`. Two clients must not share one in a space. */
  device: string;
  /** The name of an IndexedDB database that keeps the device between two visits. Without it nothing outlives the page. */
  store?: string | null;
  /** What the chain asks for, if it was started with a secret. */
  token?: string;
  /** Take the store from another tab that has it open. That one ends with a UsageError. */
  takeOver?: boolean;
  /**
   * Computes `view`: the state as it will be if the pending events are applied. It gets copies, which it may change; it
   * may also return another state.
   */
  preview?: ((state: State, events: PreviewEvent[]) => State | void) | null;
}

/** What devices and observers have in common. */
export interface Follower<State = any> {
  readonly space: string;
  /** The shared state as of `version`. Read-only: it changes when the chain says so. */
  readonly state: State;
  readonly version: number;
  /** Which history of the chain this is. It changes only if the chain lost everything. */
  readonly generation: number;
  /** Whether a link of the chain serves this connection right now. */
  readonly connected: boolean;
  /** What ended this connection for good, or null. A lost link is no error. */
  readonly error: OctoloomError | null;
  /** Whether it is at its end, by `close()` or an error. */
  readonly closed: boolean;
  /** Waits until a link serves this connection; rejects if none ever will. */
  online(): Promise<void>;
  /** The changes from now on. A slow reader gets the newest, with the outcomes of those between. */
  changes(): Changes;
  /** Calls `listener` with each change, and answers what ends that. */
  onChange(listener: (change: Change) => void): () => void;
  /**
   * Calls `listener` whenever something that can be shown has changed: the state, `view`, `pending`, `connected` or
   * `error`. Once for all that happens together. Answers what ends that.
   */
  onUpdate(listener: () => void): () => void;
  /** Saves what was done, says what was to be said, and leaves. Events that are not settled go out in the next life. */
  close(): Promise<void>;
}

/** Acts in a space and follows its state. It works offline: what is sent then goes out once a link is there. */
export class Device<State = any> implements Follower<State> {
  private constructor();
  /** Opens the store and calls a link. `url` is one url or several, of any links of the chain. */
  static connect<State = any>(url: string | readonly string[], options: DeviceOptions<State>): Promise<Device<State>>;

  readonly space: string;
  readonly device: string;
  readonly state: State;
  readonly version: number;
  readonly generation: number;
  readonly connected: boolean;
  readonly error: OctoloomError | null;
  readonly closed: boolean;
  /** What this device did and the chain has not settled, in order. Read-only. */
  readonly pending: readonly PendingEvent[];
  /** The state as it will be if the pending events are applied. Without `preview`, the state. Read-only. */
  readonly view: State;

  /**
   * Does something: it is numbered, saved and said, and said again until the chain has settled it. Await the answer for
   * the outcome; you need not. Throws UsageError at once for what can never be an event, and Full while too much is not
   * settled. The promise rejects only if the device is refused for good, or closed before the event is settled.
   */
  send(name: string, payload?: unknown): Promise<Outcome>;
  /** Waits until nothing is pending. */
  settled(): Promise<void>;

  online(): Promise<void>;
  changes(): Changes;
  onChange(listener: (change: Change) => void): () => void;
  onUpdate(listener: () => void): () => void;
  close(): Promise<void>;
}

/** Follows a space's state without a name, and cannot change it. Any link of the chain serves it. */
export class Observer<State = any> implements Follower<State> {
  private constructor();
  static connect<State = any>(url: string | readonly string[], options: ObserverOptions): Promise<Observer<State>>;

  readonly space: string;
  readonly state: State;
  readonly version: number;
  readonly generation: number;
  readonly connected: boolean;
  readonly error: OctoloomError | null;
  readonly closed: boolean;

  online(): Promise<void>;
  changes(): Changes;
  onChange(listener: (change: Change) => void): () => void;
  onUpdate(listener: () => void): () => void;
  close(): Promise<void>;
}

/** The root of all errors that the client throws on purpose. */
export class OctoloomError extends Error {}

/** The caller asked for something that cannot be done; the text says what to do instead. */
export class UsageError extends OctoloomError {}

/** Too much is not settled yet: nothing was taken. */
export class Full extends UsageError {}

/** The chain refuses this device for good: connecting again would not help. */
export class Refused extends UsageError {
  /** `fenced`: the same device is connected elsewhere. `forbidden`: the token is not for this name. */
  readonly code: string;
}

/** A store cannot be read or written, or belongs to something else. Nothing that was not saved was sent. */
export class StoreError extends OctoloomError {}
