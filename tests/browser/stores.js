// Plays with stores, for test_store.py. Each function gets the modules of the client (`load`).

export async function load(base) {
  const { Core } = await import(`${base}core.js`);
  const { decode } = await import(`${base}messages.js`);
  const { DeviceStore } = await import(`${base}store.js`);
  return { Core, decode, DeviceStore };
}

/** Plays histories with a store, opens it again after each batch, and answers the first difference to the memory. */
export async function replay({ Core, decode, DeviceStore }, histories) {
  let batches = 0;
  for (const { seed, device, limits, steps } of histories) {
    const name = `replay-${seed}`;
    let store = new DeviceStore(name);
    let core = new Core("lobby", device, "", await store.load("lobby", device), limits);
    let unsaved = [];
    for (const [at, step] of steps.entries()) {
      unsaved.push(...persistsOf(core, decode, step));
      if (unsaved.length <= at % 3 || unsaved.length === 0) continue;
      await store.commit(unsaved);
      unsaved = [];
      batches += 1;
      if (at % 4 > 0) continue;
      store.close();
      store = new DeviceStore(name);
      const found = shown(await store.load("lobby", device));
      const held = shown(core.snapshot());
      if (found !== held) return { seed, at, found, held };
      if (at % 8 === 0) core = new Core("lobby", device, "", JSON.parse(found), limits);
    }
    store.close();
  }
  return { batches };
}

function persistsOf(core, decode, [kind, ...rest]) {
  try {
    const effects = {
      act: () => core.act(...rest).effects,
      connected: () => core.onConnected(...rest),
      disconnected: () => core.onDisconnected(...rest),
      time: () => core.onTime(...rest),
      text: () => core.onMessage(rest[0], decode(rest[1])),
      restore: () => [],
    }[kind]();
    return effects.filter((effect) => effect.kind === "persist");
  } catch (error) {
    if (error.name === "TypeError") throw error;
    return [];
  }
}

/** A snapshot as text, members in order. */
export function shown(saved) {
  if (saved === null) return "null";
  const row = ({ sequencer = 0, name, payload, ticket = 0 }) => ({ sequencer, name, payload, ticket });
  const { next, version, generation, state, pending, queue } = saved;
  return JSON.stringify(sorted({ next, version, generation, state, pending: pending.map(row), queue: queue.map(row) }));
}

function sorted(value) {
  if (Array.isArray(value)) return value.map(sorted);
  if (typeof value !== "object" || value === null) return value;
  const pairs = Object.keys(value).sort().map((key) => [key, sorted(value[key])]);
  return Object.fromEntries(pairs);
}

/** Step number `n` of a device that has one event at a time. */
export function step(n, more = {}) {
  return {
    kind: "persist", next: n + 1, version: n, generation: 1, removed: n > 1 ? [n - 1] : [],
    numbered: [{ sequencer: n, name: "add", payload: String(n), ticket: 0 }], unqueued: [], queued: [], state: null,
    patches: [JSON.stringify({ n, ["at" + (n % 5)]: n })], ...more,
  };
}
