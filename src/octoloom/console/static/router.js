// Which view an address means. Names of spaces and topics may hold anything, so they travel encoded.

export const path = (...parts) => `#/${parts.map(encodeURIComponent).join("/")}`;

/** {view, name} of a hash; what nobody knows is the overview. */
export function routeOf(hash) {
  const [view = "", name = ""] = hash.replace(/^#\/?/, "").split("/");
  if (["spaces", "topics", "groups", "news"].includes(view)) return { view, name: "" };
  if (["space", "topic", "group"].includes(view) && name) return { view, name: decoded(name) };
  return { view: "overview", name: "" };
}

function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}
