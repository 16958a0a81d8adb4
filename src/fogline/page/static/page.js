// What is on the screen, and when does it change? One event per batch brings what has changed; everything that is drawn is
// drawn once per frame at most.

import * as charts from "./charts.js";
import { cells, chosen, certaintyOf, groups, latest, model, nearby, query, ranked, sorted, takeAnswer, takeBatch, takeChanges, takeNear, takeNext, takePoints } from "./model.js";
import * as panel from "./panel.js";
import * as table from "./table.js";
import { badge, bar, because, byId, cell, chance, count, fill, instant, make, number, seconds, showIn, zoneName } from "./words.js";

async function ask(path, given = {}) {
  const address = new URL(path, location.origin);
  for (const [name, value] of Object.entries(given)) if (value !== null && value !== undefined) address.searchParams.append(name, value);
  const answer = await fetch(address);
  const found = await answer.json();
  if (!answer.ok) throw new Error(found.error ?? answer.statusText);
  return found;
}

// --- Loading ---------------------------------------------------------------------------------------------------------

let opened = null; // the explanation that is shown: {row, found}

async function load() {
  const about = await ask("/api/about");
  model.about = about.queries ? about : null;
  showIn(about.zone);
  byId("output").textContent = about.output;
  document.title = `${about.output} · Fogline`;
  if (!model.about) return wait(about);
  const [answer, health, changes] = await Promise.all([ask("/api/answer"), ask("/api/health"), ask("/api/changes", { since: -1 })]);
  model.query = Math.min(model.query, about.queries.length - 1);
  model.points = []; model.changes = [];
  takeAnswer(answer); takePoints(health.points); takeChanges(changes.changes);
  Object.assign(model, { scores: health.scores, doubts: health.doubts, reasons: health.reasons, behind: 0 });
  await loadViews();
  choices();
  byId("waiting").hidden = true;
  byId("shown").hidden = false;
  schedule();
}

function wait(about) {
  byId("shown").hidden = true;
  byId("waiting").hidden = false;
  const none = about.trouble === "no run yet" || about.trouble === null;
  byId("waiting-title").textContent = none ? "No run yet" : "Nothing to show";
  byId("waiting-text").textContent = none ? `${about.output} holds no run so far; the page begins by itself when one does. For example:` : about.trouble;
  byId("waiting-command").hidden = !none;
  byId("waiting-command").textContent = `fogline run STREAM --query QUERY --repository REPOSITORY --output ${about.output} --explain --follow`;
  status();
}

async function loadViews() {
  const explains = model.about.explain, at = model.at, group = model.group; // JSON, as it is asked for
  const [near, next] = explains ? await Promise.all([ask("/api/near", { at, group }).catch(none("near")), ask("/api/next", { at, group }).catch(none("next"))]) : [{ near: [] }, { next: [] }];
  if (at !== model.at) return;
  takeNear(near.near); takeNext(next.next);
  model.unkept = near.error ?? null;
}

const none = (kind) => (error) => ({ [kind]: [], error: error.message });

/** What is asked for again at most once a second, however fast batches come. */
let asking = false, again = false, looked = 0;
async function refresh() {
  if (!model.about) return;
  if (asking) { again = true; return; }
  asking = true;
  try {
    if (model.at === null && !model.paused) await loadViews();
    if (opened && model.at === null) await explain(opened.row, true);
    await headline();
    if (performance.now() - looked > 10000) { // points come with events; scores and reasons change slowly
      looked = performance.now();
      const health = await ask("/api/health");
      Object.assign(model, { scores: health.scores, doubts: health.doubts, reasons: health.reasons });
    }
  } catch (error) { console.warn(error.message); }
  schedule();
  setTimeout(() => { asking = false; if (again) { again = false; refresh(); } }, 1000);
}

// --- Events ----------------------------------------------------------------------------------------------------------

let connected = false;

