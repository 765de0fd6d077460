// A value as a tree that opens on demand. Only what is open exists as elements, and of that only the first so many
// members. A change touches what it changed, and marks it for a moment.

import { el, setText } from "./dom.js";
import { isNest } from "./diff.js";
import { plural, shortened } from "./format.js";

const PAGE = 100;
const TEXT_MAX = 300;
/** How many members a value may have at each depth to be open from the start. */
const OPEN_MEMBERS = [Infinity, 100, 8];
const MARK_MS = 1_600;

/** A member and, if it is an object or array, its own members. */
export class TreeNode {
  constructor(key, value, depth = 0) {
    this.depth = depth;
    this.key = el("span", { class: "tree-key" }, key);
    this.node = el("li", { class: "tree-node" });
    this.#build(value);
    if (this.isNest && this.size <= (OPEN_MEMBERS[depth] ?? 0)) this.details.open = true;
  }

  #build(value) {
    this.value = value;
    this.isNest = isNest(value);
    this.children = null;
    if (this.isNest) {
      this.summary = el("span", { class: "tree-summary" });
      this.list = el("ul", { class: "tree" });
      this.more = el("button", { type: "button", class: "tree-more", onclick: () => this.#grow(PAGE) });
      this.line = el("summary", { class: "tree-line" }, this.key, ": ", this.summary);
      this.details = el("details", { ontoggle: () => this.#toggled() }, this.line, this.list, this.more);
      this.node.replaceChildren(this.details);
      this.#tellSize();
    } else {
      this.text = el("span", { class: `tree-value ${typeof value}` });
      this.line = el("div", { class: "tree-line" }, this.key, ": ", this.text);
      this.node.replaceChildren(this.line);
      this.#tellValue();
    }
  }

  get size() {
    return Object.keys(this.value).length;
  }

  #tellSize() {
    const isList = Array.isArray(this.value);
    setText(this.summary, isList ? `[ ${plural(this.size, "item")} ]` : `{ ${plural(this.size, "member")} }`);
  }

  #tellValue() {
    setText(this.text, shortened(JSON.stringify(this.value) ?? "null", TEXT_MAX));
  }

  #toggled() {
    if (this.details.open && this.children === null) {
      this.children = new Map();
      this.#grow(PAGE);
    }
  }

  /** Shows so many members more. */
  #grow(by) {
    const missing = Object.keys(this.value).filter((key) => !this.children.has(key));
    for (const key of missing.slice(0, by)) this.#add(key);
    this.#tellMore(missing.length - by);
  }

  #add(key) {
    const child = new TreeNode(key, this.value[key], this.depth + 1);
    this.children.set(key, child);
    this.list.append(child.node);
    return child;
  }

  #tellMore(left) {
    this.more.hidden = left <= 0;
    if (left > 0) setText(this.more, `Show more: ${left.toLocaleString("en")} are not shown`);
  }

  /** Takes the value as it is now; `diff` says what is different. */
  update(value, diff) {
    if (!diff) return;
    if (diff.whole || !this.isNest) {
      this.#replace(value);
    } else {
      this.value = value;
      this.#tellSize();
      if (this.details.open) this.#updateMembers(diff);
      else {
        this.#mark();
        // What is closed is built anew when it is opened.
        this.children = null;
        this.list.replaceChildren();
      }
    }
  }

  #replace(value) {
    if (!this.isNest && !isNest(value)) {
      this.value = value;
      this.text.className = `tree-value ${typeof value}`;
      this.#tellValue();
    } else this.#build(value);
    this.#mark();
  }

  #updateMembers({ changed, added, removed }) {
    this.children ??= new Map();
    for (const [key, inner] of changed) this.children.get(key)?.update(this.value[key], inner);
    for (const key of removed) {
      this.children.get(key)?.node.remove();
      this.children.delete(key);
    }
    for (const key of added) if (this.children.size < PAGE) this.#add(key).#mark();
    this.#tellMore(this.size - this.children.size);
    if (removed.length) this.#mark();
  }

  /** Lights up for a moment. */
  #mark() {
    this.line.classList.add("changed");
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.line.classList.remove("changed"), MARK_MS);
  }
}
