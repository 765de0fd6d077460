// The register and the brokers: small cards, each with its state.

import { el, keyed, setAttr, setText } from "./dom.js";
import { age, plural } from "./format.js";

export class Processes {
  constructor() {
    this.node = el("ul", { class: "processes-list" });
  }

  update({ picture }) {
    const { register, brokers } = picture;
    const told = register.told_ms ? `it answered ${age(picture.at_ms - register.told_ms)} ago` : "it never answered";
    const fact = register.state === "up" ? "decides who serves" : told;
    const items = [{ ...register, name: "register", role: "register", fact }];
    for (const broker of brokers) {
      const leads = `leads ${broker.leads} of ${plural(broker.replicas, "partition")}`;
      items.push({ ...broker, role: "broker", fact: leads });
    }
    keyed(this.node, items, (item) => item.name, () => new ProcessCard());
  }
}

class ProcessCard {
  constructor() {
    this.name = el("span", { class: "process-name" });
    this.state = el("span", { class: "state" });
    this.fact = el("span", { class: "process-fact" });
    this.more = el("span", { class: "process-more" });
    this.node = el("li", { class: "process" }, this.name, this.state, this.fact, this.more);
  }

  update({ name, role, state, fact, pid, restarts, address }) {
    setAttr(this.node, "data-state", state);
    setAttr(this.node, "data-role", role);
    setText(this.name, name);
    setText(this.state, state);
    setAttr(this.state, "title", state === "silent" ? "it runs, but does not answer" : null);
    setText(this.fact, fact);
    const parts = [address, pid ? `pid ${pid}` : "", restarts ? plural(restarts, "restart") : ""];
    setText(this.more, parts.filter(Boolean).join("  ·  "));
  }
}
