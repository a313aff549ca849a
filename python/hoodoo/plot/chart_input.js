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
  const rows = [["instant", lane.requested[index]]];
  if (lane.named[index]) rows.push(["on the timeline", lane.named[index]]);
  rows.push(["requested", `${day(begin)} ${clock(begin, true)}`]);
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
  state.textContent = ["requested, waiting", "inflight, running", "completed"][hit.lane.state[hit.index]];
  heading.append(mark, hit.lane.action, state);
  for (const [name, value] of detail(hit)) {
    const term = document.createElement("dt"), text = document.createElement("dd");
    term.textContent = name;
    text.textContent = value;
    list.append(term, text);
  }
  tip.replaceChildren(heading, list);
  tip.hidden = false;
  // It is a child of the page, not of the chart, whose box would cut it off.
  const box = canvas.getBoundingClientRect(), wide = tip.offsetWidth, tall = tip.offsetHeight;
  const right = document.documentElement.clientWidth, bottom = document.documentElement.clientHeight;
  const cx = box.left + Math.max(gutter, Math.min(px, width)), cy = box.top + py;
  const left = cx + 16 + wide > right - 4 ? cx - 16 - wide : cx + 16;
  const top = cy + 16 + tall > bottom - 4 ? cy - 16 - tall : cy + 16;
  tip.style.left = `${scrollX + Math.max(4, Math.min(left, right - wide - 4))}px`;
  tip.style.top = `${scrollY + Math.max(4, Math.min(top, Math.max(bottom - tall - 4, 4)))}px`;
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
  const moves = {
    ArrowLeft: () => pan(step), ArrowRight: () => pan(-step), "+": () => zoom(0.6), "=": () => zoom(0.6),
    "-": () => zoom(1 / 0.6), 0: () => look(whole.from, whole.to), Escape: () => { unpin(); redraw(); },
  };
  if (event.target instanceof HTMLSelectElement) return;
  if (moves[event.key]) { event.preventDefault(); moves[event.key](); }
});

// ---- the head --------------------------------------------------------------------------------------------------

const open = lanes.flatMap((lane) => lane.end.flatMap((end, i) => (end === null ? [{ lane, index: i }] : [])))
  .sort((a, b) => a.lane.begin[a.index] - b.lane.begin[b.index]);
let visited = -1;

function head() {
  const count = lanes.reduce((sum, lane) => sum + lane.begin.length, 0);
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
  element("heights").hidden = !lanes.some((lane) => Object.keys(lane.stats).length);
}

function keys() {
  const names = open.length ? ["requested: waiting", "inflight: running", "completed"] : [];
  element("keys").replaceChildren(...names.map((name, state) => {
    const key = document.createElement("span"), mark = document.createElement("canvas"), scale = window.devicePixelRatio || 1;
    mark.width = 26 * scale;
    mark.height = 12 * scale;
    const ink = mark.getContext("2d");
    ink.scale(scale, scale);
    drawBox(ink, colours.faint, state, 0, 0, 26, 12);
    key.append(mark, name);
    return key;
  }));
  const note = document.createElement("span");
  note.textContent = `height: square root of ${heights}, up to ${heights === "bytes" ? bytes(biggest) : grouped(biggest)}`;
  if (heights !== "equal") element("keys").append(note);
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
element("height").addEventListener("change", (event) => {
  heights = event.target.value;
  biggest = Math.max(1, ...lanes.map((lane) => lane.begin.reduce((most, _, i) => Math.max(most, amount(lane, i) || 0), 0)));
  unpin();
  layout();
});
element("theme").addEventListener("click", () => {
  const root = document.documentElement;
  const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  root.dataset.theme = dark ? "light" : "dark";
  layout();
});
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", layout);
new ResizeObserver(() => { if (canvas.clientWidth !== width) layout(); }).observe(element("frame"));
head();
layout();
