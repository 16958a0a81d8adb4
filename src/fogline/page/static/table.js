// Which rows are in the answer? A table that draws only what is seen, however long it is; rows keep their elements.

import { model, query } from "./model.js";
import { badge, bar, byId, cell, chance, fill, instant, make } from "./words.js";

const HEIGHT = 36, SPARE = 6;
let rows = [], open = () => {}, sort = () => {}, pool = [], columns = [], focus = null;
const above = make("tr", { class: "spacer", "aria-hidden": "true" }), below = make("tr", { class: "spacer", "aria-hidden": "true" });

export function begin(opened, sorting) {
  open = opened;
  sort = sorting;
  byId("rows").append(above, below);
  byId("scroll").addEventListener("scroll", () => draw(), { passive: true });
  byId("rows").addEventListener("click", (event) => { const row = rowOf(event.target); if (row) choose(row); });
  byId("rows").addEventListener("keydown", keys);
  byId("rows").addEventListener("focusin", (event) => { focus = rowOf(event.target)?.key ?? focus; });
  new ResizeObserver(() => draw()).observe(byId("scroll"));
}

const rowOf = (target) => rows[Number(target.closest("tr[data-index]")?.dataset.index ?? -1)];

function choose(row) {
  focus = row.key;
  open(row);
}

function keys(event) {
  const at = Number(event.target.closest("tr[data-index]")?.dataset.index ?? -1);
  if (at < 0) return;
  const to = { ArrowDown: at + 1, ArrowUp: at - 1, PageDown: at + 10, PageUp: at - 10, Home: 0, End: rows.length - 1 }[event.key];
  if (event.key === "Enter" || event.key === " ") { event.preventDefault(); choose(rows[at]); }
  if (to === undefined) return;
  event.preventDefault();
  const next = Math.max(0, Math.min(rows.length - 1, to)), box = byId("scroll"), head = byId("heads").offsetHeight;
  focus = rows[next].key;
  const top = next * HEIGHT, seen = box.clientHeight - head;
  if (top < box.scrollTop) box.scrollTop = top;
  if (top + HEIGHT > box.scrollTop + seen) box.scrollTop = top + HEIGHT - seen;
  draw(true);
}

/** The heads, when the query or what is known of it has changed. */
export function heads() {
  const asked = query();
  columns = [["certainty", "Certainty", "class"], ["id", asked.id, "id"]];
  if (asked.by.length) columns.push(["group", asked.by.join(", "), "group"]);
  columns.push(["p", "Probability", "p"]);
  asked.attributes.forEach(([name, way], k) => columns.push([k, `${name} ${way === "max" ? "↑" : "↓"}`, "value"]));
  columns.push(["arrived", asked.arrived, "arrived"]);
  fill(byId("heads"), columns.map(([column, title, kind]) => {
    const here = model.sort.column === column;
    return make("th", { scope: "col", class: kind, "aria-sort": here ? (model.sort.down ? "descending" : "ascending") : "none" },
      make("button", { type: "button", "data-column": String(column), onclick: () => sort(column) }, title, make("span", { class: "arrow", "aria-hidden": "true" }, here ? (model.sort.down ? " ▼" : " ▲") : "")));
  }));
  byId("table").setAttribute("aria-colcount", columns.length);
}

export function show(chosen) {
  rows = chosen;
  byId("table").setAttribute("aria-rowcount", rows.length + 1);
  draw();
}

export function select(key) {
  focus = key;
  draw();
}

export function refocus() {
  draw(true);
}

function draw(grab = false) {
  const box = byId("scroll"), body = byId("rows");
  const held = grab || body.contains(document.activeElement);
  const first = Math.max(0, Math.min(Math.floor(box.scrollTop / HEIGHT) - SPARE, rows.length - 1));
  const last = Math.min(rows.length, Math.ceil((box.scrollTop + box.clientHeight) / HEIGHT) + SPARE);
  const needed = Math.max(0, last - Math.max(0, first));
  while (pool.length < needed) { const made = make("tr"); pool.push(made); below.before(made); }
  while (pool.length > needed) pool.pop().remove();
  above.style.height = `${Math.max(0, first) * HEIGHT}px`;
  below.style.height = `${Math.max(0, rows.length - last) * HEIGHT}px`;
  const reached = model.points.at(-1)?.time;
  let wanted = null, any = rows.some((row) => row.key === focus);
  pool.forEach((element, k) => {
    const at = first + k, row = rows[at];
    element.dataset.index = at;
    element.setAttribute("aria-rowindex", at + 2);
    element.className = `${row.inside ? "" : "out"} ${row.key === model.selected ? "selected" : ""}`;
    const here = any ? row.key === focus : k === 0;
    element.tabIndex = here ? 0 : -1;
    if (here && any) wanted = element;
    fill(element, columns.map(([column, , kind]) => make("td", { class: kind }, content(row, column, reached))));
  });
  if (held && wanted && document.activeElement !== wanted) wanted.focus({ preventScroll: true });
}

function content(row, column, reached) {
  if (column === "certainty") return badge(row.certainty);
  if (column === "id") return row.id;
  if (column === "group") return row.group.join(", ");
  if (column === "arrived") return instant(row.arrived, reached);
  if (column === "p") return make("span", { class: "odds", title: row.within ? `± ${row.within.toPrecision(2)}` : "exact" }, bar(row.p, row.certainty), chance(row.p, row.certainty));
  return cell(row.values[column], row.low?.[column], row.high?.[column], row.mean?.[column]);
}
