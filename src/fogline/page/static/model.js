// What does the page know, and what do events change? Rows come as lists, in the order that the server states.

export const model = {
  about: null, batch: -1, size: 0,
  members: new Map(), near: new Map(), next: [], points: [], changes: [], scores: [], doubts: [], reasons: [],
  query: 0, group: null, search: "", possible: false, sort: { column: "p", down: true },
  at: null, paused: false, behind: 0, selected: null, views: -1,
};

export const query = () => model.about.queries[model.query];
export const keyOf = (q, group, id, arrived) =>
  JSON.stringify([q, group, id, model.about.queries[q].latest ? null : arrived]);

export function member([q, group, id, arrived, p, within, values, kept = []]) {
  return { key: keyOf(q, group, id, arrived), q, group, id, arrived, p, within, values, kept, inside: true };
}

function nearRow([q, group, id, arrived, inside, certainty, p, within, values, low, high, mean]) {
  return { key: keyOf(q, group, id, arrived), q, group, id, arrived, inside, certainty, p, within, values, low, high, mean };
}

export function takeAnswer(answer) {
  model.members = new Map(answer.members.map((row) => { const made = member(row); return [made.key, made]; }));
  model.size = answer.size;
  if (answer.version !== undefined) model.batch = answer.batch;
}

export function takeNear(rows) {
  model.near = new Map(rows.map((row) => { const made = nearRow(row); return [made.key, made]; }));
}

export function takeNext(rows) {
  model.next = rows.map(([q, group, id, arrived, attribute, changes, low, high, mean, sentence]) =>
    ({ key: keyOf(q, group, id, arrived), q, group, id, arrived, attribute, changes, low, high, mean, sentence }));
}

export function takeChanges(rows) {
  model.changes = [...model.changes, ...rows].slice(-400);
}

export function point(row) {
  return Object.fromEntries(model.about.points.map((name, k) => [name, row[k]]));
}

export function takePoints(rows) {
  for (const row of rows) {
    const made = point(row);
    if (made.batch > (model.points.at(-1)?.batch ?? -1)) model.points.push(made);
  }
  while (model.points.length > 4000) model.points.shift();
}

/** What a batch has changed; false: something is missing, and all is to be asked for again. */
export function takeBatch(event) {
  if (event.after !== model.batch) return false;
  for (const row of event.enter) { const made = member(row); model.members.set(made.key, made); }
  for (const [q, group, id, arrived] of event.leave) model.members.delete(keyOf(q, group, id, arrived));
  model.batch = event.batch;
  model.size = event.size;
  takeChanges(event.changes);
  return true;
}

const sameGroup = (row) => row.q === model.query && (model.group === null || JSON.stringify(row.group) === model.group);

/** Its certainty as the run has found it; where that is not known, a probability of 1 to nine digits is taken for certain. */
export function certaintyOf(row) {
  const near = model.near.get(row.key);
  if (near && near.arrived === row.arrived && Math.abs(near.p - row.p) <= 2e-9) return near.certainty;
  return row.inside ? (row.within === 0 && row.p >= 1 - 1e-9 ? "certain" : "likely") : "";
}

/** The rows that are shown: members with what is known of their ranges, and rows near the answer. */
export function chosen() {
  const rows = [];
  for (const row of model.members.values()) {
    if (!sameGroup(row)) continue;
    const near = model.near.get(row.key);
    const same = near && near.arrived === row.arrived ? near : null;
    row.low = same?.low ?? null; row.high = same?.high ?? null; row.mean = same?.mean ?? null; row.certainty = certaintyOf(row);
    rows.push(row);
  }
  return rows;
}

export function nearby() {
  const rows = [];
  for (const row of model.near.values()) if (!row.inside && sameGroup(row) && !model.members.has(row.key)) rows.push(row);
  return rows;
}

export const cells = () => model.next.filter(sameGroup);
export const latest = () => model.changes.filter((row) => row[1] === model.query && (model.group === null || JSON.stringify(row[3]) === model.group));

export function groups() {
  const found = new Map();
  for (const rows of [model.members.values(), model.near.values()])
    for (const row of rows) if (row.q === model.query) found.set(JSON.stringify(row.group), row.group);
  return [...found.entries()].sort((a, b) => (a[0] < b[0] ? -1 : 1));
}

const collator = new Intl.Collator(undefined, { numeric: true });

/** How good a row is on average, each attribute from its worst to its best here: of equally likely rows, the best is first. */
export function ranked(rows) {
  const { attributes } = query();
  for (const row of rows) row.rank = 0;
  attributes.forEach(([, way], k) => {
    let low = Infinity, high = -Infinity;
    for (const row of rows) { const v = row.values[k] ?? row.mean?.[k] ?? null; if (v !== null) { if (v < low) low = v; if (v > high) high = v; } }
    if (!(high > low)) return;
    for (const row of rows) { const v = row.values[k] ?? row.mean?.[k] ?? null; if (v !== null) row.rank += (way === "max" ? v - low : high - v) / (high - low); }
  });
  return rows;
}

export function sorted(rows) {
  const { column, down } = model.sort, sign = down ? -1 : 1;
  const certainties = { certain: 3, likely: 2, possible: 1 };
  const by = {
    id: (a, b) => collator.compare(a.id, b.id),
    p: (a, b) => a.p - b.p || a.rank - b.rank,
    certainty: (a, b) => (certainties[a.certainty] ?? 0) - (certainties[b.certainty] ?? 0) || a.p - b.p,
    group: (a, b) => collator.compare(a.group.join(" "), b.group.join(" ")),
    arrived: (a, b) => collator.compare(a.arrived, b.arrived),
  }[column];
  if (by) return rows.sort((a, b) => sign * by(a, b) || (a.key < b.key ? -1 : 1));
  const value = (row) => row.values[column] ?? row.mean?.[column] ?? null;
  return rows.sort((a, b) => {
    const x = value(a), y = value(b);
    if (x === null || y === null) return (x === null) - (y === null) || (a.key < b.key ? -1 : 1);
    return sign * (x - y) || (a.key < b.key ? -1 : 1);
  });
}
