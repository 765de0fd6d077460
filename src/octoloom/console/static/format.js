// Numbers, times and names for people. Pure: what goes in decides what comes out.

const counts = new Intl.NumberFormat("en");

/** 12,345; a dash for what nobody knows. */
export function count(number) {
  return number === null || number === undefined ? "–" : counts.format(number);
}

/** "1 link", "3 links". */
export function plural(number, one, many = `${one}s`) {
  return `${count(number)} ${number === 1 ? one : many}`;
}

/** A rate per second: whole from ten on, one decimal below, a dash while nobody knows it. */
export function rate(perSecond) {
  if (perSecond === null || perSecond === undefined) return "–";
  if (perSecond >= 10) return count(Math.round(perSecond));
  const rounded = Math.round(perSecond * 10) / 10;
  return String(rounded);
}

/** How long ago: "now", "4 s", "3 min", "2 h", "5 days". */
export function age(ms) {
  const seconds = Math.max(ms, 0) / 1000;
  if (seconds < 1.5) return "now";
  if (seconds < 90) return `${Math.round(seconds)} s`;
  if (seconds < 5400) return `${Math.round(seconds / 60)} min`;
  if (seconds < 129_600) return `${Math.round(seconds / 3600)} h`;
  return `${Math.round(seconds / 86_400)} days`;
}

/** The time of day, to the second. */
export function clock(ms) {
  const time = new Date(ms);
  return [time.getHours(), time.getMinutes(), time.getSeconds()].map((part) => String(part).padStart(2, "0")).join(":");
}

/** Day and time, for a tooltip. */
export function moment(ms) {
  return ms > 0 ? new Date(ms).toLocaleString() : "no time";
}

export function bytes(number) {
  if (number < 1024) return `${number} bytes`;
  if (number < 1024 * 1024) return `${(number / 1024).toFixed(1)} KiB`;
  return `${(number / 1024 / 1024).toFixed(1)} MiB`;
}

/** A setting's value for people: 604800000 ms is a week. */
export function setting(name, value) {
  const number = Number(value);
  if (number === -1 && /(ms|bytes)$/.test(name)) return name.endsWith("ms") ? "for ever" : "no limit";
  if (name.endsWith(".ms") && number >= 1000) return age(number);
  if (name.endsWith("bytes") && number >= 1024) return bytes(number);
  return value;
}

/** The name in `name#incarnation`. */
export function nameOf(id) {
  const at = id.lastIndexOf("#");
  return at < 0 ? id : id.slice(0, at);
}

/** At most `most` characters, with a sign for what was cut. */
export function shortened(text, most) {
  return text.length <= most ? text : `${text.slice(0, most - 1)}…`;
}

/** When news happened: a time, or between which two if nobody looked for a while. */
export function when(news) {
  const gap = news.at_ms - news.since_ms;
  return gap > 10_000 ? `${clock(news.since_ms)} to ${clock(news.at_ms)}` : clock(news.at_ms);
}

/** A sentence: its first letter large, unless it is a name with a number, such as link2. */
export function sentence(text) {
  return /^[a-z]+\d/.test(text) ? text : text.charAt(0).toUpperCase() + text.slice(1);
}
