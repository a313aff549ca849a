"use strict";
const data = JSON.parse(document.getElementById("data").textContent);
const element = (id) => document.getElementById(id);
const canvas = element("chart"), strip = element("overview"), tip = element("tip");
const lanes = data.lanes.map((lane) => ({ ...lane, shown: true, top: 0, step: 0 }));

// ---- text ------------------------------------------------------------------------------------------------------

const two = (n) => String(n).padStart(2, "0");
const SECOND = 1000, MINUTE = 60 * SECOND, HOUR = 60 * MINUTE, DAY = 24 * HOUR;

// Times have the table's own zone; the getters of UTC keep them as they are.
function day(t) {
  const d = new Date(t);
  return `${d.getUTCFullYear()}-${two(d.getUTCMonth() + 1)}-${two(d.getUTCDate())}`;
}
function clock(t, millis) {
  const d = new Date(t);
  const text = `${two(d.getUTCHours())}:${two(d.getUTCMinutes())}:${two(d.getUTCSeconds())}`;
  return millis ? `${text}.${String(d.getUTCMilliseconds()).padStart(3, "0")}` : text;
}
function lasting(ms) {
  if (ms < SECOND) return `${Math.round(ms)} ms`;
  if (ms < MINUTE) return `${(ms / SECOND).toFixed(2)} s`;
  if (ms < HOUR) return `${Math.floor(ms / MINUTE)} min ${two(Math.floor((ms % MINUTE) / SECOND))} s`;
  if (ms < DAY) return `${Math.floor(ms / HOUR)} h ${two(Math.floor((ms % HOUR) / MINUTE))} min`;
  return `${Math.floor(ms / DAY)} d ${Math.floor((ms % DAY) / HOUR)} h`;
}
function bytes(size) {
  for (const unit of ["B", "KiB", "MiB", "GiB"]) {
    if (size < 1024) return unit === "B" ? `${size} B` : `${size.toFixed(1)} ${unit}`;
    size /= 1024;
  }
  return `${size.toFixed(1)} TiB`;
}
const grouped = (n) => n.toLocaleString("en-US");

// ---- the view --------------------------------------------------------------------------------------------------

const AXIS = 34, GAP = 10, PAD = 10, TALLEST = 132, SMALLEST = 4, STRIP = 58;
// Bars are taller when their height shows something.
const SLOTS = { equal: 16, rows: 30, bytes: 30 };
const [first, last] = data.span;
const margin = Math.max((last - first) * 0.03, 50);
const whole = { from: first - margin, to: last + margin };
const outer = {
  from: whole.from - (whole.to - whole.from),
  to: Math.max(whole.to, data.now) + (whole.to - whole.from),
};
let view = { ...whole }, width = 0, height = 0, gutter = 0, colours = {}, patterns = {}, hit = null, pinned = false;
let heights = "equal", biggest = 1;

const x = (t) => gutter + ((t - view.from) / (view.to - view.from)) * (width - gutter);
const time = (px) => view.from + ((px - gutter) / (width - gutter)) * (view.to - view.from);
const endOf = (lane, i) => (lane.end[i] === null ? Math.max(data.now, lane.begin[i]) : lane.end[i]);

function look(from, to) {
  const size = Math.min(Math.max(to - from, 20), outer.to - outer.from);
  const middle = (from + to) / 2;
  const start = Math.min(Math.max(middle - size / 2, outer.from), outer.to - size);
  view = { from: start, to: start + size };
  if (pinned) unpin();
  // What is under the pointer is another action now.
  if (pointer && !touching.size) point(...pointer);
  redraw();
}
function zoom(factor, px) {
  const at = time(px === undefined ? (gutter + width) / 2 : px);
  look(at - (at - view.from) * factor, at + (view.to - at) * factor);
}
const pan = (px) => {
  const shift = (px / (width - gutter)) * (view.to - view.from);
  look(view.from - shift, view.to - shift);
};

