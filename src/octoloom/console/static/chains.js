// Chains as rows of links, head first. Many chains are folded to a line each.

import { el, emptyState, keyed, setAttr, setText, setWords, show } from "./dom.js";
import { count, nameOf, plural, rate } from "./format.js";
import { cardsOf, isWhole } from "./lists.js";
import { linkKey } from "./rates.js";
import { Sparkline } from "./sparkline.js";

const OPEN_MAX = 3;
const SHOWN_MAX = 12;
const STATES = { up: "up", silent: "silent", down: "down", gone: "gone" };

/** All chains; those that are not whole come first if there are many. */
export class Chains {
  constructor() {
    this.list = el("div", { class: "chains" });
    this.empty = emptyState("");
    this.all = el("button", { type: "button", onclick: () => this.#showAll() });
    this.most = SHOWN_MAX;
    this.node = el("div", {}, this.empty, this.list, this.all);
  }

  #showAll() {
    this.most = Infinity;
    this.update(this.model);
  }

  update(model) {
    this.model = model;
    const { picture, rates } = model;
    const { chains, links, register } = picture;
    show(this.empty, chains.length === 0);
    const command = `octoloom link --name one --register ${register.address} --app game.py:app`;
    const isKnown = register.told_ms > 0;
    const unknown = "The register does not answer: nobody knows the chains.";
    setWords(this.empty, isKnown ? `No link has come to the register yet: \`${command}\`` : unknown);
    const isMany = chains.length > OPEN_MAX;
    const shown = isMany ? [...chains].sort((a, b) => isWhole(a) - isWhole(b)) : chains;
    this.list.classList.toggle("many", isMany);
    show(this.all, shown.length > this.most);
    setText(this.all, `Show all ${count(shown.length)} chains`);
    const items = shown.slice(0, this.most).map((chain) => ({ chain, links, rates, isMany }));
    keyed(this.list, items, (item) => item.chain.chain, (item) => new ChainRow(item));
  }
}

class ChainRow {
  constructor({ isMany }) {
    this.name = el("span", { class: "chain-name" });
    this.mark = el("span", { class: "pill" });
    this.order = el("span", { class: "chain-order" });
    this.facts = el("span", { class: "facts" });
    this.cards = el("ol", { class: "links" });
    const summary = el("summary", { class: "chain-head" }, this.name, this.mark, this.order, this.facts);
    this.node = el("details", { class: "chain", ontoggle: () => this.last && this.#drawCards() }, summary, this.cards);
    this.node.open = !isMany;
  }

  update(item) {
    this.last = item;
    const { chain, links, rates, isMany } = item;
    const whole = isWhole(chain);
    setText(this.name, chain.chain);
    setAttr(this.mark, "data-mood", whole ? "good" : "warn");
    setText(this.mark, whole ? "whole" : `${chain.whole.length} of ${chain.replicas} links`);
    show(this.order, isMany);
    setText(this.order, chain.links.map(nameOf).join(" → ") || "no links");
    const head = links.find((link) => link.id === chain.links[0]);
    const place = head?.places.find((each) => each.chain === chain.chain);
    const speed = head ? rates.now(linkKey(head.id, chain.chain)) : null;
    const facts = [`epoch ${chain.epoch}`, `generation ${chain.generation}`];
    if (place) facts.push(plural(place.spaces, "space"), `${rate(speed)} changes/s`);
    setText(this.facts, facts.join("  ·  "));
    if (this.node.open) this.#drawCards();
  }

  #drawCards() {
    const { chain, links, rates } = this.last;
    const cards = cardsOf(chain, links).map((card) => ({ ...card, chain, rates }));
    keyed(this.cards, cards, (card) => card.key, () => new LinkCard());
  }
}

class LinkCard {
  constructor() {
    this.role = el("span", { class: "role" });
    this.state = el("span", { class: "state" });
    this.name = el("span", { class: "link-name" });
    this.speed = el("span", { class: "speed" });
    this.spark = new Sparkline("changes a second, lately");
    this.changes = el("span", {});
    this.clients = el("span", {});
    this.pid = el("span", {});
    this.restarts = el("span", {});
    const card = el(
      "div",
      { class: "link" },
      el("div", { class: "link-top" }, this.role, this.state),
      el("div", { class: "link-mid" }, this.name, this.speed),
      this.spark.node,
      el("div", { class: "link-facts" }, this.changes, this.clients, this.pid, this.restarts),
    );
    this.node = el("li", { class: "link-place" }, card);
  }

  update({ id, link, role, chain, rates }) {
    const place = link?.places.find((each) => each.chain === chain.chain) ?? null;
    const state = link ? link.state : "gone";
    const learns = chain.links.includes(id) && !chain.whole.includes(id);
    setAttr(this.node, "data-role", role);
    setAttr(this.node, "data-state", state);
    setText(this.role, learns ? `${role}, catching up` : role === "learner" ? "learning" : role);
    setText(this.state, STATES[state]);
    setText(this.name, nameOf(id));
    const key = linkKey(id, chain.chain);
    setText(this.speed, place && state === "up" ? `${rate(rates.now(key))}/s` : "");
    this.spark.update(rates.history(key));
    setText(this.changes, place ? plural(place.versions, "change") : "no word of its state");
    setText(this.clients, place ? plural(link.connections, "client") : "");
    setText(this.pid, link?.pid ? `pid ${link.pid}` : "no process");
    setText(this.restarts, link?.restarts ? plural(link.restarts, "restart") : "");
    setAttr(this.state, "title", state === "silent" ? "it runs, but does not answer" : null);
    setAttr(this.node, "title", place ? `${count(place.live)} events on their way, ${link.url}` : null);
  }
}
