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

const AXIS = 34, GAP = 10, PAD = 10, SLOT = 16, TALLEST = 132, SMALLEST = 4;
const [first, last] = data.span;
const margin = Math.max((last - first) * 0.03, 50);
const whole = { from: first - margin, to: last + margin };
const outer = {
  from: whole.from - (whole.to - whole.from),
  to: Math.max(whole.to, data.now) + (whole.to - whole.from),
};
let view = { ...whole }, width = 0, height = 0, gutter = 0, colours = {}, patterns = {}, hit = null, pinned = false;

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
    lane.step = Math.max(Math.min(SLOT, TALLEST / lane.rows), SMALLEST);
    lane.top = y + PAD / 2;
    lane.height = Math.max(lane.rows * lane.step, SLOT);
    y = lane.top + lane.height + GAP;
  }
  height = Math.max(y, AXIS + 60);
  for (const [target, tall] of [[canvas, height], [strip, 44]]) {
    const scale = window.devicePixelRatio || 1;
    target.style.height = `${tall}px`;
    target.width = Math.round(width * scale);
    target.height = Math.round(tall * scale);
    target.getContext("2d").setTransform(scale, 0, 0, scale, 0, 0);
  }
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

function ticks() {
  const least = ((view.to - view.from) / (width - gutter)) * 96;
  const step = STEPS.find((one) => one >= least);
  const found = [];
  if (step) {
    for (let t = Math.ceil(view.from / step) * step; t <= view.to; t += step) found.push(t);
    return { found, text: (t) => (step >= DAY ? day(t) : clock(t, step < SECOND).slice(0, step < MINUTE ? 12 : 5)) };
  }
  const months = [1, 2, 3, 6, 12, 24, 60, 120, 240, 600, 1200].find((one) => one * 30 * DAY >= least) || 2400;
  const start = new Date(view.from);
  let month = Math.ceil((start.getUTCFullYear() * 12 + start.getUTCMonth()) / months) * months;
  for (; ; month += months) {
    const t = Date.UTC(Math.floor(month / 12), month % 12);
    if (t > view.to) break;
    if (t >= view.from) found.push(t);
  }
  return { found, text: (t) => day(t).slice(0, months >= 12 ? 4 : 7) };
}