function listen() {
  const source = new EventSource("/api/events");
  source.addEventListener("hello", () => { connected = true; restart(); });
  source.addEventListener("reset", () => restart());
  source.addEventListener("batch", (message) => {
    const began = performance.now(), event = JSON.parse(message.data);
    if (!model.about) return restart();
    takePoints(event.points);
    if (model.paused || model.at !== null) { model.behind += 1; schedule(); return; }
    if (event.batch <= model.batch) return;
    if (!takeBatch(event)) return restart();
    draw();
    measured(began);
    refresh();
  });
  source.addEventListener("error", () => { connected = false; status(); });
}

function measured(began) {
  performance.measure("fogline-update", { start: began, end: performance.now() });
  if (performance.getEntriesByName("fogline-update").length > 1000) performance.clearMeasures("fogline-update");
}

let restarting = false, missed = false; // what comes while all is asked for may be missing from it: then once more
async function restart() {
  if (model.about && (model.paused || model.at !== null)) { model.behind += 1; schedule(); return; }
  if (restarting) { missed = true; return; }
  restarting = true;
  try {
    do { missed = false; await load(); } while (missed);
  } catch (error) { wait({ output: "", trouble: error.message }); }
  restarting = false;
  refresh();
}

// --- Drawing ---------------------------------------------------------------------------------------------------------

let due = false;
function schedule() {
  if (due) return;
  due = true;
  requestAnimationFrame(() => { due = false; draw(); });
}

let first = null; // the first row of the answer, and why it is there

function draw() {
  if (!model.about) return;
  const rows = ranked(chosen()), near = nearby(), shown = model.possible ? [...rows, ...near] : rows;
  const asked = model.search.trim().toLowerCase();
  table.show(sorted(asked ? shown.filter((row) => row.id.toLowerCase().includes(asked)) : shown));
  const own = model.members.size === rows.length ? model.size : rows.length;
  byId("count").textContent = `${own.toLocaleString("en-US")} ${own === 1 ? "row" : "rows"} above α = ${query().alpha}${model.members.size < model.size ? `, the ${model.members.size.toLocaleString("en-US")} likeliest shown` : ""}`;
  charts.scatter(rows, near);
  charts.lines(rows, near);
  const at = position();
  charts.timeline(model.points, at);
  slide(at);
  sure(rows, near);
  top(rows);
  next();
  log();
  health();
  status();
}

function position() {
  if (model.at === null) return model.points.length - 1;
  const found = model.points.findIndex((each) => each.batch >= model.atBatch);
  return found < 0 ? model.points.length - 1 : found;
}

function slide(at) {
  const slider = byId("slider"), here = model.points[at];
  slider.max = Math.max(0, model.points.length - 1);
  slider.value = at;
  slider.setAttribute("aria-valuetext", here ? `batch ${here.batch}, ${instant(here.time)}${zoneName()}` : "no batch");
  byId("moment").textContent = here ? `${instant(here.time, model.points[0]?.time)}${zoneName()} · batch ${here.batch} · ▲ ${here.enter} ▼ ${here.leave}` : "no batch yet";
  byId("live").disabled = model.at === null && !model.paused;
  byId("back").disabled = at <= 0;
  byId("forward").disabled = at >= model.points.length - 1;
}

function status() {
  const state = !connected ? "lost" : model.at !== null ? "past" : model.paused ? "paused" : model.about ? "live" : "waiting";
  const words = { lost: "✕ not connected", past: "◷ in the past", paused: "❚❚ paused", live: "● live", waiting: "… waiting" }[state];
  byId("status").className = `status ${state}`;
  byId("status").textContent = words + (model.behind && state !== "live" ? `, ${model.behind} new` : "");
  byId("pause").textContent = model.paused || model.at !== null ? "Go on" : "Pause";
  byId("pause").setAttribute("aria-pressed", String(model.paused || model.at !== null));
}

