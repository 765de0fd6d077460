// Spaces as a table: the busiest first, with a filter on their own page.

import { el, emptyState, keyed, section, setAttr, setText, setWords, show, table } from "./dom.js";
import { count, plural, rate } from "./format.js";
import { shownSpaces } from "./lists.js";
import { spaceKey } from "./rates.js";
import { path } from "./router.js";

const PAGE = 100;
const SMOOTH = 8;
const COLUMNS = [
  ["Space", false, "space"],
  ["Chain", false, null],
  ["Changes/s", true, "activity"],
  ["Version", true, "version"],
  ["Present", true, "present"],
  ["Devices", true, null],
  ["On the way", true, null],
];

/** At most `most` spaces. */
export class SpaceTable {
  constructor(most) {
    this.most = most;
    this.filter = "";
    this.order = "activity";
    this.table = table("Spaces", COLUMNS);
    this.empty = emptyState("");
    this.node = el("div", {}, this.empty, this.table.node);
  }

  update({ picture, rates }) {
    this.model = { picture, rates };
    const rateOf = (space) => rates.now(spaceKey(space.chain, space.space), SMOOTH);
    const found = shownSpaces(picture.spaces, this.filter, this.order, rateOf);
    this.found = found.length;
    show(this.empty, found.length === 0);
    show(this.table.node, found.length > 0);
    this.#drawEmpty(picture);
    const items = found.slice(0, this.most).map((space) => ({ ...space, speed: rateOf(space) }));
    keyed(this.table.body, items, (item) => `${item.chain} ${item.space}`, () => new SpaceRow());
  }

  #drawEmpty(picture) {
    const url = picture.links.find((link) => link.state === "up")?.url ?? "ws://127.0.0.1:7080";
    const text = picture.spaces.length
      ? "No space has this in its name."
      : !picture.links.some((link) => link.state === "up")
        ? "No link answers: nobody knows the spaces."
        : `No spaces yet. One begins with its first device: \`Device.connect("${url}", space="lobby", device="ada")\``;
    setWords(this.empty, text);
  }
}

class SpaceRow {
  constructor() {
    this.link = el("a", {});
    this.cells = COLUMNS.slice(1).map(([, isNumber]) => el("td", { class: isNumber ? "number" : "soft" }));
    this.node = el("tr", {}, el("th", { scope: "row" }, this.link), ...this.cells);
  }

  update({ space, chain, speed, version, present, devices, live }) {
    setText(this.link, space);
    setAttr(this.link, "href", path("space", space));
    setAttr(this.node, "data-busy", speed ? "yes" : null);
    const texts = [chain, rate(speed), count(version), count(present), count(devices), count(live)];
    texts.forEach((text, at) => setText(this.cells[at], text));
  }
}

export class SpacesView {
  constructor() {
    this.table = new SpaceTable(PAGE);
    this.input = el("input", {
      type: "search", placeholder: "Filter by name", "aria-label": "Filter spaces by name", class: "filter",
      oninput: () => this.#change({ filter: this.input.value }),
    });
    this.count = el("p", { class: "note", role: "status" });
    const grow = () => this.#change({ most: this.table.most + PAGE });
    this.more = el("button", { type: "button", onclick: grow }, "Show more");
    const part = section("Spaces", this.input);
    part.body.append(this.table.node, el("div", { class: "below" }, this.count, this.more));
    this.node = part.node;
    this.#makeSortable();
  }

  #makeSortable() {
    this.table.table.heads.forEach((head, at) => {
      const order = COLUMNS[at][2];
      if (!order) return;
      const sort = () => this.#change({ order });
      head.replaceChildren(el("button", { type: "button", class: "sort", onclick: sort }, COLUMNS[at][0]));
    });
  }

  #change(wish) {
    Object.assign(this.table, wish);
    if (this.model) this.update(this.model);
  }

  update(model) {
    this.model = model;
    this.table.update(model);
    this.table.table.heads.forEach((head, at) => {
      const isChosen = COLUMNS[at][2] === this.table.order;
      setAttr(head, "aria-sort", isChosen ? (this.table.order === "space" ? "ascending" : "descending") : null);
    });
    const { spaces, spaces_left_out: leftOut } = model.picture;
    const shown = Math.min(this.table.found, this.table.most);
    const parts = [`${count(shown)} of ${plural(spaces.length, "space")}`];
    if (leftOut) parts.push(`${count(leftOut)} more are not told of here`);
    setText(this.count, spaces.length ? parts.join("; ") : "");
    show(this.more, this.table.found > this.table.most);
  }
}
