// What is shown first, and what a filter lets through. Pure.

import { nameOf } from "./format.js";

/** Spaces that match, in the order that was chosen. `rateOf` tells how busy one is. */
export function shownSpaces(spaces, filter, order, rateOf) {
  const wanted = filter.trim().toLowerCase();
  const found = wanted ? spaces.filter((each) => each.space.toLowerCase().includes(wanted)) : [...spaces];
  const byName = (a, b) => (a.space < b.space ? -1 : a.space > b.space ? 1 : 0);
  const orders = {
    activity: (a, b) => busyness(rateOf(b)) - busyness(rateOf(a)) || b.present - a.present || b.version - a.version,
    space: () => 0,
    version: (a, b) => b.version - a.version,
    present: (a, b) => b.present - a.present,
  };
  return found.sort((a, b) => orders[order](a, b) || byName(a, b));
}

/** Coarse on purpose: rows that are about as busy as each other do not change places every second. */
export function busyness(perSecond) {
  return perSecond ? Math.round(Math.log2(perSecond + 1) * 2) : 0;
}

/** The links of a chain as they are shown: in order, then who learns, then who is down or waits for a place. */
export function cardsOf(chain, links) {
  const byId = new Map(links.map((link) => [link.id, link]));
  const byName = new Map(links.map((link) => [link.name, link]));
  const card = (id, role) => ({ key: nameOf(id), id, link: byId.get(id) ?? null, role });
  const cards = chain.links.map((id, at) => card(id, roleAt(at, chain)));
  if (chain.learner) cards.push(card(chain.learner, "learner"));
  const placed = new Set(cards.map(({ key }) => key));
  const isShort = chain.links.length < chain.replicas;
  for (const [name, link] of byName) {
    if (placed.has(name)) continue;
    const isSpare = link.places.some((place) => place.chain === chain.chain);
    if (isSpare || (isShort && link.state !== "up")) cards.push({ key: name, id: link.id, link, role: "outside" });
  }
  return cards;
}

function roleAt(at, chain) {
  if (chain.links.length === 1) return "head+tail";
  return at === 0 ? "head" : at === chain.links.length - 1 ? "tail" : "middle";
}

/** Whether a chain has as many whole links as it should. */
export function isWhole(chain) {
  return chain.whole.length >= chain.replicas && chain.whole.join() === chain.links.join();
}

/** Partitions of a topic that are not as they should be. */
export function troubledPartitions(topic) {
  return topic.partitions.filter((part) => !part.leader || part.in_sync.length < part.replicas.length);
}

/** How many records a topic holds, as far as anybody knows. */
export function recordsIn(topic) {
  const known = topic.partitions.filter((part) => part.high !== null && part.start !== null);
  return known.length ? known.reduce((sum, part) => sum + part.high - part.start, 0) : null;
}