function sure(rows, near) {
  const certain = rows.filter((row) => row.certainty === "certain").length, gaps = rows.filter((row) => row.values.includes(null)).length;
  const last = model.points.slice(-20), came = last.reduce((a, b) => a + b.rows, 0), missing = last.reduce((a, b) => a + b.incomplete, 0);
  fill(byId("sure"), make("dl", { class: "facts-list" },
    [["certain", certain, "in under every value that was imputed"], ["likely", rows.length - certain, `above ${query().alpha}`], ["possible", near.length, "near, but out"]]
      .map(([certainty, n, what]) => make("div", {}, make("dt", {}, badge(certainty)), make("dd", {}, make("b", {}, count(n)), make("span", { class: "quiet" }, ` ${what}`)))),
    make("div", {}, make("dt", {}, make("span", { class: "gap" }, "gap")), make("dd", {}, make("b", {}, count(gaps)), make("span", { class: "quiet" }, ` of them rest on missing values; ${came ? Math.round((100 * missing) / came) : 0} % of rows came with a gap`)))));
}

function top(rows) {
  const best = rows.reduce((a, b) => (a === null || b.p > a.p || (b.p === a.p && b.rank > a.rank) ? b : a), null);
  if (!best) { first = null; fill(byId("top"), make("p", { class: "quiet" }, "No row is in the answer.")); return; }
  if (first?.row.key !== best.key) { first = { row: best, why: null }; headline(); }
  first.row = best;
  const values = query().attributes.map(([name], k) => make("span", { class: "chip" }, make("span", { class: "quiet" }, `${name} `), cell(best.values[k], best.low?.[k], best.high?.[k], best.mean?.[k])));
  fill(byId("top"),
    make("p", { class: "big" }, make("button", { type: "button", class: "link", onclick: () => open(best) }, best.id), make("span", { class: "quiet" }, best.group.join(", ")),
      make("span", { class: "odds" }, bar(best.p, best.certainty), chance(best.p, best.certainty)), badge(best.certainty)),
    make("p", { class: "chips" }, values),
    make("p", { class: "sentence" }, first.why?.sentence ?? (model.about.explain ? "" : "Run with --explain to see why.")));
}

/** Why the first row is there. */
let named = null;
async function headline() {
  if (!first || !model.about?.explain) return;
  const row = first.row, name = `${row.key} ${row.p} ${model.at}`;
  if (named === name) return;
  named = name;
  const found = await ask("/api/explain", { query: row.q, group: JSON.stringify(row.group), id: row.id, arrived: row.arrived, at: model.at }).catch(() => null);
  if (first?.row.key === row.key) { first.why = found?.why ?? null; schedule(); }
}

function next() {
  const rows = cells(), most = Math.max(...rows.map((row) => row.changes), 1e-9);
  if (!model.about.explain) {
    fill(byId("next"), panel.needs("This list"));
    fill(byId("check"), panel.needs("What to check"));
    return;
  }
  if (!rows.length) {
    const text = model.unkept ?? "Nothing is missing that would change the answer.";
    fill(byId("next"), make("p", { class: "quiet" }, text));
    fill(byId("check"), make("p", { class: "quiet" }, text));
    return;
  }
  fill(byId("next"), make("ol", { class: "list" }, rows.slice(0, 12).map((row) => make("li", {},
    make("button", { type: "button", onclick: () => open(row) },
      make("span", { class: "name" }, make("b", {}, row.id), ` ${row.attribute}`, row.group.length ? make("span", { class: "quiet" }, ` ${row.group.join(", ")}`) : null),
      make("span", { class: "odds", title: "rows expected to enter or leave, if it were known" }, bar(row.changes / most), number(row.changes)),
      make("span", { class: "quiet range" }, `${number(row.low)} … ${number(row.high)}`))))));
  const best = rows[0];
  fill(byId("check"),
    make("p", { class: "big" }, make("button", { type: "button", class: "link", onclick: () => open(best) }, best.id), make("b", {}, best.attribute), make("span", { class: "gap" }, make("b", {}, "gap "), `${number(best.low)} … ${number(best.high)}`)),
    make("p", { class: "sentence" }, best.sentence));
}

const SIGNS = { enter: "▲", leave: "▼", update: "·" };

