// JSON merge patches (RFC 7396): how one state becomes the next.
//
// A patch is a value too: an object merges member by member, null deletes a member, anything else replaces what is
// there, arrays as a whole. `apply` costs the size of the patch, never of the target, and the target shares no object
// with the patch.
//
// Every name is data, `__proto__` too: members are read only where they are the object's own, and set so that nothing
// but a member comes of it.

/** The patched value. An object is changed in place and returned. */
export function apply(target, patch) {
  if (!isObject(patch)) return copied(patch);
  const merged = isObject(target) ? target : {};
  for (const key of Object.keys(patch)) {
    const value = patch[key];
    if (value === null) delete merged[key];
    else if (!isObject(value)) put(merged, key, copied(value));
    else if (Object.hasOwn(merged, key) && isObject(merged[key])) apply(merged[key], value);
    else put(merged, key, apply({}, value));
  }
  return merged;
}

/** A deep copy. */
export function copied(value) {
  if (Array.isArray(value)) return value.map(copied);
  if (!isObject(value)) return value;
  const copy = {};
  for (const key of Object.keys(value)) put(copy, key, copied(value[key]));
  return copy;
}

function isObject(value) {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function put(object, key, value) {
  if (key === "__proto__") {
    Object.defineProperty(object, key, { value, writable: true, enumerable: true, configurable: true });
  } else {
    object[key] = value;
  }
}
