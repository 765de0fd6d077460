// Runs histories through a core of the browser client, for the comparison with its Python twin.

/** For each history a list with what each step did. `base` is the folder of the client. */
export async function run(base, histories) {
  const { Core } = await import(`${base}core.js`);
  const messages = await import(`${base}messages.js`);
  return histories.map((history) => new Player(Core, messages, history).play());
}

class Player {
  constructor(Core, messages, history) {
    Object.assign(this, { Core, messages, history });
    this.core = this.born(history.saved);
  }

  born(saved) {
    const { space, device, token, limits } = this.history;
    return new this.Core(space, device, token, saved, limits);
  }

  play() {
    return this.history.steps.map((step) => this.told(step));
  }

  told(step) {
    let said;
    try {
      said = { effects: this.obey(step).map((effect) => this.formOf(effect)) };
    } catch (error) {
      said = { error: error.name === "ProtocolError" && step[0] === "text" ? "ProtocolError" : error.name };
    }
    // A copy: the core goes on to change its state in place.
    const { pending, queue, ...place } = structuredClone(this.core.snapshot());
    const snapshot = { ...place, pending: pending.map(row), queue: queue.map(row) };
    return { ...said, snapshot, deadline: this.core.deadline(), phase: this.core.phase, links: this.core.links };
  }

  obey([kind, ...rest]) {
    const { core } = this;
    if (kind === "act") return core.act(...rest).effects;
    if (kind === "connected") return core.onConnected(...rest);
    if (kind === "disconnected") return core.onDisconnected(...rest);
    if (kind === "time") return core.onTime(...rest);
    if (kind === "text") return core.onMessage(rest[0], this.messages.decode(rest[1]));
    this.core = this.born(JSON.parse(JSON.stringify(core.snapshot())));
    return [];
  }

  formOf(effect) {
    if (effect.kind === "send") return { kind: "send", text: this.messages.encode(effect.message) };
    if (effect.kind !== "persist") return effect;
    return { ...effect, numbered: effect.numbered.map(row), queued: effect.queued.map(row) };
  }
}

function row({ sequencer, name, payload, ticket, size }) {
  return [sequencer, name, payload, ticket, size];
}
