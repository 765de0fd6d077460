// Elements, made and changed in place. Whatever comes from the system is text: nothing here takes markup.

/** An element. `class`, `title` and others are attributes, `on…` are listeners, children are nodes or text. */
export function el(tag, attributes = {}, ...children) {
  return filled(document.createElement(tag), attributes, children);
}

export function svgEl(tag, attributes = {}, ...children) {
  return filled(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);
}

function filled(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else setAttr(node, name, value);
  }
  node.append(...children.filter((child) => child !== null && child !== undefined));
  return node;
}

/** Changes text only where it differs: what is selected or focused stays so. */
export function setText(node, text) {
  const wanted = String(text);
  if (node.textContent !== wanted) node.textContent = wanted;
}

export function setAttr(node, name, value) {
  if (value === null || value === undefined || value === false) node.removeAttribute(name);
  else {
    const wanted = value === true ? "" : String(value);
    if (node.getAttribute(name) !== wanted) node.setAttribute(name, wanted);
  }
}

export function show(node, isShown) {
  if (node.hidden === isShown) node.hidden = !isShown;
}

/** Makes the children of `parent` those of `items`, in order. Nodes stay with their key, and only those are moved
 * that stand in the wrong place. `make(item)` answers {node, update}. */
export function keyed(parent, items, keyOf, make) {
  const known = (parent.octoloomParts ??= new Map());
  const wanted = new Map();
  for (const item of items) {
    const key = keyOf(item);
    if (wanted.has(key)) continue;
    const part = known.get(key) ?? make(item);
    part.update(item);
    wanted.set(key, part);
  }
  for (const [key, part] of known) {
    if (!wanted.has(key)) {
      part.node.remove();
      part.end?.();
    }
  }
  let place = parent.firstChild;
  for (const part of wanted.values()) {
    if (part.node === place) place = place.nextSibling;
    else parent.insertBefore(part.node, place);
  }
  parent.octoloomParts = wanted;
}

/** A line of text with `code` in it: what is between backquotes stands out as something to type. */
export function withCode(text) {
  return text.split("`").map((part, at) => (at % 2 ? el("code", {}, part) : part));
}

/** What to show instead of nothing. */
export function emptyState(text) {
  return el("p", { class: "empty" }, ...withCode(text));
}

/** Puts a text with code in it into a node, if it is not there already. */
export function setWords(node, text) {
  if (node.octoloomWords === text) return;
  node.octoloomWords = text;
  node.replaceChildren(...withCode(text));
}

/** A heading with what belongs beside it. */
export function section(title, ...beside) {
  const body = el("div", { class: "section-body" });
  const heading = el("div", { class: "section-head" }, el("h2", {}, title), ...beside);
  return { node: el("section", { class: "section", "aria-label": title }, heading, body), body, heading };
}

/** A table whose rows are changed in place; columns are [title, isNumber]. */
export function table(label, columns) {
  const body = el("tbody");
  const head = ([title, isNumber]) => el("th", { scope: "col", class: isNumber ? "number" : null }, title);
  const heads = columns.map(head);
  const node = el(
    "div",
    { class: "table-frame" },
    el("table", { "aria-label": label }, el("thead", {}, el("tr", {}, ...heads)), body),
  );
  return { node, body, heads };
}