function drawAxis(ink) {
  const { found, text } = ticks();
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

function drawBar(ink, lane, i, y, tall) {
  const open = lane.end[i] === null;
  const left = x(lane.begin[i]), right = x(endOf(lane, i));
  if (right < gutter - 2 || left > width + 2) return;
  const from = Math.max(left, gutter - 4), to = Math.min(right, width + 4);
  const wide = Math.max(to - from, open ? 6 : 2);
  if (!open) {
    ink.fillStyle = lane.colour;
    ink.fillRect(from, y, wide, tall);
    return;
  }
  ink.save();
  ink.globalAlpha = lane.state[i] === 1 ? 0.85 : 0.45;
  ink.fillStyle = hatch(ink, lane.colour);
  ink.fillRect(from, y, wide, tall);
  ink.globalAlpha = 1;
  ink.fillStyle = lane.colour;
  ink.fillRect(from, y, Math.min(3, wide), tall);
  ink.strokeStyle = lane.colour;
  ink.setLineDash(lane.state[i] === 1 ? [] : [3, 3]);
  // No line at the right: it has no end.
  ink.beginPath();
  ink.moveTo(from + wide, y + 0.5); ink.lineTo(from, y + 0.5);
  ink.lineTo(from, y + tall - 0.5); ink.lineTo(from + wide, y + tall - 0.5);
  ink.stroke();
  ink.restore();
}

function drawLane(ink, lane) {
  const tall = Math.max(lane.step - (lane.step > 8 ? 3 : 1), 2);
  const drawn = new Float64Array(lane.rows).fill(-1e9);
  for (let i = 0; i < lane.begin.length; i++) {
    // Several within a pixel are one to the eye.
    const right = x(endOf(lane, i));
    if (lane.end[i] !== null && right < drawn[lane.row[i]]) continue;
    drawn[lane.row[i]] = Math.max(right, x(lane.begin[i])) + 0.5;
    drawBar(ink, lane, i, lane.top + lane.row[i] * lane.step, tall);
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
    const tall = Math.max(hit.lane.step - (hit.lane.step > 8 ? 3 : 1), 2);
    const left = x(hit.lane.begin[hit.index]), right = x(endOf(hit.lane, hit.index));
    ink.strokeStyle = colours.ink;
    ink.lineWidth = 2;
    ink.strokeRect(left - 2, hit.lane.top + hit.lane.row[hit.index] * hit.lane.step - 2, Math.max(right - left, 2) + 4, tall + 4);
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

const stripX = (t) => ((t - whole.from) / (whole.to - whole.from)) * width;
const stripTime = (px) => whole.from + (px / width) * (whole.to - whole.from);

function drawStrip() {
  const ink = strip.getContext("2d"), tall = 44, bin = 3;
  ink.fillStyle = colours.panel;
  ink.fillRect(0, 0, width, tall);
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
    ink.fillRect(at * bin, tall - 2 - high, bin - 1, high);
  }
  const left = stripX(view.from), right = stripX(view.to);
  ink.fillStyle = colours.ground;
  ink.globalAlpha = 0.6;
  ink.fillRect(0, 0, left, tall);
  ink.fillRect(right, 0, width - right, tall);
  ink.globalAlpha = 1;
  ink.strokeStyle = "#3b82f6";
  ink.lineWidth = 2;
  ink.strokeRect(Math.max(left, 1), 1, Math.max(Math.min(right, width - 1) - Math.max(left, 1), 3), tall - 2);
}

// ---- details ---------------------------------------------------------------------------------------------------

function find(px, py) {
  for (const lane of lanes) {
    if (!lane.shown || py < lane.top - 3 || py > lane.top + lane.height + 3 || px < gutter) continue;
    let best = null, nearest = 6;
    for (let i = 0; i < lane.begin.length; i++) {
      const left = x(lane.begin[i]), right = Math.max(x(endOf(lane, i)), left + 2);
      const aside = Math.max(left - px, px - right, 0);
      if (aside > nearest) continue;
      const middle = lane.top + (lane.row[i] + 0.5) * lane.step;
      // Within a lane the row counts, unless rows are too thin to aim at.
      const above = Math.max(Math.abs(py - middle) - lane.step / 2, 0);
      const away = Math.max(aside, above);
      if (away <= nearest) { nearest = away; best = i; }
    }
    return best === null ? null : { lane, index: best };
  }
  return null;
}

function detail({ lane, index }) {
  const begin = lane.begin[index], end = lane.end[index];
  const rows = [["instant", lane.requested[index]], ["requested", `${day(begin)} ${clock(begin, true)}`]];
  if (end === null) rows.push(["pending for", lasting(Math.max(data.now - begin, 0))]);
  else rows.push(["completed", `${day(end)} ${clock(end, true)}`], ["took", lasting(end - begin)]);
  const did = lane.stats[index];
  if (did) {
    const [operation, files, inserted, updated, deleted, size] = did;
    if (operation && operation !== lane.action) rows.push(["operation", operation]);
    for (const [name, n] of [["files", files], ["inserted", inserted], ["updated", updated], ["deleted", deleted]]) {
      if (n !== null) rows.push([name, grouped(n)]);
    }
    if (size !== null) rows.push(["written", bytes(size)]);
  }
  return rows;
}

function tell(px, py) {
  const heading = document.createElement("h2"), mark = document.createElement("i");
  const list = document.createElement("dl"), state = document.createElement("span");
  mark.style.background = hit.lane.colour;
  state.textContent = ["requested", "inflight", "completed"][hit.lane.state[hit.index]];
  heading.append(mark, hit.lane.action, state);
  for (const [name, value] of detail(hit)) {
    const term = document.createElement("dt"), text = document.createElement("dd");
    term.textContent = name;
    text.textContent = value;
    list.append(term, text);
  }
  tip.replaceChildren(heading, list);
  tip.hidden = false;
  const wide = tip.offsetWidth, tall = tip.offsetHeight, room = height + 44;
  const left = px + 16 + wide > width ? px - 16 - wide : px + 16;
  tip.style.left = `${Math.max(4, Math.min(left, width - wide - 4))}px`;
  tip.style.top = `${Math.max(4, Math.min(py + 16, room - tall - 4))}px`;
}

function point(px, py) {
  const found = find(px, py);
  const same = found && hit && found.lane === hit.lane && found.index === hit.index;
  hit = found;
  canvas.classList.toggle("pointing", Boolean(hit));
  if (hit) tell(px, py); else tip.hidden = true;
  if (!same) redraw();
}
function unpin() {
  pinned = false;
  hit = null;
  tip.hidden = true;
  tip.classList.remove("pinned");
}

// ---- hands -----------------------------------------------------------------------------------------------------

const touching = new Map();
let moved = 0, pointer = null;
const place = (event) => {
  const box = canvas.getBoundingClientRect();
  return [event.clientX - box.left, event.clientY - box.top];
};

canvas.addEventListener("wheel", (event) => {
  const [px] = place(event);
  if (px < gutter) return; // beside the chart the page scrolls
  event.preventDefault();
  const unit = event.deltaMode === 1 ? 16 : event.deltaMode === 2 ? 400 : 1;
  if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) pan(-(event.deltaX || event.deltaY) * unit);
  else zoom(Math.exp(Math.max(-600, Math.min(600, event.deltaY * unit)) * 0.0018), px);
}, { passive: false });

canvas.addEventListener("pointerdown", (event) => {
  canvas.setPointerCapture(event.pointerId);
  touching.set(event.pointerId, place(event));
  moved = 0;
});
canvas.addEventListener("pointermove", (event) => {
  const [px, py] = place(event), before = touching.get(event.pointerId);
  pointer = event.pointerType === "touch" ? null : [px, py];
  if (!before) {
    if (!pinned && event.pointerType !== "touch") point(px, py);
    return;
  }
  if (touching.size === 1) {
    moved += Math.abs(px - before[0]) + Math.abs(py - before[1]);
    if (moved > 4) { canvas.classList.add("dragging"); pan(px - before[0]); }
  } else if (touching.size === 2) {
    const [other] = [...touching].filter(([id]) => id !== event.pointerId).map(([, at]) => at);
    const was = Math.abs(before[0] - other[0]), is = Math.abs(px - other[0]);
    moved += 10;
    if (was > 8 && is > 8) zoom(was / is, (px + other[0]) / 2);
  }
  touching.set(event.pointerId, [px, py]);
});
for (const kind of ["pointerup", "pointercancel"]) {
  canvas.addEventListener(kind, (event) => {
    touching.delete(event.pointerId);
    canvas.classList.remove("dragging");
    if (kind === "pointerup" && moved <= 4) {
      unpin();
      point(...place(event));
      pinned = Boolean(hit);
      tip.classList.toggle("pinned", pinned);
    }
  });
}
canvas.addEventListener("pointerleave", () => { pointer = null; if (!pinned) { unpin(); redraw(); } });
canvas.addEventListener("dblclick", (event) => zoom(0.4, place(event)[0]));

let sliding = false;
const slide = (event) => {
  const at = stripTime(event.clientX - strip.getBoundingClientRect().left), half = (view.to - view.from) / 2;
  look(at - half, at + half);
};
strip.addEventListener("pointerdown", (event) => { strip.setPointerCapture(event.pointerId); sliding = true; slide(event); });
strip.addEventListener("pointermove", (event) => { if (sliding) slide(event); });
strip.addEventListener("pointerup", () => { sliding = false; });
strip.addEventListener("pointercancel", () => { sliding = false; });

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const step = (width - gutter) * 0.15;
  const keys = {
    ArrowLeft: () => pan(step), ArrowRight: () => pan(-step), "+": () => zoom(0.6), "=": () => zoom(0.6),
    "-": () => zoom(1 / 0.6), 0: () => look(whole.from, whole.to), Escape: () => { unpin(); redraw(); },
  };
  if (keys[event.key]) { event.preventDefault(); keys[event.key](); }
});

