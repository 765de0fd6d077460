// The top of the page: which app, whether everything is whole, how the page itself is doing, and where one can go.

import { el, setAttr, setText, setWords, show } from "./dom.js";
import { age, plural, sentence } from "./format.js";
import { path } from "./router.js";

const OTHERS_SHOWN = 4;
const STALE_MS = 4_000;
const TABS = [
  ["overview", "Overview", "#/"],
  ["spaces", "Spaces", path("spaces")],
  ["topics", "Topics", path("topics")],
  ["groups", "Groups", path("groups")],
  ["news", "News", path("news")],
];
const PARENTS = { space: "spaces", topic: "topics", group: "groups" };

export class Header {
  constructor(node) {
    this.app = el("span", { class: "app" });
    this.processes = el("span", { class: "processes" });
    this.live = el("span", { class: "live", role: "status" });
    this.dot = el("span", { class: "dot", "aria-hidden": "true" });
    this.verdictText = el("span", { class: "verdict-text" });
    this.others = el("ul", { class: "troubles" });
    this.verdict = el(
      "div",
      { class: "verdict", role: "status", "aria-live": "polite" },
      this.dot,
      this.verdictText,
      this.others,
    );
    const badged = (title, href) => el("a", { href, class: "tab" }, title, el("span", { class: "badge" }));
    this.tabs = TABS.map(([view, title, href]) => [view, badged(title, href)]);
    const logo = el("img", { src: "favicon.svg", alt: "", width: 26, height: 26 });
    node.append(
      el(
        "div",
        { class: "bar" },
        el("a", { href: "#/", class: "brand" }, logo, "Octoloom"),
        this.app,
        el("span", { class: "grow" }),
        this.processes,
        this.live,
      ),
      this.verdict,
      el("nav", { class: "tabs", "aria-label": "Views" }, ...this.tabs.map(([, tab]) => tab)),
    );
  }

  update(model, route) {
    const { picture } = model;
    for (const [view, tab] of this.tabs) {
      setAttr(tab, "aria-current", view === (PARENTS[route.view] ?? route.view) ? "page" : null);
      if (picture) setText(tab.lastChild, badge(view, picture));
    }
    this.#updateLive(model);
    show(this.verdict, picture !== null);
    if (!picture) return;
    setText(this.app, picture.app);
    setText(this.processes, `${picture.up} of ${plural(picture.processes, "process", "processes")} up`);
    setAttr(this.processes, "data-mood", picture.up === picture.processes ? "good" : "bad");
    this.#updateVerdict(picture);
    document.title = picture.troubles.length ? `! ${sentence(picture.troubles[0])}` : "Octoloom: everything is whole";
  }

  #updateVerdict({ troubles }) {
    setAttr(this.verdict, "data-mood", troubles.length ? "bad" : "good");
    const first = troubles.length ? sentence(troubles[0]) : "Everything is whole";
    setWords(this.verdictText, first);
    const others = troubles.slice(1);
    const wanted = others.slice(0, OTHERS_SHOWN).map(sentence);
    if (others.length > OTHERS_SHOWN) wanted.push(`and ${others.length - OTHERS_SHOWN} more`);
    show(this.others, wanted.length > 0);
    if (wanted.join("\n") !== this.told) {
      this.told = wanted.join("\n");
      this.others.replaceChildren(...wanted.map((text) => el("li", {}, text)));
    }
  }

  #updateLive({ picture, heardAt, lost, lostWhy }) {
    const old = Date.now() - heardAt;
    if (lost) {
      const since = heardAt ? `, last picture ${age(old)} ago` : "";
      this.#live("bad", lostWhy || `the console does not answer${since}`);
    } else if (!picture) this.#live("plain", "connecting");
    else if (old > STALE_MS) this.#live("warn", `no picture for ${age(old)}`);
    else this.#live("good", "live");
  }

  #live(mood, text) {
    setAttr(this.live, "data-mood", mood);
    setText(this.live, text);
  }
}

function badge(view, picture) {
  if (view === "spaces") return picture.spaces.length + picture.spaces_left_out || "";
  if (view === "topics") return picture.topics.length + picture.topics_left_out || "";
  return view === "groups" ? picture.groups.length + picture.groups_left_out || "" : "";
}
