// How do rows lie to each other, and what has happened? Drawn by hand on canvases; shapes, not colours alone, state what
// a mark is: ● certain, ◆ likely, ○ near the answer, whiskers where a value is missing.

import { model, query } from "./model.js";
import { byId, instant, make, number } from "./words.js";

const colour = {};

export function colours() {
  const style = getComputedStyle(document.documentElement);
  for (const name of ["ink", "quiet", "grid", "certain", "likely", "possible", "enter", "leave", "mark", "panel"])
    colour[name] = style.getPropertyValue(`--${name}`).trim();
}

const MANY = 1000; // lines that can still be followed: of more, the likeliest are drawn

/** A canvas as large as it is shown, in the pixels of the screen. */
function paper(canvas) {
  const scale = window.devicePixelRatio || 1, width = canvas.clientWidth, height = canvas.clientHeight;
  if (canvas.width !== Math.round(width * scale) || canvas.height !== Math.round(height * scale)) {
    canvas.width = Math.round(width * scale);
    canvas.height = Math.round(height * scale);
  }
  const pen = canvas.getContext("2d");
  pen.setTransform(scale, 0, 0, scale, 0, 0);
  pen.clearRect(0, 0, width, height);
  pen.font = "12px system-ui, sans-serif";
  pen.lineJoin = "round";
  return { pen, width, height };
}

/** Round numbers between two. */
function ticks(low, high, most) {
  const step = (high - low) / most, size = 10 ** Math.floor(Math.log10(step));
  const unit = [1, 2, 5, 10].map((k) => k * size).find((each) => each >= step);
  const found = [];
  for (let at = Math.ceil(low / unit) * unit; at <= high + unit * 1e-9; at += unit) found.push(Number(at.toPrecision(12)));
  return found;
}

const lowOf = (row, k) => row.values[k] ?? row.low?.[k] ?? null;
const highOf = (row, k) => row.values[k] ?? row.high?.[k] ?? null;
const middle = (row, k) => row.values[k] ?? row.mean?.[k] ?? null;

function extent(rows, k) {
  let low = Infinity, high = -Infinity;
  for (const row of rows) {
    const a = lowOf(row, k), b = highOf(row, k);
    if (a !== null && a < low) low = a;
    if (b !== null && b > high) high = b;
  }
  if (low > high) return [0, 1];
  const room = (high - low || Math.abs(high) || 1) * 0.06;
  return [low - room, high + room];
}

/** Marks of one kind: drawn once and stamped, since thousands of paths are slow. */
function symbols(pen, kind, marks, size) {
  if (!marks.length) return;
  const scale = window.devicePixelRatio || 1, half = Math.ceil(size * 1.3) + 2, stamp = document.createElement("canvas"), once = stamp.getContext("2d");
  stamp.width = stamp.height = 2 * half * scale;
  once.setTransform(scale, 0, 0, scale, half * scale, half * scale);
  once.beginPath();
  if (kind === "likely") { once.moveTo(0, -size * 1.3); once.lineTo(size * 1.3, 0); once.lineTo(0, size * 1.3); once.lineTo(-size * 1.3, 0); once.closePath(); }
  else once.arc(0, 0, kind === "certain" ? size : size * 0.8, 0, 7);
  if (kind === "possible") { once.strokeStyle = colour.possible; once.lineWidth = 1.4; once.stroke(); } else { once.fillStyle = colour[kind]; once.fill(); }
  for (const [x, y] of marks) pen.drawImage(stamp, x - half, y - half, 2 * half, 2 * half);
}

const kindOf = (row) => (row.certainty === "certain" ? "certain" : row.inside ? "likely" : "possible");
const KINDS = ["possible", "certain", "likely"]; // in the order of drawing

let spots = [];

