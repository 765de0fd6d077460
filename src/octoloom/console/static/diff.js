// How one state became another: which members changed, came and went, and the same as a patch for people. Pure.

/** null if they are the same; otherwise {whole: true}, or what became of the members of an object or array. */
export function difference(before, after) {
  if (before === after) return null;
  if (!isNest(before) || !isNest(after) || Array.isArray(before) !== Array.isArray(after)) {
    return Object.is(before, after) ? null : { whole: true };
  }
  const changed = new Map();
  const added = [];
  const removed = [];
  for (const key of Object.keys(before)) {
    if (!Object.hasOwn(after, key)) removed.push(key);
    else {
      const inner = difference(before[key], after[key]);
      if (inner) changed.set(key, inner);
    }
  }
  for (const key of Object.keys(after)) if (!Object.hasOwn(before, key)) added.push(key);
  return changed.size || added.length || removed.length ? { whole: false, changed, added, removed } : null;
}

/** `before` made equal to `after`; it costs the size of the difference, and they share nothing. */
export function brought(before, after, diff) {
  if (!diff) return before;
  if (diff.whole) return structuredClone(after);
  for (const [key, inner] of diff.changed) put(before, key, brought(before[key], after[key], inner));
  for (const key of diff.added) put(before, key, structuredClone(after[key]));
  for (const key of diff.removed) delete before[key];
  if (Array.isArray(before)) before.length = after.length;
  return before;
}

/** The difference as a merge patch: what is new, and null for what went. Arrays as a whole. */
export function patchOf(after, diff) {
  if (diff.whole || Array.isArray(after)) return after;
  const patch = {};
  for (const [key, inner] of diff.changed) put(patch, key, patchOf(after[key], inner));
  for (const key of diff.added) put(patch, key, after[key]);
  for (const key of diff.removed) put(patch, key, null);
  return patch;
}

/** Every name is data, `__proto__` too. */
function put(target, key, value) {
  Object.defineProperty(target, key, { value, writable: true, enumerable: true, configurable: true });
}

export function isNest(value) {
  return typeof value === "object" && value !== null;
}
