// Consumer groups: who reads what, and how far behind they are.

import { el, emptyState, keyed, setAttr, setText, show, table } from "./dom.js";
import { age, count, plural } from "./format.js";

const STATES = { PreparingRebalance: "dividing", CompletingRebalance: "dividing" };
const PARTITIONS_SHOWN = 200;

/** All groups, or those that read one topic. */
export class Consumers {
  constructor(topic = null) {
    this.topic = topic;
    const command = `octoloom topic consume ${topic ?? "journal"} --group readers`;
    this.empty = emptyState(`No consumer group ${topic ? "reads this topic" : "yet"}: \`${command}\``);
    this.list = el("div", { class: "stack" });
    this.age = el("p", { class: "note" });
    this.node = el("div", {}, this.empty, this.list, this.age);
  }

  update({ picture }) {
    const groups = picture.consumers.filter(
      (group) => !this.topic || group.partitions.some((part) => part.topic === this.topic),
    );
    show(this.empty, groups.length === 0);
    keyed(this.list, groups, (group) => group.name, () => new ConsumerCard());
    const old = picture.at_ms - picture.consumers_ms;
    const parts = [];
    if (groups.length && old > 8_000) parts.push(`as of ${age(old)} ago: the brokers do not tell`);
    if (picture.consumers_left_out) parts.push(`${count(picture.consumers_left_out)} more groups are not shown`);
    setText(this.age, parts.join("; "));
  }
}

class ConsumerCard {
  constructor() {
    this.name = el("span", { class: "strong" });
    this.state = el("span", { class: "pill" });
    this.facts = el("span", { class: "facts" });
    this.table = table("What it reads", [
      ["Topic", false], ["Partition", true], ["Committed", true], ["End", true], ["Lag", true], ["Read by", false],
    ]);
    this.node = el(
      "details",
      { class: "card fold", ontoggle: () => this.group && this.#drawParts() },
      el("summary", {}, this.name, this.state, this.facts),
      this.table.node,
    );
  }

  update(group) {
    this.group = group;
    const state = STATES[group.state] ?? group.state.toLowerCase();
    setText(this.name, group.name);
    setText(this.state, state);
    setAttr(this.state, "data-mood", state === "stable" ? "good" : state === "empty" ? "plain" : "warn");
    const lag = group.lag === null ? "lag unknown" : `lag ${count(group.lag)}`;
    const counts = [plural(group.members.length, "member"), plural(group.partitions.length, "partition")];
    setText(this.facts, [...counts, lag].join("  ·  "));
    if (this.node.open) this.#drawParts();
  }

  #drawParts() {
    const where = ({ client, host }) => `${client} at ${host.replace("/", "")}`;
    const clients = new Map(this.group.members.map((member) => [member.id, where(member)]));
    const parts = this.group.partitions.slice(0, PARTITIONS_SHOWN);
    const items = parts.map((part) => ({ ...part, reader: clients.get(part.member) ?? "nobody" }));
    keyed(this.table.body, items, (item) => `${item.topic} ${item.partition}`, () => new PartRow());
  }
}

class PartRow {
  constructor() {
    this.cells = ["", "number", "number", "number", "number", ""].map((kind) => el("td", { class: kind }));
    this.node = el("tr", {}, ...this.cells);
  }

  update({ topic, partition, committed, end, lag, reader }) {
    const texts = [topic, String(partition), count(committed), count(end), count(lag), reader];
    texts.forEach((text, at) => setText(this.cells[at], text));
  }
}