function layout() {
  const style = getComputedStyle(document.documentElement);
  for (const name of ["ground", "panel", "ink", "faint", "line", "strong", "band", "now"]) {
    colours[name] = style.getPropertyValue(`--${name}`).trim();
  }
  patterns = {};
  width = canvas.clientWidth;
  gutter = width < 560 ? 0 : 124;
  let y = AXIS;
  for (const lane of lanes) {
    if (!lane.shown) continue;
    lane.label = y;
    if (!gutter) y += 18;
    const slot = SLOTS[heights];
    lane.step = Math.max(Math.min(slot, (TALLEST * slot) / SLOTS.equal / lane.rows), SMALLEST);
    lane.top = y + PAD / 2;
    lane.height = Math.max(lane.rows * lane.step, slot);
    y = lane.top + lane.height + GAP;
  }
  height = Math.max(y, AXIS + 60);
  for (const [target, tall] of [[canvas, height], [strip, STRIP]]) {
    const scale = window.devicePixelRatio || 1;
    target.style.height = `${tall}px`;
    target.width = Math.round(width * scale);
    target.height = Math.round(tall * scale);
    target.getContext("2d").setTransform(scale, 0, 0, scale, 0, 0);
  }
  keys();
  redraw();
}

// ---- drawing ---------------------------------------------------------------------------------------------------

let asked = false;
function redraw() {
  if (asked) return;
  asked = true;
  requestAnimationFrame(() => { asked = false; draw(); drawStrip(); });
}

function hatch(ink, colour) {
  if (!patterns[colour]) {
    const tile = document.createElement("canvas");
    tile.width = tile.height = 8;
    const pen = tile.getContext("2d");
    pen.strokeStyle = colour;
    pen.lineWidth = 2.5;
    pen.beginPath();
    for (const shift of [-8, 0, 8]) { pen.moveTo(shift - 1, 9); pen.lineTo(shift + 9, -1); }
    pen.stroke();
    patterns[colour] = ink.createPattern(tile, "repeat");
  }
  return patterns[colour];
}

const STEPS = [1, 2, 5, 10, 20, 50, 100, 200, 500, SECOND, 2 * SECOND, 5 * SECOND, 10 * SECOND, 15 * SECOND, 30 * SECOND,
  MINUTE, 2 * MINUTE, 5 * MINUTE, 10 * MINUTE, 15 * MINUTE, 30 * MINUTE, HOUR, 2 * HOUR, 3 * HOUR, 6 * HOUR, 12 * HOUR,
  DAY, 2 * DAY, 7 * DAY, 14 * DAY];

function ticks(range) {
  const least = ((range.to - range.from) / (width - gutter)) * 96;
  const step = STEPS.find((one) => one >= least);
  const found = [];
  if (step) {
    for (let t = Math.ceil(range.from / step) * step; t <= range.to; t += step) found.push(t);
    return { found, text: (t) => (step >= DAY ? day(t) : clock(t, step < SECOND).slice(0, step < MINUTE ? 12 : 5)) };
  }
  const months = [1, 2, 3, 6, 12, 24, 60, 120, 240, 600, 1200].find((one) => one * 30 * DAY >= least) || 2400;
  const start = new Date(range.from);
  let month = Math.ceil((start.getUTCFullYear() * 12 + start.getUTCMonth()) / months) * months;
  for (; ; month += months) {
    const t = Date.UTC(Math.floor(month / 12), month % 12);
    if (t > range.to) break;
    if (t >= range.from) found.push(t);
  }
  return { found, text: (t) => day(t).slice(0, months >= 12 ? 4 : 7) };
}

function drawAxis(ink) {
  const { found, text } = ticks(view);
  ink.textBaseline = "middle";
  ink.textAlign = "left";
  let said = null;
  for (const t of found) {
    const at = Math.round(x(t)) + 0.5;
    ink.strokeStyle = colours.line;
    ink.beginPath(); ink.moveTo(at, AXIS - 4); ink.lineTo(at, height); ink.stroke();
    ink.fillStyle = colours.faint;
    const label = text(t);
    if (at + 4 + ink.measureText(label).width > width) continue;
    ink.fillText(label, at + 4, AXIS - 9);
    // The day stands above the first tick that is in it.
    if (label.includes(":") && day(t) !== said) {
      said = day(t);
      ink.fillStyle = colours.ink;
      ink.fillText(said, at + 4, 10);
    }
  }
}

