// Why is a row in the answer, or out of it? As the run has written it down; all of it as text.

import { model, query } from "./model.js";
import { badge, bar, because, byId, cell, chance, fill, instant, make, number } from "./words.js";

export const COMMAND = "fogline run STREAM --query QUERY --repository REPOSITORY --output OUT --explain";

export function needs(what) {
  return make("div", { class: "needs" }, make("p", {}, `${what} needs a run that explains its rows:`), make("pre", {}, COMMAND));
}

const whose = (cell) => (cell.own ? "its own" : String(cell.id));
const SIDES = { ">=": "or more", "<=": "or less", ">": "more than", "<": "less than" };

function section(title, ...content) {
  return make("section", {}, make("h3", {}, title), ...content);
}

function table(heads, rows) {
  return make("div", { class: "wide" }, make("table", {}, make("thead", {}, make("tr", {}, heads.map((head) => make("th", { scope: "col" }, head)))),
    make("tbody", {}, rows.map((row) => make("tr", {}, row.map((each) => make("td", {}, each)))))));
}

/** What is known of a row before, and after, its explanation has come. */
export function show(row, found) {
  const asked = query(), reached = model.points.at(-1)?.time;
  fill(byId("why-title"), row.id);
  const known = asked.attributes.map(([name], k) => [name, cell(row.values?.[k], row.low?.[k], row.high?.[k], row.mean?.[k])]);
  const why = found?.why;
  fill(byId("why-body"),
    make("p", { class: "facts" }, badge(row.inside === null ? "" : row.certainty), make("span", { class: "odds" }, bar(row.p, row.certainty), chance(row.p, row.certainty)),
      make("span", { class: "quiet" }, [row.group.join(", "), `arrived ${instant(row.arrived, reached)}`].filter(Boolean).join(" · "))),
    found === null ? make("p", { class: "quiet" }, "asking …") : null,
    found?.error ? make("p", { class: "trouble" }, found.error) : null,
    why ? make("p", { class: "sentence" }, why.sentence) : null,
    why ? details(why) : null,
    found && !found.explain && !found.error ? needs("Why it is there") : null,
    found?.explain && !why ? make("p", {}, `The run has written down nothing of it: it is out, and not among the rows near the answer. To look at every row: fogline explain --replay STREAM --query QUERY --id '${row.id}'`) : null,
    row.values ? section("Values", table(["attribute", "value"], known)) : null,
    row.kept?.length ? section("Other columns", table(["column", "value"], asked.kept.map((name, k) => [name, row.kept[k] ?? "–"]))) : null,
    lately(row, reached),
  );
}

function details(why) {
  const parts = [];
  if (why.decisive) parts.push(make("p", { class: "decisive" }, make("b", {}, "Measure "), `${why.decisive.attribute} of ${why.decisive.own ? "this row" : why.decisive.id}: `,
    `knowing it would move the probability by ${number(why.decisive.moves)} on average.`));
  if (why.flips?.length) parts.push(section("What would flip it", table(["value of", "attribute", "if it were", "then"], why.flips.map((flip) => [
    make("span", {}, whose(flip), flip.missing ? [" ", make("span", { class: "gap" }, "gap")] : null), flip.attribute,
    [">", "<"].includes(flip.side) ? `${SIDES[flip.side]} ${number(flip.value)}` : `${number(flip.value)} ${SIDES[flip.side] ?? flip.side}`, `${flip.to ? "in" : "out"}, P ${chance(flip.probability)}`]))));
  if (why.beaten_by?.length) parts.push(section("Beaten by", table(["row", "arrived", "chance to beat it"], why.beaten_by.map((other) => [
    String(other.id), instant(other.arrived, why.arrived), make("span", { class: "odds" }, bar(other.probability), chance(other.probability))]))));
  const outside = new Map((why.outside ?? []).map((each) => [each.attribute, `${number(each.value)} was outside ${each.low}…${each.high}`]));
  if (why.imputed?.length) parts.push(section("Missing values", table(["attribute", "range", "mean", "imputed by"], why.imputed.map((each) => [
    make("span", {}, make("span", { class: "gap" }, each.attribute), outside.has(each.attribute) ? make("span", { class: "quiet" }, ` ${outside.get(each.attribute)}`) : null), each.low === each.high ? number(each.low) : `${number(each.low)} … ${number(each.high)}`, number(each.mean),
    [each.imputer, each.rule && each.rule !== each.imputer ? each.rule : null, each.rows ? `${each.rows} rows of history` : null].filter(Boolean).join(", ")]))));
  return make("div", {}, parts);
}

function lately(row, reached) {
  const own = model.changes.filter((each) => each[1] === row.q && each[4] === row.id).slice(-6).reverse();
  return own.length ? section("Lately", table(["when", "what", "why"], own.map(([, , time, , , , change, p, reason, by]) => [
    instant(time, reached), change === "leave" ? "▼ left" : `${change === "enter" ? "▲ entered" : "· updated"}, P ${chance(p)}`, because(reason, by)]))) : null;
}
