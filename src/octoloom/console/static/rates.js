// How fast things grow: differences between pictures. Pure.

/** How many values a short history has: one for each picture. */
export const HISTORY_MAX = 40;

/** Growth per second, or null if it cannot be told. A counter that fell has begun anew. */
export function perSecond(before, after, ms) {
  if (before === null || before === undefined || after === null || after === undefined) return null;
  return ms <= 0 || after < before ? null : ((after - before) * 1000) / ms;
}

/** What grows in a picture: key → counter. A link that catches up does not count. */
export function countersOf(picture) {
  const counters = new Map();
  const whole = new Map(picture.chains.map((chain) => [chain.chain, chain.whole]));
  for (const link of picture.links) {
    for (const place of link.places) {
      const counts = place.whole && whole.get(place.chain)?.includes(link.id);
      if (counts) counters.set(linkKey(link.id, place.chain), place.versions);
    }
  }
  for (const space of picture.spaces) counters.set(spaceKey(space.chain, space.space), space.version);
  for (const topic of picture.topics) {
    for (const part of topic.partitions) {
      if (part.high !== null) counters.set(partitionKey(topic.name, part.partition), part.high);
    }
  }
  return counters;
}

export const linkKey = (id, chain) => `link ${id} ${chain}`;
export const spaceKey = (chain, space) => `space ${chain} ${space}`;
export const partitionKey = (topic, partition) => `partition ${topic} ${partition}`;

/** Remembers counters and their growth over the last pictures. */
export class Rates {
  #counters = new Map();
  #histories = new Map();
  #at = 0;

  /** Takes the next picture. What is not in it any more is forgotten. */
  push(picture) {
    const counters = countersOf(picture);
    const ms = this.#at ? picture.at_ms - this.#at : 0;
    const histories = new Map();
    for (const [key, counter] of counters) {
      const grown = perSecond(this.#counters.get(key), counter, ms);
      const history = this.#histories.get(key) ?? [];
      if (grown !== null) history.push(grown);
      if (history.length > HISTORY_MAX) history.shift();
      histories.set(key, history);
    }
    this.#counters = counters;
    this.#histories = histories;
    this.#at = picture.at_ms;
  }

  /** The last values, oldest first. */
  history(key) {
    return this.#histories.get(key) ?? [];
  }

  /** Per second, over the last few pictures; null if nobody knows yet. */
  now(key, pictures = 3) {
    const last = this.history(key).slice(-pictures);
    return last.length ? last.reduce((sum, each) => sum + each, 0) / last.length : null;
  }
}

/** The sum of what is known; null if nothing is. */
export function total(rates) {
  const known = rates.filter((each) => each !== null);
  return known.length ? known.reduce((sum, each) => sum + each, 0) : null;
}

/** The d of an SVG path for a history, newest at the right. Flat at the bottom if nothing moves. */
export function sparkPath(history, width, height, points = HISTORY_MAX) {
  if (history.length < 2) return "";
  const most = Math.max(...history, 1) * 1.2;
  const step = width / (points - 1);
  const first = points - history.length;
  return history
    .map((value, at) => {
      const x = ((first + at) * step).toFixed(1);
      const y = (height - 1 - (value / most) * (height - 2)).toFixed(1);
      return `${at ? "L" : "M"}${x} ${y}`;
    })
    .join("");
}
