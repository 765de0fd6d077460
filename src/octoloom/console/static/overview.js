// Everything on one page: chains, processes, the busiest spaces, topics, groups, and the last news beside them.

import { Chains } from "./chains.js";
import { el, section } from "./dom.js";
import { GroupList } from "./groups.js";
import { NewsList } from "./news.js";
import { Processes } from "./processes.js";
import { path } from "./router.js";
import { SpaceTable } from "./spaces.js";
import { TopicTable } from "./topics.js";

const SPACES_SHOWN = 6;
const TOPICS_SHOWN = 6;
const GROUPS_SHOWN = 4;
const NEWS_SHOWN = 24;

export class OverviewView {
  constructor() {
    this.parts = [];
    const chains = this.#section("Chains", new Chains());
    const processes = this.#section("Register and brokers", new Processes());
    const spaces = this.#section("Spaces", new SpaceTable(SPACES_SHOWN), path("spaces"));
    const topics = this.#section("Topics", new TopicTable(TOPICS_SHOWN), path("topics"));
    const groups = this.#section("Groups", new GroupList(GROUPS_SHOWN), path("groups"));
    const news = this.#section("News", new NewsList(NEWS_SHOWN), path("news"));
    news.body.classList.add("card");
    this.node = el(
      "div",
      { class: "overview" },
      el("div", { class: "column" }, chains.node, processes.node, spaces.node, topics.node, groups.node),
      el("aside", { class: "aside" }, news.node),
    );
  }

  #section(title, part, href) {
    const link = href ? [el("a", { href, class: "see-all", "aria-label": `All of ${title}` }, "See all")] : [];
    const made = section(title, ...link);
    made.body.append(part.node);
    this.parts.push(part);
    return made;
  }

  update(model) {
    for (const part of this.parts) part.update(model);
  }
}
