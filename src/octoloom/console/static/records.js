// The records of a partition, a page at a time. They are fetched when somebody asks, not every second.

import { el, keyed, section, setText, show } from "./dom.js";
import { bytes, clock, count, moment } from "./format.js";
import { ask } from "./stream.js";

const PAGE = 20;

export class Records {
  constructor(topic) {
    this.topic = topic;
    this.choice = el("select", { "aria-label": "Partition", onchange: () => this.#load(null) });
    const button = (title, onclick) => el("button", { type: "button", onclick }, title);
    this.older = button("Older", () => this.#load(Math.max(this.page.start, this.page.first - PAGE)));
    this.newer = button("Newer", () => this.#load(this.page.next));
    this.last = button("Newest", () => this.#load(null));
    this.older.disabled = this.newer.disabled = true;
    this.told = el("p", { class: "note", role: "status" }, "Records are read when you open this page or ask for them.");
    this.list = el("ol", { class: "records" });
    const part = section("Records", el("div", { class: "tools" }, this.choice, this.older, this.newer, this.last));
    part.body.append(this.told, this.list);
    this.node = part.node;
  }

  update(topic) {
    const numbers = topic.partitions.map((part) => part.partition);
    if (numbers.join() !== this.numbers) {
      this.numbers = numbers.join();
      const chosen = this.choice.value || String(busiest(topic));
      this.choice.replaceChildren(...numbers.map((number) => el("option", { value: number }, `Partition ${number}`)));
      this.choice.value = numbers.map(String).includes(chosen) ? chosen : String(numbers[0] ?? "");
      if (numbers.length) this.#load(null);
    }
    const now = topic.partitions.find((part) => String(part.partition) === this.choice.value);
    if (this.page && now?.high !== null) this.#tell(now);
  }

  async #load(from) {
    const ticket = (this.ticket = (this.ticket ?? 0) + 1);
    const wish = new URLSearchParams({ partition: this.choice.value, count: PAGE, from: from ?? "end" });
    try {
      const page = await ask(`/api/topics/${encodeURIComponent(this.topic)}/records?${wish}`);
      if (ticket !== this.ticket) return;
      this.page = page;
      const newestFirst = [...page.records].reverse();
      const keyOf = (record) => `${page.partition} ${record.offset}`;
      keyed(this.list, newestFirst, keyOf, (record) => new RecordLine(record));
      this.#tell(null);
    } catch (error) {
      if (ticket === this.ticket) setText(this.told, error.message);
    }
  }

  #tell(now) {
    const { first, next, start, records } = this.page;
    const high = Math.max(this.page.high, now?.high ?? 0);
    const since = high - next;
    const span = (from, to) => `${count(from)} to ${count(to - 1)}`;
    const range = records.length ? `Offsets ${span(first, next)} of ${span(start, high)}` : "No records here yet";
    setText(this.told, since > 0 ? `${range}; ${count(since)} newer` : range);
    this.older.disabled = first <= start;
    this.newer.disabled = since <= 0;
  }
}

function busiest(topic) {
  const sizes = topic.partitions.map((part) => [part.high ?? -1, part.partition]);
  return sizes.reduce((best, each) => (each[0] > best[0] ? each : best), [-1, 0])[1];
}

class RecordLine {
  constructor({ offset, time_ms: time, key, value, headers, headers_left_out: leftOut }) {
    const notes = headers.map(([name, shown]) => el("span", { class: "header-note" }, `${name}: ${textOf(shown)}`));
    if (leftOut) notes.push(el("span", { class: "header-note" }, `and ${leftOut} more headers`));
    const body = el("pre", { class: `value ${value.kind}`, tabindex: 0 }, pretty(value));
    this.node = el(
      "li",
      { class: "record" },
      el(
        "div",
        { class: "record-head" },
        el("span", { class: "offset" }, count(offset)),
        el("time", { title: moment(time) }, time >= 0 ? clock(time) : "no time"),
        el("span", { class: "key" }, key.kind === "none" ? "no key" : textOf(key)),
        ...notes,
        el("span", { class: "grow" }),
        el("span", { class: "size" }, sizeOf(value)),
      ),
      body,
    );
    show(body, value.kind !== "none");
  }

  update() {}
}

function textOf(shown) {
  return shown.kind === "none" ? "none" : `${shown.text}${shown.cut ? "…" : ""}`;
}

function sizeOf(value) {
  if (value.kind === "none") return "no value";
  return `${bytes(value.size)}${value.cut ? ", cut" : ""}${value.kind === "hex" ? ", binary" : ""}`;
}

/** Short JSON stays on its line as it was written; long JSON gets lines. Numbers keep their digits. */
function pretty(value) {
  if (value.kind !== "json" || value.text.length < 200) return textOf(value);
  return value.text.length < 4000 ? indented(value.text) : textOf(value);
}

/** JSON text with line breaks between the members of its outermost levels. Works on the text, so nothing is lost. */
export function indented(text, levels = 2) {
  let depth = 0;
  let quoted = false;
  let made = "";
  for (let at = 0; at < text.length; at += 1) {
    const sign = text[at];
    if (quoted) {
      made += sign;
      if (sign === "\\") made += text[(at += 1)] ?? "";
      else if (sign === '"') quoted = false;
      continue;
    }
    if (sign === '"') quoted = true;
    if ("]}".includes(sign)) {
      depth -= 1;
      if (depth < levels && !"[{".includes(made.at(-1))) made += `\n${"  ".repeat(depth)}`;
    }
    made += sign;
    if ("[{".includes(sign)) depth += 1;
    const isEmpty = "[{".includes(sign) && "]}".includes(text[at + 1]);
    if (("[{".includes(sign) || sign === ",") && depth <= levels && !isEmpty) made += `\n${"  ".repeat(depth)}`;
  }
  return made;
}