function log() {
  const reached = model.points.at(-1)?.time, rows = latest().slice(-60).reverse();
  fill(byId("log"), rows.length ? make("ul", { class: "list" }, rows.map(([, q, time, group, id, arrived, change, p, reason, by]) => make("li", {},
    make("button", { type: "button", class: change, onclick: () => open({ q, group, id, arrived, p, inside: change !== "leave" }) },
      make("span", { class: "when" }, instant(time, reached)), make("span", { class: "what" }, `${SIGNS[change]} ${change}`), make("b", {}, id),
      make("span", { class: "quiet" }, change === "leave" ? because(reason, by) : `P ${chance(p)}`))))) : make("p", { class: "quiet" }, "No change yet."));
}

const tiles = [
  ["rows a second", (p) => (p.seconds ? p.rows / p.seconds : 0), count],
  ["rows with a gap", (p) => (p.rows ? p.incomplete / p.rows : 0), (v) => `${Math.round(v * 100)} %`],
  ["a batch takes", (p) => p.seconds / p.batches, seconds],
  ["live set", (p) => p.live, count],
  ["late rows", (p) => p.late, count],
  ["rejected rows", (p) => p.rejected, count],
  ["waiting or held", (p) => p.waiting + p.held, count],
];
const canvases = tiles.map(() => make("canvas", { class: "spark", "aria-hidden": "true" }));
const figures = tiles.map(() => make("b"));

function health() {
  const last = model.points.slice(-120), at = model.points[position()];
  if (!byId("tiles").children.length) fill(byId("tiles"), tiles.map(([title], k) => make("div", { class: "tile" }, figures[k], make("span", { class: "quiet" }, title), canvases[k])));
  tiles.forEach(([, value, words], k) => {
    figures[k].textContent = at ? words(value(at)) : "–";
    charts.spark(canvases[k], last.map(value));
  });
  const heads = ["attribute", "imputer or rule", "cells scored", "error", "without it", "in its central 80 %"];
  const key = JSON.stringify([model.scores, model.reasons, model.doubts]);
  if (byId("scores").dataset.key === key) return;
  byId("scores").dataset.key = key;
  fill(byId("scores"),
    model.scores.length ? make("div", { class: "wide" }, make("table", {}, make("thead", {}, make("tr", {}, heads.map((head) => make("th", { scope: "col" }, head)))), make("tbody", {}, model.scores.map(([attribute, rule, n, error, otherwise, central, worse]) =>
      make("tr", {}, [attribute, rule, count(n), number(error), `${number(otherwise)}${worse ? " ▲ better" : ""}`, central === null ? "–" : `${Math.round(central * 100)} %`].map((each) => make("td", {}, each))))))) : null,
    model.doubts.map((text) => make("p", { class: "trouble" }, text)),
    model.reasons.length ? make("p", {}, make("b", {}, "Rejected: "), model.reasons.map(([reason, n]) => `${count(n)} × ${reason}`).join("; ")) : null);
}

// --- What a person does ------------------------------------------------------------------------------------------------

let returning = null;

async function open(row) {
  returning = document.activeElement;
  const known = model.members.get(row.key) ?? model.near.get(row.key), near = model.near.get(row.key);
  const full = { ...row, ...(known ?? {}), low: near?.low, high: near?.high, mean: near?.mean };
  full.certainty = row.certainty ?? certaintyOf(full);
  model.selected = full.key ?? null;
  byId("why").hidden = false;
  await explain(full, false);
  byId("why").focus();
  schedule();
}

async function explain(row, quietly) {
  const asked = `${row.q} ${row.id} ${row.arrived}`;
  if (!quietly) { opened = { row, asked }; panel.show(row, null); }
  const found = await ask("/api/explain", { query: row.q, group: JSON.stringify(row.group), id: row.id, arrived: row.arrived, at: model.at }).catch((error) => ({ error: error.message }));
  if (opened?.asked === asked && !byId("why").hidden) {
    const now = found.why ? { ...row, p: found.why.probability ?? row.p, certainty: found.why.certainty || row.certainty } : row;
    panel.show(now, found);
  }
}

function close() {
  byId("why").hidden = true;
  opened = null;
  model.selected = null;
  schedule();
  if (returning?.closest?.("#rows")) table.refocus();
  else returning?.focus?.();
}

function sort(column) {
  const same = model.sort.column === column;
  model.sort = { column, down: same ? !model.sort.down : !["id", "group", "arrived"].includes(column) };
  table.heads();
  document.querySelector(`#heads [data-column="${column}"]`)?.focus();
  schedule();
}

