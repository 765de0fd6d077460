// The page: follows the server, keeps what it said last, and gives it to the view that is shown.

import { el } from "./dom.js";
import { GroupView } from "./group.js";
import { GroupsView } from "./groups.js";
import { Header } from "./header.js";
import { NewsView } from "./news.js";
import { OverviewView } from "./overview.js";
import { Rates } from "./rates.js";
import { routeOf } from "./router.js";
import { SpaceView } from "./space.js";
import { SpacesView } from "./spaces.js";
import { follow } from "./stream.js";
import { TopicView } from "./topic.js";
import { TopicsView } from "./topics.js";

const VIEWS = {
  overview: OverviewView,
  spaces: SpacesView,
  space: SpaceView,
  topics: TopicsView,
  topic: TopicView,
  groups: GroupsView,
  group: GroupView,
  news: NewsView,
};

/** What every view is given. `heardAt` is when the last picture came, by this browser's clock. */
const model = { picture: null, news: [], rates: new Rates(), heardAt: 0, lost: false, lostWhy: "" };

const main = document.getElementById("main");
const header = new Header(document.getElementById("header"));
const waiting = el("p", { class: "empty", role: "status" }, "Waiting for the first picture…");
main.replaceChildren(waiting);

let view = null;
let route = { view: "", name: "" };

function go() {
  const next = routeOf(location.hash);
  if (next.view === route.view && next.name === route.name) return;
  const isFirst = route.view === "";
  route = next;
  view?.end?.();
  view = new VIEWS[route.view](route.name);
  main.replaceChildren(model.picture ? view.node : waiting);
  if (!isFirst) {
    window.scrollTo(0, 0);
    main.focus({ preventScroll: true });
  }
  draw();
}

function draw() {
  header.update(model, route);
  document.body.classList.toggle("stale", model.lost);
  if (model.picture && view) {
    if (!view.node.isConnected) main.replaceChildren(view.node);
    view.update(model);
  } else if (model.lost) {
    waiting.textContent = model.lostWhy || "The console does not answer. It is tried again.";
  }
}

follow({
  onPicture(picture) {
    Object.assign(model, { picture, heardAt: Date.now(), lost: false, lostWhy: "" });
    model.rates.push(picture);
    draw();
  },
  onNews(news) {
    model.news = news;
    draw();
  },
  onLost(why) {
    Object.assign(model, { lost: true, lostWhy: why });
    draw();
  },
});
window.addEventListener("hashchange", go);
setInterval(() => header.update(model, route), 1_000);
go();