export function scatter(rows, near) {
  const { pen, width, height } = paper(byId("scatter")), asked = query().attributes;
  const i = Number(byId("across").value), j = Number(byId("up").value), all = [...near, ...rows];
  const [left, right, top, bottom] = [52, 14, 12, 38], [x0, x1] = extent(all, i), [y0, y1] = extent(all, j);
  const x = (v) => left + ((v - x0) / (x1 - x0)) * (width - left - right), y = (v) => height - bottom - ((v - y0) / (y1 - y0)) * (height - top - bottom);
  pen.strokeStyle = colour.grid; pen.fillStyle = colour.quiet; pen.lineWidth = 1;
  pen.textAlign = "center";
  for (const at of ticks(x0, x1, 5)) { line(pen, x(at), top, x(at), height - bottom); pen.fillText(number(at), x(at), height - bottom + 15); }
  pen.textAlign = "right";
  for (const at of ticks(y0, y1, 5)) { line(pen, left, y(at), width - right, y(at)); pen.fillText(number(at), left - 6, y(at) + 4); }
  pen.fillStyle = colour.ink;
  pen.textAlign = "right";
  pen.fillText(`${asked[i][0]} (${asked[i][1]}) ${asked[i][1] === "max" ? "→" : "←"}`, width - right, height - 6);
  pen.save(); pen.translate(12, top); pen.rotate(-Math.PI / 2);
  pen.fillText(`${asked[j][0]} (${asked[j][1]}) ${asked[j][1] === "max" ? "→" : "←"}`, 0, 2); pen.restore();
  spots = [];
  let left_out = 0, here = null;
  const size = all.length > 800 ? 2.6 : 4.2, marks = { possible: [], certain: [], likely: [] };
  const whiskers = { possible: [], certain: [], likely: [] };
  for (const row of all) {
    const a = middle(row, i), b = middle(row, j), kind = kindOf(row);
    if (a === null || b === null) { left_out += 1; continue; }
    if (row.values[i] === null && row.low?.[i] != null) whiskers[kind].push([x(row.low[i]), y(b), x(row.high[i]), y(b)]);
    if (row.values[j] === null && row.low?.[j] != null) whiskers[kind].push([x(a), y(row.low[j]), x(a), y(row.high[j])]);
    marks[kind].push([x(a), y(b)]);
    if (row.key === model.selected) here = [x(a), y(b), kind];
    spots.push([x(a), y(b), row]);
  }
  pen.lineWidth = 1.2;
  for (const kind of KINDS) {
    pen.globalAlpha = kind === "possible" ? 0.45 : 0.75;
    pen.strokeStyle = colour[kind];
    pen.beginPath();
    for (const each of whiskers[kind]) whisker(pen, ...each);
    pen.stroke();
    pen.globalAlpha = kind === "possible" ? 1 : 0.9;
    symbols(pen, kind, marks[kind], size);
  }
  if (here) { symbols(pen, here[2], [here], size * 1.7); pen.strokeStyle = colour.mark; pen.lineWidth = 2; pen.beginPath(); pen.arc(here[0], here[1], size * 2.8, 0, 7); pen.stroke(); }
  pen.globalAlpha = 1;
  byId("scatter-legend").textContent = `● certain   ◆ likely   ○ near, out   ├─┤ where a missing value may lie${left_out ? `   (${left_out} not drawn: gaps whose range is not known)` : ""}`;
}

function line(pen, x0, y0, x1, y1) {
  pen.beginPath(); pen.moveTo(x0, y0); pen.lineTo(x1, y1); pen.stroke();
}

function whisker(pen, x0, y0, x1, y1) {
  const [dx, dy] = y0 === y1 ? [0, 4] : [4, 0];
  pen.moveTo(x0, y0); pen.lineTo(x1, y1);
  for (const [px, py] of [[x0, y0], [x1, y1]]) { pen.moveTo(px - dx, py - dy); pen.lineTo(px + dx, py + dy); }
}

export function lines(rows, near) {
  const { pen, width, height } = paper(byId("lines")), asked = query().attributes, all = [...near, ...rows];
  const [side, top, bottom] = [46, 30, 26], n = asked.length, few = n > 1 ? n - 1 : 1;
  const x = (k) => side + (k / few) * (width - 2 * side), spans = asked.map((_, k) => extent(all, k));
  const y = (k, v) => {
    const part = (v - spans[k][0]) / (spans[k][1] - spans[k][0]), up = asked[k][1] === "max" ? part : 1 - part;
    return height - bottom - up * (height - top - bottom);
  };
  const drawn = (some, shade, alpha, weight) => {
    pen.strokeStyle = shade; pen.globalAlpha = alpha; pen.lineWidth = weight;
    for (const dashed of [false, true]) {
      pen.setLineDash(dashed ? [4, 3] : []);
      pen.beginPath();
      for (const row of some)
        for (let k = 0; k + 1 < n; k += 1) {
          const a = middle(row, k), b = middle(row, k + 1);
          if (a === null || b === null || dashed !== (row.values[k] === null || row.values[k + 1] === null)) continue;
          pen.moveTo(x(k), y(k, a)); pen.lineTo(x(k + 1), y(k + 1, b));
        }
      pen.stroke();
    }
    pen.setLineDash([]);
    pen.beginPath();
    for (const row of some)
      for (let k = 0; k < n; k += 1) if (row.values[k] === null && row.low?.[k] != null) whisker(pen, x(k), y(k, row.low[k]), x(k), y(k, row.high[k]));
    pen.stroke();
  };
  const seen = rows.length > MANY ? [...rows].sort((a, b) => b.p - a.p).slice(0, MANY) : rows, thin = seen.length > 400 ? 0.35 : seen.length > 60 ? 0.5 : 0.75;
  drawn(near.slice(0, 400), colour.possible, 0.3, 1);
  for (const kind of ["certain", "likely"]) drawn(seen.filter((row) => kindOf(row) === kind), colour[kind], thin, 1.3);
  const here = all.find((row) => row.key === model.selected);
  if (here) drawn([here], colour.mark, 1, 3);
  pen.globalAlpha = 1; pen.lineWidth = 1;
  asked.forEach(([name, way], k) => {
    pen.strokeStyle = colour.quiet; line(pen, x(k), top, x(k), height - bottom);
    pen.fillStyle = colour.ink; pen.textAlign = k === 0 ? "left" : k === n - 1 && n > 1 ? "right" : "center";
    const at = k === 0 ? 6 : k === n - 1 && n > 1 ? width - 6 : x(k);
    pen.fillText(clipped(pen, name, width / n - 8), at, 14);
    pen.fillStyle = colour.quiet;
    const [good, bad] = way === "max" ? [spans[k][1], spans[k][0]] : spans[k];
    pen.fillText(number(good), at, 27); pen.fillText(number(bad), at, height - 10);
  });
}