function choices() {
  const several = model.about.queries.length > 1, selected = byId("query");
  byId("query-label").hidden = !several;
  byId("asked").textContent = `${query().attributes.map(([name, way]) => `${name} ${way === "max" ? "↑" : "↓"}`).join("  ")}  ·  α ${query().alpha}`;
  fill(selected, model.about.queries.map((each, k) => make("option", { value: k, selected: k === model.query }, each.name ?? "")));
  const found = groups(), select = byId("group");
  byId("group-label").hidden = !query().by.length;
  byId("group-label").firstChild.textContent = `${query().by.join(", ")} `;
  fill(select, make("option", { value: "" }, "all"), found.map(([key, group]) => make("option", { value: key, selected: key === model.group }, group.join(", "))));
  ["across", "up"].forEach((id, which) => {
    const before = byId(id).options.length === query().attributes.length ? Number(byId(id).value) : Math.min(which, query().attributes.length - 1);
    fill(byId(id), query().attributes.map(([name], k) => make("option", { value: k, selected: k === before }, name)));
  });
  if (typeof model.sort.column === "number" && model.sort.column >= query().attributes.length) model.sort = { column: "p", down: true };
  table.heads();
}

async function scrub(at) {
  const here = model.points[at];
  if (!here) return;
  if (at === model.points.length - 1 && !model.paused) return live();
  model.at = here.time; model.atBatch = here.batch; named = null;
  byId("moment").textContent = "…";
  try {
    const asked = model.at, answer = await ask("/api/answer", { at: asked });
    if (model.at !== asked) return;
    takeAnswer(answer);
    await loadViews();
    if (opened) await explain(opened.row, true);
  } catch (error) { byId("moment").textContent = error.message; return; }
  headline();
  schedule();
}

async function live() {
  model.at = null; model.paused = false; named = null;
  await load();
  refresh();
}

let waiting = null;
byId("slider").addEventListener("input", (event) => {
  const at = Number(event.target.value);
  clearTimeout(waiting);
  charts.timeline(model.points, at);
  waiting = setTimeout(() => scrub(at), 60);
});
byId("back").addEventListener("click", () => scrub(Math.max(0, position() - 1)));
byId("forward").addEventListener("click", () => scrub(Math.min(model.points.length - 1, position() + 1)));
byId("live").addEventListener("click", live);
byId("pause").addEventListener("click", () => {
  if (model.paused || model.at !== null) return live();
  model.paused = true;
  schedule();
});
byId("possible").addEventListener("change", (event) => { model.possible = event.target.checked; schedule(); });
byId("search").addEventListener("input", (event) => { model.search = event.target.value; schedule(); });
byId("query").addEventListener("change", (event) => { model.query = Number(event.target.value); model.group = null; first = null; choices(); schedule(); loadViews().then(schedule); });
byId("group").addEventListener("change", (event) => { model.group = event.target.value || null; first = null; schedule(); loadViews().then(schedule); });
byId("group").addEventListener("focus", choices, { once: false });
for (const id of ["across", "up"]) byId(id).addEventListener("change", schedule);
byId("why-close").addEventListener("click", close);
document.addEventListener("keydown", (event) => { if (event.key === "Escape" && !byId("why").hidden) close(); });

const dark = matchMedia("(prefers-color-scheme: dark)");
function theme(chosen) {
  const now = chosen ?? (dark.matches ? "dark" : "light");
  document.documentElement.dataset.theme = now;
  byId("theme").textContent = now === "dark" ? "Light" : "Dark";
  charts.colours();
  schedule();
}
byId("theme").addEventListener("click", () => {
  const now = document.documentElement.dataset.theme === "dark" ? "light" : "dark";
  localStorage.setItem("fogline-theme", now);
  theme(now);
});
dark.addEventListener("change", () => theme(localStorage.getItem("fogline-theme")));
window.addEventListener("resize", schedule);

table.begin(open, sort);
charts.pointing(open);
theme(localStorage.getItem("fogline-theme"));
listen();
