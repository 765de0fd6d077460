// Pictures and news as they come from the server, and how it is with the connection.

const AGAIN_MS = 3_000;

/** Calls `onPicture`, `onNews`, and `onLost(why)` when the console does not answer or will not. It goes on trying. */
export function follow({ onPicture, onNews, onLost }) {
  const source = new EventSource("/api/pictures");
  source.addEventListener("picture", (event) => onPicture(JSON.parse(event.data)));
  source.addEventListener("news", (event) => onNews(JSON.parse(event.data)));
  source.addEventListener("error", async () => {
    if (source.readyState !== EventSource.CLOSED) {
      onLost("");
      return;
    }
    // It was refused, and the browser does not say why.
    source.close();
    onLost(await reason("/api/pictures"));
    setTimeout(() => follow({ onPicture, onNews, onLost }), AGAIN_MS);
  });
}

async function reason(path) {
  const aborter = new AbortController();
  try {
    const response = await fetch(path, { signal: aborter.signal });
    return response.ok ? "" : (await response.json()).detail;
  } catch {
    return "";
  } finally {
    aborter.abort();
  }
}

/** Asks for JSON; throws an Error with the server's own words. */
export async function ask(path) {
  let response;
  try {
    response = await fetch(path);
  } catch {
    throw new Error("the console does not answer");
  }
  const told = await response.json().catch(() => ({}));
  if (!response.ok) throw new Error(told.detail ?? `the console answered ${response.status}`);
  return told;
}
