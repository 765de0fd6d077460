// Parts of JSON text as the text they are, and what text weighs.
//
// JSON.parse forgets how a value was written: 1.0 becomes 1, a large number another one. A resent event must have the
// text that it had before, so payloads are cut out of a message and not written anew. All functions that cut expect
// text that JSON.parse has accepted.

import { ProtocolError } from "./errors.js";

const QUOTE = 34;
const COMMA = 44;
const BACKSLASH = 92;
const OPEN_LIST = 91;
const CLOSE_LIST = 93;
const OPEN_OBJECT = 123;
const CLOSE_OBJECT = 125;

/** Deeper values are refused before anything walks through them. A state of the chain has at most 64 levels. */
export const DEPTH_MAX = 256;

/** The members of the object that `text` is: name → text of the value. The last one of a name counts. */
export function membersOf(text) {
  const members = new Map();
  let at = skipSpace(text, skipSpace(text, 0) + 1);
  while (text.charCodeAt(at) !== CLOSE_OBJECT) {
    const nameEnd = endOfString(text, at);
    const name = JSON.parse(text.slice(at, nameEnd));
    const start = skipSpace(text, skipSpace(text, nameEnd) + 1);
    const end = endOf(text, start);
    members.set(name, text.slice(start, end));
    at = skipComma(text, end);
  }
  return members;
}

/** The items of the array that `text` is, each as its text. */
export function itemsOf(text) {
  const items = [];
  let at = skipSpace(text, skipSpace(text, 0) + 1);
  while (text.charCodeAt(at) !== CLOSE_LIST) {
    const end = endOf(text, at);
    items.push(text.slice(at, end));
    at = skipComma(text, end);
  }
  return items;
}

/** Whether arrays and objects are nested deeper than `depthMax`. The text need not be JSON. */
export function nestsDeeper(text, depthMax) {
  let depth = 0;
  for (let at = 0; at < text.length; at += 1) {
    const code = text.charCodeAt(at);
    if (code === QUOTE) at = endOfString(text, at) - 1;
    else if (code === OPEN_LIST || code === OPEN_OBJECT) depth += 1;
    else if (code === CLOSE_LIST || code === CLOSE_OBJECT) depth -= 1;
    if (depth > depthMax) return true;
  }
  return false;
}

/** How many bytes `text` has on the wire. */
export function bytesOf(text) {
  let bytes = text.length;
  for (let at = 0; at < text.length; at += 1) {
    const code = text.charCodeAt(at);
    if (code < 0x80) continue;
    // A pair of surrogates is two units here and four bytes there: two for each of them.
    bytes += code < 0x800 || (code >= 0xd800 && code < 0xe000) ? 1 : 2;
  }
  return bytes;
}

/** How many characters `text` has, as the chain counts them: an emoji is one. */
export function charactersOf(text) {
  let characters = 0;
  for (const _ of text) characters += 1;
  return characters;
}

/** Whether `value` has half of a character (a lone surrogate) in some text of it: the chain cannot read that. */
export function isTorn(value) {
  // Written as JSON, such a half is the only thing that becomes an escape of this kind.
  const text = JSON.stringify(value);
  return text.includes("\\ud") && /(?:^|[^\\])(?:\\\\)*\\ud[89a-f]/.test(text);
}

function endOf(text, at) {
  const code = text.charCodeAt(at);
  if (code === QUOTE) return endOfString(text, at);
  return code === OPEN_LIST || code === OPEN_OBJECT ? endOfNest(text, at) : endOfWord(text, at);
}

function endOfNest(text, start) {
  let depth = 0;
  for (let at = start; ; at += 1) {
    const code = text.charCodeAt(at);
    if (code === QUOTE) {
      at = endOfString(text, at) - 1;
    } else if (code === OPEN_LIST || code === OPEN_OBJECT) {
      depth += 1;
      if (depth > DEPTH_MAX) throw new ProtocolError("too-deep", `a value nests deeper than ${DEPTH_MAX} levels`);
    } else if (code === CLOSE_LIST || code === CLOSE_OBJECT) {
      depth -= 1;
      if (depth === 0) return at + 1;
    }
  }
}

function endOfString(text, start) {
  for (let end = text.indexOf('"', start + 1); end >= 0; end = text.indexOf('"', end + 1)) {
    let slashes = 0;
    while (text.charCodeAt(end - 1 - slashes) === BACKSLASH) slashes += 1;
    if (slashes % 2 === 0) return end + 1;
  }
  return text.length;
}

function endOfWord(text, start) {
  let at = start;
  while (at < text.length && !isEnd(text.charCodeAt(at))) at += 1;
  return at;
}

function isEnd(code) {
  return code === COMMA || code === CLOSE_LIST || code === CLOSE_OBJECT || code <= 32;
}

function skipSpace(text, start) {
  let at = start;
  while (text.charCodeAt(at) <= 32) at += 1;
  return at;
}

function skipComma(text, start) {
  const at = skipSpace(text, start);
  return text.charCodeAt(at) === COMMA ? skipSpace(text, at + 1) : at;
}