// What the height of a bar stands for; null where it is not known.
function amount(lane, i) {
  const did = lane.stats[i];
  if (!did) return null;
  if (heights === "bytes") return did[5];
  return did[2] === null ? null : did[2] + did[3] + did[4];
}

// Where a bar is in its row: [y, height]. Heights are square roots, so that small writes stay visible beside large ones.
function extent(lane, i) {
  const full = Math.max(lane.step - (lane.step > 8 ? 3 : 1), 2), y = lane.top + lane.row[i] * lane.step;
  if (heights === "equal" || lane.end[i] === null) return [y, full];
  const tall = Math.max(full * Math.sqrt((amount(lane, i) || 0) / biggest), 2);
  return [y + full - tall, tall];
}

function drawBar(ink, lane, i) {
  const [y, tall] = extent(lane, i);
  const open = lane.end[i] === null;
  const left = x(lane.begin[i]), right = x(endOf(lane, i));
  if (right < gutter - 2 || left > width + 2) return;
  const from = Math.max(left, gutter - 4), to = Math.min(right, width + 4);
  const wide = Math.max(to - from, open ? 6 : 2);
  drawBox(ink, lane.colour, lane.state[i], from, y, wide, tall);
}

// Completed: filled. Running (inflight): hatched, with a solid line. Waiting (requested): empty, with a dotted line.
function drawBox(ink, colour, state, from, y, wide, tall) {
  ink.fillStyle = colour;
  if (state === 2) {
    ink.fillRect(from, y, wide, tall);
    return;
  }
  ink.save();
  if (state === 1) {
    ink.fillStyle = hatch(ink, colour);
    ink.globalAlpha = 0.85;
  } else {
    ink.globalAlpha = 0.1;
  }
  ink.fillRect(from, y, wide, tall);
  ink.globalAlpha = 1;
  ink.fillStyle = ink.strokeStyle = colour;
  if (state === 1) ink.fillRect(from, y, Math.min(3, wide), tall);
  else ink.setLineDash([2, 3]);
  ink.lineWidth = 1.5;
  // No line at the right: it has no end.
  ink.beginPath();
  ink.moveTo(from + wide, y + 0.75); ink.lineTo(from + 0.75, y + 0.75);
  ink.lineTo(from + 0.75, y + tall - 0.75); ink.lineTo(from + wide, y + tall - 0.75);
  ink.stroke();
  ink.restore();
}

function drawLane(ink, lane) {
  const drawn = new Float64Array(lane.rows).fill(-1e9);
  for (let i = 0; i < lane.begin.length; i++) {
    // Several within a pixel are one to the eye.
    const right = x(endOf(lane, i));
    if (heights === "equal" && lane.end[i] !== null && right < drawn[lane.row[i]]) continue;
    drawn[lane.row[i]] = Math.max(right, x(lane.begin[i])) + 0.5;
    drawBar(ink, lane, i);
  }
}

function drawNow(ink) {
  const at = x(data.now);
  if (at < gutter || at > width) return;
  ink.save();
  ink.strokeStyle = ink.fillStyle = colours.now;
  ink.setLineDash([4, 4]);
  ink.beginPath(); ink.moveTo(at, 18); ink.lineTo(at, height); ink.stroke();
  ink.textAlign = at > width - 40 ? "right" : "center";
  ink.fillText("now", at, 10);
  ink.restore();
}

