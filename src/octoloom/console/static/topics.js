// Topics as a table, and the consumer groups that read them.

import { Consumers } from "./consumers.js";
import { el, emptyState, keyed, section, setAttr, setText, setWords, show, table } from "./dom.js";
import { count, rate } from "./format.js";
import { recordsIn, troubledPartitions } from "./lists.js";
import { partitionKey, total } from "./rates.js";
import { path } from "./router.js";

const COLUMNS = [
  ["Topic", false],
  ["", false],
  ["Records/s", true],
  ["Records", true],
  ["Partitions", true],
  ["Replicas", true],
];

export class TopicTable {
  constructor(most) {
    this.most = most;
    this.table = table("Topics", COLUMNS);
    this.empty = emptyState("");
    this.node = el("div", {}, this.empty, this.table.node);
  }

  update({ picture, rates }) {
    const { topics } = picture;
    show(this.empty, topics.length === 0);
    show(this.table.node, topics.length > 0);
    this.#drawEmpty(picture);
    const items = topics.slice(0, this.most).map((topic) => ({ topic, rates }));
    keyed(this.table.body, items, (item) => item.topic.name, () => new TopicRow());
  }

  #drawEmpty({ brokers, register }) {
    const text = !register.told_ms
      ? "The register does not answer: nobody knows the topics."
      : brokers.length
        ? "No topics yet: `octoloom topic create moves --partitions 3`"
        : "This cluster runs without brokers, so it has no topics and no journal: `octoloom up --brokers 3`";
    setWords(this.empty, text);
  }
}

class TopicRow {
  constructor() {
    this.link = el("a", {});
    this.mark = el("span", { class: "pill" });
    this.cells = COLUMNS.slice(2).map(() => el("td", { class: "number" }));
    this.node = el("tr", {}, el("th", { scope: "row" }, this.link), el("td", {}, this.mark), ...this.cells);
  }

  update({ topic, rates }) {
    const speed = total(topic.partitions.map((part) => rates.now(partitionKey(topic.name, part.partition))));
    const troubled = troubledPartitions(topic);
    const leaderless = topic.partitions.filter((part) => !part.leader).length;
    setText(this.link, topic.name);
    setAttr(this.link, "href", path("topic", topic.name));
    setAttr(this.node, "data-busy", speed ? "yes" : null);
    setAttr(this.mark, "data-mood", leaderless ? "bad" : troubled.length ? "warn" : "good");
    const words = leaderless ? `${leaderless} without a leader` : `${troubled.length} not in sync`;
    setText(this.mark, troubled.length ? words : "in sync");
    const replicas = Math.max(0, ...topic.partitions.map((part) => part.replicas.length));
    const texts = [rate(speed), count(recordsIn(topic)), count(topic.partitions.length), count(replicas)];
    texts.forEach((text, at) => setText(this.cells[at], text));
  }
}

export class TopicsView {
  constructor() {
    this.table = new TopicTable(Infinity);
    this.consumers = new Consumers();
    this.left = el("p", { class: "note" });
    const topics = section("Topics");
    topics.body.append(this.table.node, this.left);
    const readers = section("Consumer groups");
    readers.body.append(this.consumers.node);
    this.node = el("div", {}, topics.node, readers.node);
  }

  update(model) {
    this.table.update(model);
    this.consumers.update(model);
    const leftOut = model.picture.topics_left_out;
    setWords(this.left, leftOut ? `${count(leftOut)} more topics are not shown: see \`octoloom topic list\`` : "");
  }
}
