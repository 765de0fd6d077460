// What a device works with: its bounds, its events, and what an event may be.

import { UsageError } from "./errors.js";
import { bytesOf, charactersOf, isTorn, nestsDeeper } from "./json_text.js";

export const EVENT_NAME_MAX = 64;
export const PAYLOAD_BYTES_MAX = 64 * 1024;
export const PAYLOAD_DEPTH_MAX = 32;
/** The largest whole number that every JSON reader keeps exactly. */
export const NUMBER_MAX = Number.MAX_SAFE_INTEGER;
/** The chain's own names start with this. */
export const SYSTEM = "@";
/** What an event costs in a message beyond its name and payload: number, brackets, commas. */
const EVENT_FRAME_BYTES = 32;

/** The bounds and times of a device. A bootstrap carries all pending events in one message of at most 1 MiB. */
export const LIMITS = Object.freeze({
  pendingMax: 256,
  pendingBytesMax: 960 * 1024,
  sendMax: 256,
  pingMs: 500,
  deadMs: 1_500,
  welcomeMs: 5_000,
  retryMsMax: 30_000,
  redirectsMax: 8,
});

/** An event that is not settled. `sequencer` is 0 while it has no number, `ticket` if an earlier life sent it. */
export function pendingEvent(sequencer, name, payload, ticket = 0) {
  const size = bytesOf(payload) + bytesOf(JSON.stringify(name)) + EVENT_FRAME_BYTES;
  return Object.freeze({ sequencer, name, payload, ticket, size });
}

/** Throws a UsageError unless this name and payload text could be an event of a device. */
export function checkEvent(name, payload) {
  if (typeof name !== "string") throw new UsageError(`an event's name is text, not ${typeof name}`);
  const characters = charactersOf(name);
  if (characters < 1 || characters > EVENT_NAME_MAX) {
    throw new UsageError(`an event's name has 1 to ${EVENT_NAME_MAX} characters, this one ${characters}: shorten it`);
  }
  if (name.startsWith(SYSTEM)) {
    throw new UsageError(`event names that start with "${SYSTEM}" are the chain's own: rename "${name}"`);
  }
  const bytes = bytesOf(payload);
  if (bytes > PAYLOAD_BYTES_MAX) {
    throw new UsageError(
      `the payload of "${name}" has ${bytes} bytes, ${PAYLOAD_BYTES_MAX} are allowed: ` +
        "split it, or send a reference to it",
    );
  }
  if (nestsDeeper(payload, PAYLOAD_DEPTH_MAX)) {
    throw new UsageError(`the payload of "${name}" is nested deeper than ${PAYLOAD_DEPTH_MAX}: flatten it`);
  }
  if (isTorn([name, parsed(name, payload)])) {
    throw new UsageError(`"${name}" or its payload has half of a character: cut text between characters, not inside`);
  }
}

function parsed(name, payload) {
  try {
    return JSON.parse(payload);
  } catch (error) {
    throw new UsageError(`the payload of "${name}" is not JSON (${error.message}): encode it first`);
  }
}
