// One ordered group: its view, and what its members did, drawn as a space-time diagram.

import { el, section, setText, setWords, show } from "./dom.js";
import { plural } from "./format.js";
import { drawMembers } from "./groups.js";
import { path } from "./router.js";
import { ask } from "./stream.js";

const COUNTS = [20, 40, 100, 300];

export class GroupView {
  constructor(name) {
    this.name = name;
    this.facts = el("p", { class: "note" });
    this.members = el("ul", { class: "members" });
    this.picture = el("img", { class: "trace", alt: `Space-time diagram of ${name}` });
    this.told = el("p", { class: "empty", role: "status" });
    this.choice = el(
      "select",
      { "aria-label": "How many marks", onchange: () => this.#load() },
      ...COUNTS.map((number) => el("option", { value: number }, `the last ${number} marks`)),
    );
    this.choice.value = "40";
    const trace = section("What happened", this.choice);
    const frame = { class: "card trace-frame", tabindex: 0, role: "group", "aria-label": "Diagram" };
    this.frame = el("div", frame, this.picture);
    trace.body.append(this.told, this.frame);
    this.node = el(
      "div",
      {},
      el("p", { class: "crumbs" }, el("a", { href: path("groups") }, "← Groups")),
      el("div", { class: "title" }, el("h1", {}, name)),
      this.facts,
      this.members,
      trace.node,
    );
    show(this.frame, false);
  }

  update({ picture }) {
    const group = picture.groups.find((each) => each.group === this.name);
    show(this.members, Boolean(group));
    if (group) {
      drawMembers(this.members, group.members);
      const parts = [`${group.order} order`, `epoch ${group.epoch}`, `over ${group.transport}`];
      setText(this.facts, [...parts, plural(group.members.length, "member")].join("  ·  "));
    } else setText(this.facts, "Nobody is in this group now.");
    this.#followSteps(picture);
  }

  /** Draws again when there are new steps, which the topic's ends tell. */
  #followSteps(picture) {
    const topic = picture.topics.find((each) => each.name === `${this.name}-steps`);
    show(this.choice, Boolean(topic));
    if (!topic) {
      show(this.frame, false);
      this.#tell(
        `No trace yet. Members that write their steps to the topic \`${this.name}-steps\` are drawn here: ` +
          `\`Group.join("${this.name}", name="ada", trace=StepTopic(…))\``,
      );
      return;
    }
    const ends = topic.partitions.map((part) => part.high).join();
    if (ends !== this.ends) {
      this.ends = ends;
      this.#load();
    }
  }

  async #load() {
    if (this.loading) {
      this.again = true;
      return;
    }
    this.loading = true;
    this.again = false;
    const wish = new URLSearchParams({ last: this.choice.value, ends: this.ends ?? "" });
    const address = `/api/groups/${encodeURIComponent(this.name)}/trace.svg?${wish}`;
    const next = el("img", { class: "trace", alt: this.picture.alt, src: address });
    try {
      await next.decode();
      this.picture.replaceWith(next);
      this.picture = next;
      show(this.frame, true);
      this.#tell("");
    } catch {
      // An image does not say what is wrong with it; the server does.
      const error = await ask(address).catch((reason) => reason);
      this.#tell(error instanceof Error ? error.message : "The picture cannot be shown.");
    }
    this.loading = false;
    if (this.again) this.#load();
  }

  #tell(text) {
    show(this.told, text !== "");
    setWords(this.told, text);
  }
}
