// Ordered groups: their order, their view, who is in them.

import { el, emptyState, keyed, section, setAttr, setText, setWords, show } from "./dom.js";
import { count, plural } from "./format.js";
import { path } from "./router.js";

const MEMBERS_SHOWN = 24;

export class GroupList {
  constructor(most) {
    this.most = most;
    this.empty = emptyState("");
    this.list = el("div", { class: "stack" });
    this.node = el("div", {}, this.empty, this.list);
  }

  update({ picture }) {
    const { groups, register } = picture;
    show(this.empty, groups.length === 0);
    const text = register.told_ms
      ? `No groups yet: \`octoloom group chat room --as ada --register ${register.address}\``
      : "The register does not answer: nobody knows the groups.";
    setWords(this.empty, text);
    keyed(this.list, groups.slice(0, this.most), (group) => group.group, () => new GroupCard());
  }
}

class GroupCard {
  constructor() {
    this.name = el("a", { class: "strong" });
    this.order = el("span", { class: "pill", "data-mood": "accent" });
    this.facts = el("span", { class: "facts" });
    this.members = el("ul", { class: "members" });
    this.node = el(
      "article",
      { class: "card group" },
      el("div", { class: "group-head" }, this.name, this.order, this.facts),
      this.members,
    );
  }

  update(group) {
    setText(this.name, group.group);
    setAttr(this.name, "href", path("group", group.group));
    setText(this.order, group.order);
    const facts = [`epoch ${group.epoch}`, `over ${group.transport}`, plural(group.members.length, "member")];
    if (group.steps) facts.push("has a trace");
    setText(this.facts, facts.join("  ·  "));
    drawMembers(this.members, group.members, MEMBERS_SHOWN);
  }
}

export function drawMembers(list, members, most = Infinity) {
  const items = members.slice(0, most).map((member, at) => ({ ...member, coordinates: at === 0 }));
  const left = members.length - items.length;
  if (left > 0) items.push({ id: "more", name: `and ${count(left)} more`, coordinates: false, pid: 0 });
  keyed(list, items, (item) => item.id, () => new Member());
}

class Member {
  constructor() {
    this.name = el("span", {});
    this.mark = el("span", { class: "coordinator" }, "coordinator");
    this.node = el("li", { class: "member" }, this.name, this.mark);
  }

  update({ name, coordinates, pid, peer }) {
    setText(this.name, name);
    show(this.mark, coordinates);
    setAttr(this.node, "data-coordinates", coordinates ? "yes" : null);
    setAttr(this.node, "title", pid ? `process ${pid}, at ${peer}` : null);
  }
}

export class GroupsView {
  constructor() {
    this.list = new GroupList(Infinity);
    this.left = el("p", { class: "note" });
    const part = section("Groups");
    part.body.append(this.list.node, this.left);
    this.node = part.node;
  }

  update(model) {
    this.list.update(model);
    const leftOut = model.picture.groups_left_out;
    setText(this.left, leftOut ? `${count(leftOut)} more groups are not shown: see octoloom group list` : "");
  }
}
