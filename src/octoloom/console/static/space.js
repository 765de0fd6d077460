// One space, live: its state as a tree, and its last changes. The page is an observer of the space, like any other.

import { brought, difference, patchOf } from "./diff.js";
import { el, keyed, section, setAttr, setText, show } from "./dom.js";
import { clock, count, moment, plural, rate, shortened } from "./format.js";
import { spaceKey } from "./rates.js";
import { path } from "./router.js";
import { TreeNode } from "./tree.js";

const CHANGES_MAX = 50;
const PATCH_MAX = 600;
const PAUSE_MS = 80;
/** Comparing states may take this part of the time at most. */
const SHARE = 0.2;

export class SpaceView {
  #changes = [];
  #ended = false;
  #pending = false;

  constructor(name) {
    this.name = name;
    this.version = el("span", { class: "big" }, "–");
    this.facts = el("p", { class: "note" });
    this.state = el("span", { class: "pill", role: "status", "data-mood": "plain" }, "connecting");
    this.tree = el("ul", { class: "tree root", "aria-label": "State" });
    this.hint = el("p", { class: "empty" }, "The state comes with the first answer of a link.");
    this.list = el("ol", { class: "changes" });
    this.none = el("p", { class: "empty" }, "No change since you look.");
    const left = section("State");
    left.body.append(el("div", { class: "card pad" }, this.hint, this.tree));
    const right = section("Last changes");
    right.body.append(el("div", { class: "card" }, this.none, this.list));
    this.node = el(
      "div",
      {},
      el("p", { class: "crumbs" }, el("a", { href: path("spaces") }, "← Spaces")),
      el(
        "div",
        { class: "title" },
        el("h1", {}, name),
        this.state,
        el("span", { class: "grow" }),
        el("span", { class: "note" }, "version "),
        this.version,
      ),
      this.facts,
      el("div", { class: "halves" }, left.node, right.node),
    );
  }

  update({ picture, rates }) {
    const seen = picture.spaces.find((each) => each.space === this.name);
    this.urls = urlsFor(picture, seen?.chain);
    if (!this.observer && !this.opening && this.urls.length) this.#open();
    const unknown = "The links do not tell of this space: it may be new, or one of many.";
    setText(this.facts, seen ? factsOf(seen, rates) : unknown);
  }

  async #open() {
    this.opening = true;
    try {
      const { Observer } = await import("/client/octoloom.js");
      const observer = await Observer.connect(this.urls, { space: this.name });
      if (this.#ended) return void observer.close();
      this.observer = observer;
      observer.onChange(() => this.#soon());
      observer.onUpdate(() => this.#tellState());
      if (observer.version) this.#soon();
      this.#tellState();
    } catch (error) {
      this.#tell("bad", `cannot be followed: ${error.message}`);
    }
    this.opening = false;
    return undefined;
  }

  #tellState() {
    const { observer } = this;
    if (observer.error) this.#tell("bad", observer.error.message);
    else if (observer.connected) this.#tell("good", "live");
    else this.#tell("warn", "calling a link");
  }

  #tell(mood, text) {
    setAttr(this.state, "data-mood", mood);
    setText(this.state, text);
  }

  /** Many changes at once are shown as one, and a large state is compared less often. */
  #soon() {
    if (this.#pending || this.#ended) return;
    this.#pending = true;
    setTimeout(() => {
      this.#pending = false;
      if (!this.#ended) this.#draw();
    }, Math.max(PAUSE_MS, (this.took ?? 0) / SHARE));
  }

  #draw() {
    const begun = performance.now();
    const { state, version } = this.observer;
    this.#tellState();
    setText(this.version, count(version));
    if (!this.root) {
      this.mirror = structuredClone(state);
      this.root = new TreeNode("state", state);
      this.tree.append(this.root.node);
      show(this.hint, false);
    } else {
      const diff = difference(this.mirror, state);
      if (diff) {
        this.mirror = brought(this.mirror, state, diff);
        this.root.update(state, diff);
        this.#note(version, patchOf(state, diff));
      }
    }
    this.took = performance.now() - begun;
  }

  #note(version, patch) {
    const patchText = shortened(JSON.stringify(patch), PATCH_MAX);
    this.#changes.unshift({ version, at: Date.now(), text: patchText });
    this.#changes.length = Math.min(this.#changes.length, CHANGES_MAX);
    show(this.none, false);
    keyed(this.list, this.#changes, (change) => change.version, (change) => new ChangeLine(change));
  }

  end() {
    this.#ended = true;
    this.observer?.close();
  }
}

class ChangeLine {
  constructor({ version, at, text }) {
    this.node = el(
      "li",
      { class: "change" },
      el("span", { class: "change-version" }, count(version)),
      el("time", { title: moment(at) }, clock(at)),
      el("code", {}, text),
    );
  }

  update() {}
}

/** Where to follow a space: links of its chain that are up, the tail first, since devices are at the head. */
export function urlsFor(picture, chain) {
  const { chains } = picture;
  const order = chains.find((each) => each.chain === chain)?.links ?? chains.flatMap((each) => each.links);
  const urls = new Map(picture.links.filter((link) => link.state === "up").map((link) => [link.id, link.url]));
  return [...new Set([...order].reverse().map((id) => urls.get(id)).filter(Boolean))];
}

function factsOf(seen, rates) {
  const speed = rate(rates.now(spaceKey(seen.chain, seen.space)));
  const people = `${count(seen.present)} of ${plural(seen.devices, "device")} present`;
  return [seen.chain, `${speed} changes/s`, people, `${plural(seen.live, "event")} on the way`].join("  ·  ");
}
