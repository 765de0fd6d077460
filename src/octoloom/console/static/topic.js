// One topic: its settings, its partitions, who reads it, and its records.

import { Consumers } from "./consumers.js";
import { el, emptyState, keyed, section, setAttr, setText, show, table } from "./dom.js";
import { count, rate, setting } from "./format.js";
import { partitionKey } from "./rates.js";
import { Records } from "./records.js";
import { path } from "./router.js";

const COLUMNS = [
  ["Partition", false], ["Leader", false], ["Replicas, in sync or not", false], ["Epoch", true], ["Start", true],
  ["High", true], ["Records/s", true],
];

export class TopicView {
  constructor(name) {
    this.name = name;
    this.settings = el("dl", { class: "settings" });
    this.missing = emptyState("There is no such topic now: see `octoloom topic list`");
    this.table = table("Partitions", COLUMNS);
    this.records = new Records(name);
    this.consumers = new Consumers(name);
    const parts = section("Partitions");
    parts.body.append(this.table.node);
    const readers = section("Consumer groups");
    readers.body.append(this.consumers.node);
    this.there = el("div", {}, this.settings, parts.node, this.records.node, readers.node);
    this.node = el(
      "div",
      {},
      el("p", { class: "crumbs" }, el("a", { href: path("topics") }, "← Topics")),
      el("div", { class: "title" }, el("h1", {}, name)),
      this.missing,
      this.there,
    );
  }

  update(model) {
    const { picture, rates } = model;
    const topic = picture.topics.find((each) => each.name === this.name);
    show(this.missing, !topic);
    show(this.there, Boolean(topic));
    if (!topic) return;
    const settings = Object.entries(topic.config).map(([key, value]) => ({ key, value }));
    keyed(this.settings, settings, (item) => item.key, () => new Setting());
    const speedOf = (part) => rates.now(partitionKey(topic.name, part.partition));
    const items = topic.partitions.map((part) => ({ ...part, speed: speedOf(part) }));
    keyed(this.table.body, items, (item) => item.partition, () => new PartitionRow());
    this.records.update(topic);
    this.consumers.update(model);
  }
}

class Setting {
  constructor() {
    this.name = el("dt", {});
    this.value = el("dd", {});
    this.node = el("div", {}, this.name, this.value);
  }

  update({ key, value }) {
    setText(this.name, key);
    setText(this.value, setting(key, value));
    setAttr(this.value, "title", value);
  }
}

class PartitionRow {
  constructor() {
    this.leader = el("td", {});
    this.replicas = el("span", { class: "replicas" });
    this.partition = el("td", {});
    this.numbers = [0, 1, 2, 3].map(() => el("td", { class: "number" }));
    this.node = el("tr", {}, this.partition, this.leader, el("td", {}, this.replicas), ...this.numbers);
  }

  update({ partition, leader, epoch, in_sync: inSync, replicas, start, high, speed }) {
    setText(this.leader, leader || "nobody");
    setAttr(this.leader, "data-mood", leader ? null : "bad");
    const items = replicas.map((name) => ({ name, isIn: inSync.includes(name), leads: name === leader }));
    keyed(this.replicas, items, (item) => item.name, () => new Replica());
    setText(this.partition, partition);
    [String(epoch), count(start), count(high), rate(speed)].forEach((text, at) => setText(this.numbers[at], text));
  }
}

class Replica {
  constructor() {
    this.node = el("span", { class: "replica" });
  }

  update({ name, isIn, leads }) {
    setText(this.node, name);
    setAttr(this.node, "data-mood", isIn ? "good" : "bad");
    setAttr(this.node, "title", `${leads ? "leads, " : ""}${isIn ? "in sync" : "not in sync"}`);
    setAttr(this.node, "data-leads", leads ? "yes" : null);
  }
}