function draw() {
  const ink = canvas.getContext("2d");
  ink.font = '12px system-ui, -apple-system, "Segoe UI", Roboto, sans-serif';
  ink.lineWidth = 1;
  ink.fillStyle = colours.ground;
  ink.fillRect(0, 0, width, height);
  const shown = lanes.filter((lane) => lane.shown);
  shown.forEach((lane, n) => {
    if (n % 2) return;
    ink.fillStyle = colours.band;
    ink.fillRect(0, lane.label, width, lane.top + lane.height + GAP / 2 - lane.label);
  });
  ink.save();
  ink.beginPath(); ink.rect(gutter, 0, width - gutter, height); ink.clip();
  drawAxis(ink);
  for (const lane of shown) drawLane(ink, lane);
  drawNow(ink);
  if (hit) {
    const [y, tall] = extent(hit.lane, hit.index);
    const left = x(hit.lane.begin[hit.index]), right = x(endOf(hit.lane, hit.index));
    ink.strokeStyle = colours.ink;
    ink.lineWidth = 2;
    ink.strokeRect(left - 2, y - 2, Math.max(right - left, 2) + 4, tall + 4);
  }
  ink.restore();
  ink.textBaseline = "middle";
  for (const lane of shown) {
    ink.textAlign = gutter ? "right" : "left";
    ink.fillStyle = colours.ink;
    const middle = gutter ? lane.top + lane.height / 2 - 1 : lane.label + 10;
    ink.fillText(lane.action, gutter ? gutter - 12 : 6, middle);
  }
  if (gutter) {
    ink.strokeStyle = colours.strong;
    ink.beginPath(); ink.moveTo(gutter - 0.5, 0); ink.lineTo(gutter - 0.5, height); ink.stroke();
  }
  if (!lanes.length) {
    ink.textAlign = "center";
    ink.fillStyle = colours.faint;
    ink.fillText("no actions", width / 2, height / 2);
  }
}

// ---- the whole, below ------------------------------------------------------------------------------------------

// It begins where the chart does, and has an axis of its own.
const stripX = (t) => gutter + ((t - whole.from) / (whole.to - whole.from)) * (width - gutter);
const stripTime = (px) => whole.from + ((px - gutter) / (width - gutter)) * (whole.to - whole.from);

function drawStrip() {
  const ink = strip.getContext("2d"), tall = STRIP - 18, bin = 3;
  ink.fillStyle = colours.panel;
  ink.fillRect(0, 0, width, STRIP);
  const counts = new Map();
  for (const lane of lanes) {
    if (!lane.shown) continue;
    for (const t of lane.begin) {
      const at = Math.floor(stripX(t) / bin);
      counts.set(at, (counts.get(at) || 0) + 1);
    }
  }
  const most = Math.max(1, ...counts.values());
  ink.fillStyle = colours.faint;
  for (const [at, n] of counts) {
    const high = (Math.log1p(n) / Math.log1p(most)) * (tall - 10);
    ink.fillRect(at * bin, tall - high, bin - 1, high);
  }
  drawStripAxis(ink, tall);
  const left = stripX(view.from), right = stripX(view.to);
  ink.fillStyle = colours.ground;
  ink.globalAlpha = 0.6;
  ink.fillRect(gutter, 0, Math.max(left - gutter, 0), tall);
  ink.fillRect(right, 0, Math.max(width - right, 0), tall);
  ink.globalAlpha = 1;
  ink.strokeStyle = "#3b82f6";
  ink.lineWidth = 2;
  const edge = Math.max(left, gutter + 1);
  ink.strokeRect(edge, 1, Math.max(Math.min(right, width - 1) - edge, 3), tall - 2);
}

function drawStripAxis(ink, tall) {
  ink.font = '12px system-ui, -apple-system, "Segoe UI", Roboto, sans-serif';
  ink.textBaseline = "middle";
  ink.strokeStyle = colours.strong;
  ink.lineWidth = 1;
  ink.beginPath(); ink.moveTo(gutter, tall + 0.5); ink.lineTo(width, tall + 0.5); ink.stroke();
  ink.fillStyle = colours.faint;
  const { found, text } = ticks(whole);
  let free = gutter;
  for (const t of found) {
    const at = Math.round(stripX(t)) + 0.5, label = text(t);
    ink.beginPath(); ink.moveTo(at, tall); ink.lineTo(at, tall + 4); ink.stroke();
    const wide = ink.measureText(label).width;
    if (at + 3 < free || at + 3 + wide > width) continue;
    ink.fillText(label, at + 3, tall + 10);
    free = at + wide + 20;
  }
  if (gutter) {
    ink.textAlign = "right";
    ink.fillText("everything", gutter - 12, tall / 2);
    ink.textAlign = "left";
    ink.beginPath(); ink.moveTo(gutter - 0.5, 0); ink.lineTo(gutter - 0.5, STRIP); ink.stroke();
  }
}
