// What a device and a link say to each other: JSON text over a WebSocket, one object per message.
//
// `decode` opens all of a message and checks each field before anyone acts on it. Payloads stay the text they were.
// States and patches come as {text, value}: the text is what is saved, the value is what is shown.

import { ProtocolError } from "./errors.js";
import { bytesOf, itemsOf, membersOf } from "./json_text.js";

export const EVENTS_MAX = 256;
export const TO_DEVICE_BYTES_MAX = 64 * 1024 * 1024;

// To the device: name of the field → how it is read, and what it is if it is missing (nothing: it may not be missing).
const READERS = {
  welcome: {
    generation: [whole],
    epoch: [whole],
    version: [whole],
    next: [whole, () => 0],
    kills: [listOf(kill), () => []],
    events: [listOf(event), () => []],
    state: [textAndValue, () => null],
    patches: [listOf(textAndValue), () => []],
    links: [listOf(words), () => []],
  },
  change: {
    since: [whole],
    version: [whole],
    state: [textAndValue, () => null],
    patches: [listOf(textAndValue), () => []],
    kills: [listOf(kill), () => []],
  },
  gap: { expected: [whole] },
  busy: { expected: [whole], retry_ms: [whole], detail: [words] },
  redirect: { url: [words], retry_ms: [whole, () => 0] },
  error: { code: [words], detail: [words], sequencer: [whole, () => 0] },
  pong: {},
};

/** What a link said; throws ProtocolError if it is not a message of this protocol. */
export function decode(text) {
  if (typeof text !== "string") throw new ProtocolError("malformed", "a message is text");
  // A unit of text is at most three bytes: what is short enough need not be counted.
  if (text.length > TO_DEVICE_BYTES_MAX / 3 && bytesOf(text) > TO_DEVICE_BYTES_MAX) {
    throw new ProtocolError("message-too-large", `a message has at most ${TO_DEVICE_BYTES_MAX} bytes`);
  }
  const values = parse(text);
  if (typeof values !== "object" || values === null || Array.isArray(values)) {
    throw new ProtocolError("bad-field", "a message is an object");
  }
  const type = Object.hasOwn(values, "type") ? values.type : undefined;
  if (typeof type !== "string" || !Object.hasOwn(READERS, type)) {
    throw new ProtocolError("unknown-message", `no message has the type ${JSON.stringify(type)}`);
  }
  return read(type, values, text);
}

function parse(text) {
  try {
    return JSON.parse(text);
  } catch (error) {
    throw new ProtocolError("malformed", `this is not JSON: ${error.message}`);
  }
}

function read(type, values, text) {
  const message = { type };
  const texts = membersOf(text);
  for (const [field, [reader, missing]] of Object.entries(READERS[type])) {
    if (texts.has(field)) message[field] = reader(values[field], texts.get(field), field);
    else if (missing !== undefined) message[field] = missing();
    else throw new ProtocolError("bad-field", `\`${field}\` is missing`);
  }
  return message;
}

function whole(value, _, field) {
  if (!Number.isSafeInteger(value) || value < 0) {
    throw new ProtocolError("bad-field", `\`${field}\` is no whole number from 0 to 2^53 - 1`);
  }
  return value;
}

function words(value, _, field) {
  if (typeof value !== "string") throw new ProtocolError("bad-field", `\`${field}\` is no text`);
  return value;
}

function textAndValue(value, text) {
  return { text, value };
}

function listOf(reader) {
  return (value, text, field) => {
    if (!Array.isArray(value)) throw new ProtocolError("bad-field", `\`${field}\` is no array`);
    const texts = itemsOf(text);
    return value.map((item, at) => reader(item, texts[at], field));
  };
}

function kill(value, _, field) {
  const [sequencer, outcome, reason] = three(value, field);
  return [whole(sequencer, "", field), words(outcome, "", field), words(reason, "", field)];
}

function event(value, text, field) {
  const [sequencer, name] = three(value, field);
  return [whole(sequencer, "", field), words(name, "", field), itemsOf(text)[2]];
}

function three(value, field) {
  if (!Array.isArray(value) || value.length !== 3) {
    throw new ProtocolError("bad-field", `each of \`${field}\` is an array of three`);
  }
  return value;
}

// From the device. Events are [sequencer, name, payload text].

/** The text of a message to a link. */
export function encode(message) {
  const { events, ...rest } = message;
  const text = JSON.stringify(rest);
  if (events === undefined) return text;
  const notes = events.map(([sequencer, name, payload]) => `[${sequencer},${JSON.stringify(name)},${payload}]`);
  return `${text.slice(0, -1)},"events":[${notes.join(",")}]}`;
}

/** The same messages, with events that follow each other in one. A resend starts a message of its own. */
export function joined(messages) {
  const out = [];
  let run = null;
  for (const message of messages) {
    if (message.type !== "events") {
      out.push(message);
      run = null;
    } else if (run !== null && follows(run, message.events)) {
      run.push(...message.events);
    } else {
      run = [...message.events];
      out.push({ type: "events", events: run });
    }
  }
  return out;
}

function follows(run, events) {
  return run.at(-1)[0] < events[0][0] && run.length + events.length <= EVENTS_MAX;
}
