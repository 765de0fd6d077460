// What happened, newest first.

import { el, emptyState, keyed, section, setAttr, setText, setWords, show } from "./dom.js";
import { moment, sentence, when } from "./format.js";

/** A list of at most `most` lines. */
export class NewsList {
  constructor(most = 100) {
    this.most = most;
    this.empty = emptyState("");
    this.list = el("ol", { class: "news", "aria-live": "polite", "aria-relevant": "additions" });
    this.node = el("div", {}, this.empty, this.list);
  }

  update({ news, picture }) {
    show(this.empty, news.length === 0);
    const hint = picture.links.length > 1 ? " End a process and see: `octoloom chain kill head`" : "";
    setWords(this.empty, `Nothing has happened since you look.${hint}`);
    const seen = new Map();
    const items = news.slice(0, this.most).map((each) => {
      // The same may be said twice in one picture, and has to be told apart then.
      const text = `${each.at_ms} ${each.about} ${each.text}`;
      seen.set(text, (seen.get(text) ?? 0) + 1);
      return { ...each, key: `${text} ${seen.get(text)}` };
    });
    items.forEach((item, at) => (item.isTimed = at === 0 || when(items[at - 1]) !== when(item)));
    keyed(this.list, items, (item) => item.key, () => new NewsLine());
  }
}

class NewsLine {
  constructor() {
    this.time = el("time", {});
    this.text = el("span", { class: "news-text" });
    this.node = el("li", { class: "news-line" }, this.time, this.text);
  }

  update(news) {
    setAttr(this.node, "data-mood", news.mood);
    setAttr(this.node, "data-about", news.about);
    setText(this.time, when(news));
    setAttr(this.node, "data-timed", news.isTimed ? "yes" : null);
    setAttr(this.time, "title", moment(news.at_ms));
    setText(this.text, sentence(news.text));
  }
}

export class NewsView {
  constructor() {
    this.list = new NewsList();
    const part = section("News");
    part.body.append(el("div", { class: "card" }, this.list.node));
    this.node = part.node;
  }

  update(model) {
    this.list.update(model);
  }
}
