// One tab at a time: two that keep the same device would give the same numbers to different events.
//
// The browser's lock tells a second tab at once that it is one too many. It is a courtesy: what keeps a store whole is
// that every transaction looks whose it is (store.js). Pages that were not loaded over https or from localhost have no
// such locks; there the newest tab wins.

import { UsageError } from "./errors.js";

/** A page that is just being reloaded may hold its lock for a moment longer. */
const WAIT_MS = 500;

/** Takes the lock of `store` and answers what lets it go. `onLost` is called if another tab takes it over. */
export function hold(store, takeOver, onLost) {
  if (!globalThis.navigator?.locks) return Promise.resolve(() => {});
  const options = takeOver ? { steal: true } : { signal: AbortSignal.timeout(WAIT_MS) };
  return new Promise((resolve, reject) => {
    let held = false;
    const keep = () => {
      held = true;
      return new Promise((release) => resolve(release));
    };
    navigator.locks.request(`octoloom:${store}`, options, keep).catch((error) => {
      if (held) onLost(takenOver(store));
      else reject(error.name === "SecurityError" ? error : inUse(store));
    });
  });
}

export function takenOver(store) {
  return new UsageError(
    `another tab took over the store "${store}": go on there, or call Device.connect(...) with takeOver: true here`,
  );
}

function inUse(store) {
  return new UsageError(
    `the store "${store}" is in use by another tab: close that one, give this one a store and a device name of its ` +
      "own, or pass takeOver: true",
  );
}