// ---- the head --------------------------------------------------------------------------------------------------

const open = lanes.flatMap((lane) => lane.end.flatMap((end, i) => (end === null ? [{ lane, index: i }] : [])))
  .sort((a, b) => a.lane.begin[a.index] - b.lane.begin[b.index]);
let visited = -1;

function head() {
  const count = lanes.reduce((sum, lane) => sum + lane.begin.length, 0);
  element("title").textContent = data.title ? `Timeline of ${data.title}` : "Timeline";
  const parts = [`${grouped(count)} actions`];
  if (count) parts.push(`${day(first)} ${clock(first)} to ${day(last)} ${clock(last)}`);
  parts.push(data.zone === "UTC" ? "UTC" : "local time of the writers", `drawn at ${day(data.now)} ${clock(data.now)}`);
  if (data.left_out) parts.push(`${grouped(data.left_out)} without a time left out`);
  element("summary").textContent = parts.join(" · ");
  for (const lane of lanes) {
    const button = document.createElement("button"), mark = document.createElement("i"), n = document.createElement("b");
    button.type = "button";
    button.title = "Show or hide";
    button.setAttribute("aria-pressed", "true");
    mark.style.background = lane.colour;
    n.textContent = grouped(lane.begin.length);
    button.append(mark, lane.action, n);
    button.addEventListener("click", () => {
      lane.shown = !lane.shown;
      button.setAttribute("aria-pressed", String(lane.shown));
      unpin();
      layout();
    });
    element("legend").append(button);
  }
  element("pending").textContent = `${grouped(open.length)} pending`;
  element("pending").hidden = !open.length;
}

element("in").addEventListener("click", () => zoom(0.6));
element("out").addEventListener("click", () => zoom(1 / 0.6));
element("all").addEventListener("click", () => look(whole.from, whole.to));
element("pending").addEventListener("click", () => {
  const shown = open.filter(({ lane }) => lane.shown);
  if (!shown.length) return;
  visited = (visited + 1) % shown.length;
  const { lane, index } = shown[visited], size = view.to - view.from;
  look(lane.begin[index] - size * 0.3, lane.begin[index] + size * 0.7);
  unpin();
  hit = { lane, index };
  pinned = true;
  tip.classList.add("pinned");
  tell(x(lane.begin[index]), lane.top + lane.row[index] * lane.step);
});
element("theme").addEventListener("click", () => {
  const root = document.documentElement;
  const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  root.dataset.theme = dark ? "light" : "dark";
  layout();
});
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", layout);
new ResizeObserver(() => { if (canvas.clientWidth !== width) layout(); }).observe(document.querySelector("main"));
head();
layout();
