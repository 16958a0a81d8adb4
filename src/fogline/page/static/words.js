// How are numbers, instants and elements written? Data becomes text only: nothing here makes markup of it.

/** An element with attributes and children; strings become text. */
export function make(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name === "class") made.className = value;
    else if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else made.setAttribute(name, value === true ? "" : value);
  }
  for (const child of children.flat(2)) if (child !== null && child !== undefined) made.append(child);
  return made;
}

export const byId = (id) => document.getElementById(id);

export function fill(element, ...children) {
  element.replaceChildren(...children.flat().filter((each) => each !== null && each !== undefined));
}

/** A number in four digits. */
export function number(value) {
  if (value === null || value === undefined) return "–";
  const size = Math.abs(value);
  if (size >= 10000) return Math.round(value).toLocaleString("en-US");
  return String(Number(value.toPrecision(4)));
}

/** A probability: never rounded to a certainty that it is not. */
export function chance(value, certainty = "") {
  if (value === null || value === undefined) return "–";
  if (certainty === "certain") return "1.00";
  if (value > 0.995 && value < 1) return ">0.99";
  if (value < 0.005 && value > 0) return "<0.01";
  return value.toFixed(2);
}

/** Seconds, or parts of one. */
export function seconds(value) {
  return value < 1 ? `${number(Math.round(value * 1000))} ms` : `${number(Number(value.toPrecision(3)))} s`;
}

export function count(value) {
  if (value >= 1e6) return `${(value / 1e6).toFixed(1)} M`;
  if (value >= 1e4) return `${Math.round(value / 1e3)} k`;
  return Math.round(value).toLocaleString("en-US");
}

let zone = null; // in which instants are shown, which come in UTC; null or empty: as they come

/** Instants are shown in this zone, a name or an offset from UTC, from now on. */
export function showIn(given) {
  zone = given;
}

/** The zone that stands behind a time of day. */
export const zoneName = () => (zone ? ` ${zone}` : "");

/** An instant as clocks of the zone show it. */
function local(text) {
  const read = zone ? /^(\d{4}-\d\d-\d\d)[T ](\d\d:\d\d:\d\d)(\.\d+)?(?:Z|\+00:00)?$/.exec(text) : null;
  if (!read) return text;
  const when = new Date(`${read[1]}T${read[2]}Z`), by = /^([+-])(\d\d):(\d\d)$/.exec(zone);
  if (by) when.setTime(when.getTime() + (by[1] === "-" ? -1 : 1) * (60 * Number(by[2]) + Number(by[3])) * 60000);
  const shown = by ? when.toISOString().slice(0, 19).replace("T", " ") : when.toLocaleString("sv-SE", { timeZone: zone });
  return `${shown}${read[3] ?? ""}`;
}

/** An instant without the day, where that is the day of the other. */
export function instant(text, other) {
  if (text === null || text === undefined) return "–";
  const shown = local(text), day = shown.slice(0, 11);
  return shown.length > 11 && other && local(other).startsWith(day) ? shown.slice(11) : shown;
}

export const CERTAINTIES = {
  certain: { sign: "●", word: "certain", title: "in the skyline under every value that was imputed" },
  likely: { sign: "◆", word: "likely", title: "in with a probability above alpha" },
  possible: { sign: "○", word: "possible", title: "in under some values only" },
};

/** Why a row left, in a few words; with `replaced`, `by` beats the row that took its place. */
export const because = (reason, by) => (reason === "replaced" && by ? `replaced, and ${by} beats its new row` : [reason, by].filter(Boolean).join(" by "));

export function badge(certainty) {
  const known = CERTAINTIES[certainty];
  return known ? make("span", { class: `front ${certainty}`, title: known.title }, `${known.sign} ${known.word}`) : make("span", { class: "front" }, "○ out");
}

/** A bar from 0 to 1, in the colour of a certainty. */
export function bar(value, certainty = "") {
  const inner = make("span", { class: `fill ${certainty ?? ""}` });
  inner.style.width = `${Math.max(0, Math.min(1, value ?? 0)) * 100}%`;
  return make("span", { class: "meter" }, inner);
}

/** A value, or what is missing and where it may lie. */
export function cell(value, low, high, mean) {
  if (value !== null && value !== undefined) return number(value);
  if (low === null || low === undefined) return make("span", { class: "gap" }, "gap");
  const range = low === high ? number(low) : `${number(low)} … ${number(high)}`;
  return make("span", { class: "gap", title: `missing; between ${number(low)} and ${number(high)}, ${number(mean)} on average` }, make("b", {}, "gap "), range);
}