function clipped(pen, text, room) {
  if (pen.measureText(text).width <= room) return text;
  let short = text;
  while (short.length > 1 && pen.measureText(`${short}…`).width > room) short = short.slice(0, -1);
  return `${short}…`;
}

/** Enter up, leave down, the size of the answer as a line, and the moment that is shown. */
export function timeline(points, at) {
  const { pen, width, height } = paper(byId("timeline")), n = points.length, side = 8, half = height / 2;
  if (!n) return;
  const most = Math.max(1, ...points.map((each) => Math.max(each.enter, each.leave))), full = Math.max(1, ...points.map((each) => each.answer));
  const x = (k) => side + (n > 1 ? k / (n - 1) : 0.5) * (width - 2 * side), thick = Math.max(1, Math.min(12, (width - 2 * side) / n - 1));
  pen.strokeStyle = colour.grid; line(pen, side, half, width - side, half);
  points.forEach((each, k) => {
    const up = Math.sqrt(each.enter / most) * (half - 4), down = Math.sqrt(each.leave / most) * (half - 4);
    pen.fillStyle = colour.enter; pen.fillRect(x(k) - thick / 2, half - up, thick, up);
    pen.fillStyle = colour.leave; pen.fillRect(x(k) - thick / 2, half, thick, down);
  });
  pen.strokeStyle = colour.ink; pen.lineWidth = 1.6; pen.globalAlpha = 0.75; pen.beginPath();
  points.forEach((each, k) => pen[k ? "lineTo" : "moveTo"](x(k), height - 4 - (each.answer / full) * (height - 12)));
  pen.stroke(); pen.globalAlpha = 1;
  pen.strokeStyle = colour.mark; pen.lineWidth = 2; line(pen, x(at), 0, x(at), height);
}

export function spark(canvas, values) {
  const { pen, width, height } = paper(canvas), n = values.length, most = Math.max(1e-12, ...values);
  if (n < 2) return;
  pen.strokeStyle = colour.certain; pen.lineWidth = 1.5; pen.beginPath();
  values.forEach((value, k) => pen[k ? "lineTo" : "moveTo"]((k / (n - 1)) * width, height - 2 - (value / most) * (height - 4)));
  pen.stroke();
}

/** Point at a mark to see which row it is; click to see why. */
export function pointing(open) {
  const canvas = byId("scatter"), tip = byId("tip");
  const nearest = (event) => {
    const box = canvas.getBoundingClientRect(), [px, py] = [event.clientX - box.left, event.clientY - box.top];
    let best = null, least = 16 ** 2;
    for (const [x, y, row] of spots) { const apart = (x - px) ** 2 + (y - py) ** 2; if (apart < least) { least = apart; best = row; } }
    return best;
  };
  canvas.addEventListener("mousemove", (event) => {
    const row = nearest(event);
    tip.hidden = !row;
    canvas.classList.toggle("over", Boolean(row));
    if (!row) return;
    tip.textContent = `${row.id}  P ${number(row.p)}  ${instant(row.arrived, model.points.at(-1)?.time)}`;
    tip.style.left = `${Math.min(event.clientX + 12, window.innerWidth - 200)}px`;
    tip.style.top = `${event.clientY + 12}px`;
  });
  canvas.addEventListener("mouseleave", () => { tip.hidden = true; });
  canvas.addEventListener("click", (event) => { const row = nearest(event); if (row) open(row); });
}
