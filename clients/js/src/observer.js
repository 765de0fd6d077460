// An observer: watches a space without a name. Any link of the chain serves it, so observers scale past devices.

import { Follower, checkName, checkedUrls } from "./follower.js";
import { MemoryStore } from "./store.js";

export class Observer extends Follower {
  static async connect(url, { space, waitMs } = {}) {
    const urls = checkedUrls(url);
    checkName("space", space);
    return new Observer()._open(urls, new MemoryStore(), { space, waitMs });
  }
}
