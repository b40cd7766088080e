// The time line: past to the left, future to the right of now. One canvas; the names beside it are DOM.
//
// Bars are kept per row, sorted by their begin, so that a frame and a hit test look only at those in sight. Nothing is
// drawn unless something changed: the page asks for a frame, at most one is drawn for all that ask.
import { DAY, exactNow, frozen, hm, hms, HOUR, MINUTE, now, offsetOf, SECOND, day as dayText } from "./time.js";
import { KIND } from "./glyphs.js";

export const AXIS = 32, HEAD = 24, SHORTEST = MINUTE, LONGEST = 31 * DAY, NOW_AT = 0.6;
const STEPS = [[SECOND * 5, SECOND], [10 * SECOND, SECOND], [30 * SECOND, 5 * SECOND], [MINUTE, 10 * SECOND], [5 * MINUTE, MINUTE], [10 * MINUTE, MINUTE], [15 * MINUTE, 5 * MINUTE], [30 * MINUTE, 5 * MINUTE], [HOUR, 15 * MINUTE], [2 * HOUR, 30 * MINUTE], [3 * HOUR, HOUR], [6 * HOUR, HOUR], [12 * HOUR, 3 * HOUR], [DAY, 6 * HOUR], [2 * DAY, 12 * HOUR], [7 * DAY, DAY]];
const NAMES = ["surface", "inset", "line", "line-2", "text", "text-2", "text-3", "accent", "on-accent", "ok", "fail", "run", "hold", "miss", "skip", "next", "on-mark", "shade", "hatch", "miss-soft", "miss-text", "hold-soft", "hold-text", "fail-text", "selected"];
const FAILED = new Set(["fail", "timeout", "lost"]);
const SLACK = 7, BIN = 5, BAR = 14;

export const rowHeight = (isPhone) => (isPhone ? 40 : 26);

// A bar of the API with its instants as numbers.
export function barOf(item, usual) {
  const slot = Date.parse(item.slot_at), due = Date.parse(item.due_at);
  const kind = item.kind === "job" ? KIND[item.status] : KIND[item.kind];
  const start = item.started_at ? Date.parse(item.started_at) : null, end = item.ended_at ? Date.parse(item.ended_at) : null;
  const from = item.kind === "held" ? Date.parse(item.since || item.due_at) : start ?? due;
  return { ...item, kind, isJob: item.kind === "job", slot, due, start, end: item.last_at ? Date.parse(item.last_at) : end, from, usual };
}
// Where a bar ends: what runs, and what is held, reaches to now.
const endOf = (bar, at) => (bar.end !== null ? bar.end : bar.kind === "run" || bar.kind === "hold" ? Math.max(at, bar.from) : bar.kind === "next" && !bar.is_skipped ? bar.from + (bar.usual || 0) : bar.from);

export class Timeline {
  constructor(canvas, { onHover, onWindow, onOpen }) {
    Object.assign(this, { canvas, onHover, onWindow, onOpen, rows: [], byRow: new Map(), spans: [], stretches: [], window: [0, 1], width: 0, height: AXIS, hits: [], selected: null, isPhone: false, drawn: 0 });
    this.context = canvas.getContext("2d");
    this.listen();
    this.observer = new ResizeObserver(() => this.resize());
    this.observer.observe(canvas.parentElement);
    this.readColours();
  }
  close() { this.observer.disconnect(); cancelAnimationFrame(this.asked); }

  // rows: [{group} | {schedule_id, …}], in their order; bars by schedule id. A row with stretches has too many bars, and
  // is drawn by their number. `hasMore`: not all schedules have a row; above them stands the number of all slots.
  setData({ rows, bars, spans, stretches, hasMore }) {
    Object.assign(this, { rows, spans, stretches, hasMore });
    this.byRow = new Map();
    for (const bar of bars) { const list = this.byRow.get(bar.schedule_id); if (list) list.push(bar); else this.byRow.set(bar.schedule_id, [bar]); }
    for (const list of this.byRow.values()) { list.sort((a, b) => a.from - b.from); list.longest = 0; }
    const at = exactNow();
    for (const list of this.byRow.values()) for (const bar of list) list.longest = Math.max(list.longest, endOf(bar, at) - bar.from);
    this.layout();
    this.ask();
  }
  setWindow(window) { this.window = window; this.ask(); }
  layout() {
    let y = AXIS;
    this.placed = [...(this.hasMore ? [{ density: true }] : []), ...this.rows].map((row) => {
      const height = row.density ? 120 : row.group !== undefined && !row.schedule_id ? HEAD : rowHeight(this.isPhone), place = { ...row, isHead: row.group !== undefined && !row.schedule_id, y, height };
      y += height;
      return place;
    });
    const height = Math.max(y + 6, AXIS + 60);
    if (height !== this.height) { this.height = height; this.resize(); }
  }
  resize() {
    const width = Math.floor(this.canvas.parentElement.clientWidth), ratio = Math.min(devicePixelRatio || 1, 2);
    this.isPhone = innerWidth <= 760;
    if (!width) return;
    if (this.canvas.width !== width * ratio || this.canvas.height !== this.height * ratio) {
      Object.assign(this, { width, ratio });
      this.canvas.width = width * ratio; this.canvas.height = this.height * ratio;
      this.canvas.style.width = `${width}px`; this.canvas.style.height = `${this.height}px`;
    }
    this.draw(); // at once: a canvas that changes its size is empty
  }
  readColours() {
    const style = getComputedStyle(document.documentElement);
    this.c = Object.fromEntries(NAMES.map((name) => [name, style.getPropertyValue(`--${name}`).trim()]));
    this.font = style.getPropertyValue("--font").trim();
    this.ask();
  }
  ask() { if (!this.asked) this.asked = requestAnimationFrame(() => { this.asked = 0; this.draw(); }); }
  x(at) { return ((at - this.window[0]) / (this.window[1] - this.window[0])) * this.width; }
  // The instant that the line of now stands at.
  get now() { return frozen.value ? now.value : exactNow(); }

  draw() {
    const { context: g, c, width: W, height: H, window: [a, b] } = this;
    if (!W || !this.placed) return;
    const at = this.now, nx = this.x(at), scale = W / (b - a);
    this.hits = [];
    this.tags = [];
    this.drawn++;
    g.setTransform(this.ratio, 0, 0, this.ratio, 0, 0);
    g.clearRect(0, 0, W, H);
    g.textBaseline = "middle";
    this.drawGround(g, c, nx, W, H);
    this.drawGrid(g, c, a, b, scale, nx, W, H);
    this.drawHeads(g, c);
    for (const row of this.placed) if (!row.isHead) for (const one of row.closedTimes || []) this.hatch(g, this.x(one[0]), row.y, this.x(one[1]), row.height);
    for (const row of this.placed) for (const one of row.pausedTimes || []) this.drawPaused(g, c, row, one, W);
    this.drawSpans(g, c, at, H);
    for (const row of this.placed) if (row.density) this.drawCounts(g, c, row, this.stretches, 10, row.height - 20, nx); else if (!row.isHead) this.drawRow(g, c, row, scale, nx, at);
    if (this.selected) this.drawSelection(g, c);
    if (nx > -50 && nx < W + 50) this.drawNow(g, c, at, nx, H);
    for (const [text, x, y] of this.tags) this.tag(g, c, text, x, y); // over the line of now
  }
  drawGround(g, c, nx, W, H) {
    if (nx < W) { g.fillStyle = c.shade; g.globalAlpha = 0.55; g.fillRect(Math.max(0, nx), AXIS, W - Math.max(0, nx), H - AXIS); g.globalAlpha = 1; }
    for (const row of this.placed) if (row.isHead) { g.fillStyle = c.inset; g.fillRect(0, row.y, W, row.height); }
  }
  // Over the grid, which would cross the words.
  drawHeads(g, c) {
    g.textAlign = "left";
    for (const row of this.placed) if (row.isHead) {
      let x = 10;
      if (this.isPhone) { g.font = `600 12px ${this.font}`; g.fillStyle = c.text; g.fillText(row.group, 8, row.y + 12.5); x = 16 + g.measureText(row.group).width; }
      g.font = `500 11px ${this.font}`; g.fillStyle = row.isBad ? c["fail-text"] : c["text-3"]; g.fillText(row.note || "", x, row.y + 12.5);
    }
  }
  drawGrid(g, c, a, b, scale, nx, W, H) {
    const [major, minor] = STEPS.find(([step]) => step * scale >= (this.isPhone ? 62 : 84)) || STEPS.at(-1);
    const ahead = offsetOf(a) * MINUTE, first = (step) => Math.ceil((a + ahead) / step) * step - ahead;
    g.lineWidth = 1; g.strokeStyle = c.line; g.globalAlpha = 0.55; g.beginPath();
    for (let t = first(minor); t < b; t += minor) { const x = Math.round(this.x(t)) + 0.5; g.moveTo(x, AXIS); g.lineTo(x, H); }
    g.stroke(); g.globalAlpha = 0.8; g.strokeStyle = c["line-2"]; g.beginPath();
    const marks = [];
    for (let t = first(major); t < b; t += major) { const x = Math.round(this.x(t)) + 0.5; g.moveTo(x, AXIS - 5); g.lineTo(x, H); marks.push([t, x]); }
    g.stroke(); g.globalAlpha = 1;
    g.font = `500 11px ${this.font}`; g.textAlign = "center"; g.fillStyle = c["text-3"];
    for (const [t, x] of marks) {
      const isDay = (t + offsetOf(t) * MINUTE) % DAY === 0, text = isDay ? dayText(t) : major < MINUTE ? hms(t) : hm(t);
      if (Math.abs(x - nx) > 46 && x > 18 && x < W - 18) { if (isDay) g.fillStyle = c["text-2"]; g.fillText(text, x, 13); g.fillStyle = c["text-3"]; }
    }
    g.strokeStyle = c.line; g.beginPath();
    for (const row of this.placed) { g.moveTo(0, row.y + row.height - 0.5); g.lineTo(W, row.y + row.height - 0.5); }
    g.stroke();
  }
  hatch(g, x0, y, x1, height) {
    if (x1 <= 0 || x0 >= this.width) return;
    x0 = Math.max(0, x0); x1 = Math.min(this.width, x1);
    g.save(); g.beginPath(); g.rect(x0, y, x1 - x0, height - 1); g.clip();
    g.fillStyle = this.c.shade; g.fillRect(x0, y, x1 - x0, height);
    g.strokeStyle = this.c.hatch; g.lineWidth = 1; g.beginPath();
    for (let x = Math.floor((x0 - height) / 6) * 6; x < x1; x += 6) { g.moveTo(x, y + height); g.lineTo(x + height, y); }
    g.stroke(); g.restore();
  }
  // From the start of the pause to its end; one that lasts reaches into the future.
  drawPaused(g, c, row, [from, to], W) {
    const x = Math.max(0, this.x(from)), end = to === null ? W : this.x(to);
    if (x >= W || end <= 0) return;
    this.hatch(g, x, row.y, end, row.height);
    if (to === null) this.tags.push([row.pausedText || "Paused", x + 8, row.y + row.height - 22]);
  }
  tag(g, c, text, x, y) {
    g.font = `500 11px ${this.font}`; g.textAlign = "left";
    const w = g.measureText(text).width + 12;
    x = Math.min(x, this.width - w - 6);
    g.fillStyle = c.surface; box(g, x, y, w, 18, 4); g.fill();
    g.fillStyle = c["text-2"]; g.fillText(text, x + 6, y + 9.5);
  }
  drawSpans(g, c, at, H) {
    let free = -Infinity; // labels do not cover each other
    for (const span of this.spans) {
      const x0 = this.x(span.from), x1 = this.x(span.to ?? at), w = Math.max(3, x1 - x0);
      if (x0 > this.width || x1 < 0) continue;
      const isDown = span.kind === "down";
      g.fillStyle = c[isDown ? "miss-soft" : "hold-soft"]; g.globalAlpha = 0.75; g.fillRect(x0, AXIS, w, H); g.globalAlpha = 1;
      g.fillStyle = c[isDown ? "miss" : "hold"]; g.fillRect(x0, AXIS - 3, w, 3);
      const clock = span.to && span.to - span.from < MINUTE ? hms : hm, text = `${isDown ? "No scheduler" : "System paused"}, ${clock(span.from)}${span.to ? ` to ${clock(span.to)}` : " on"}`;
      g.font = `500 11px ${this.font}`; g.textAlign = "left";
      const size = g.measureText(text).width, x = Math.max(4, x0 + w + 5);
      if (x > free && x + size < this.width) { g.fillStyle = c[isDown ? "miss-text" : "hold-text"]; g.fillText(text, x, AXIS + 12.5); free = x + size + 10; }
    }
  }
  drawNow(g, c, at, nx, H) {
    g.fillStyle = frozen.value ? c["text-3"] : c.accent; g.fillRect(Math.round(nx) - 1, 22, 2, H - 22);
    g.font = `600 11px ${this.font}`; g.textAlign = "center";
    const label = hms(at), w = g.measureText(label).width + 14, x = Math.max(w / 2 + 2, Math.min(this.width - w / 2 - 2, nx));
    box(g, x - w / 2, 3, w, 20, 5); g.fill();
    g.fillStyle = frozen.value ? c.surface : c["on-accent"]; g.fillText(label, x, 13.5);
  }

  // Bars of a row that may be in sight: from the first that could reach into the window.
  *inSight(bars) {
    const [a, b] = this.window, slack = (20 / this.width) * (b - a);
    for (let i = firstFrom(bars, a - bars.longest - slack); i < bars.length && bars[i].from <= b + slack; i++) yield bars[i];
  }
  drawRow(g, c, row, scale, nx, at) {
    const bars = this.byRow.get(row.schedule_id), top = row.y + (this.isPhone ? 20 : 6);
    if (this.isPhone) {
      g.font = `500 11px ${this.font}`; g.textAlign = "left";
      const w = g.measureText(row.label).width;
      g.fillStyle = c.surface; g.globalAlpha = 0.85; g.fillRect(4, row.y + 3, w + 8, 15); g.globalAlpha = 1;
      g.fillStyle = c["text-2"]; g.fillText(row.label, 8, row.y + 10.5);
    }
    if (row.stretches?.length) this.drawCounts(g, c, row, row.stretches, top - row.y, BAR, nx);
    if (!bars) return;
    const shown = [...this.inSight(bars)];
    if (shown.length > 20) {
      const first = Math.max(shown[0].from, this.window[0]), last = Math.min(shown.at(-1).from, this.window[1]);
      if (((last - first) * scale) / shown.length < 4) { this.drawBins(g, c, row, shown, top, nx); return; }
    }
    const good = new Path2D(), bad = new Path2D(), cuts = new Path2D(), shapes = []; // many bars are filled at once
    for (const bar of shown) {
      const isShape = bar.kind === "skip" || bar.kind === "miss" || (bar.kind === "next" && bar.is_skipped);
      const x = this.x(bar.from), xe = this.x(endOf(bar, at)), w = Math.max(3, xe - x - (bar.end !== null ? 0.5 : 0));
      this.hits.push({ bar, row, x: isShape ? x - 4 : x, y: row.y, w: isShape ? 8 : Math.max(w, 4), h: row.height, isShape });
      if (bar.after || (isShape && bar.end !== null)) { g.strokeStyle = c[bar.isJob ? "text-3" : "skip"]; g.lineWidth = 1; g.beginPath(); g.moveTo(this.x(bar.after || bar.from), top + BAR / 2 + 0.5); g.lineTo(isShape ? xe : x, top + BAR / 2 + 0.5); g.stroke(); }
      if (isShape) shapes.push([bar, x, w]);
      else if (bar.kind === "ok") place(good, x, top, w, BAR);
      else if (FAILED.has(bar.kind)) { place(bad, x, top - 3, w, BAR + 6); cut(cuts, bar, x, top, w); }
      else this.drawBar(g, c, bar, x, top, w, nx, scale);
    }
    g.fillStyle = c.ok; g.fill(good);
    g.fillStyle = c.fail; g.fill(bad);
    g.strokeStyle = c["on-mark"]; g.lineWidth = 1.4; g.stroke(cuts);
    for (const [bar, x, w] of shapes) this.drawBar(g, c, bar, x, top, w, nx, scale); // shapes lie over bars
  }
  drawBar(g, c, bar, x, top, w, nx, scale) {
    const mid = top + BAR / 2;
    if (bar.kind === "skip") diamond(g, x, mid, 4.2, c.skip, c.surface);
    else if (bar.kind === "miss") triangle(g, x, mid, 4.6, c.miss, c.surface);
    else if (bar.kind === "hold") {
      g.save(); box(g, x, mid - 4, w, 8, 2); g.clip(); g.fillStyle = c["hold-soft"]; g.fillRect(x, mid - 4, w, 8);
      g.strokeStyle = c.hold; g.lineWidth = 1.5; g.beginPath(); for (let q = x - 4; q < x + w + 8; q += 5) { g.moveTo(q, mid + 5); g.lineTo(q, mid - 5); } g.stroke(); g.restore();
      g.strokeStyle = c.hold; g.lineWidth = 1; box(g, x + 0.5, mid - 3.5, Math.max(2, w - 1), 7, 2); g.stroke();
    } else if (bar.kind === "next") this.drawUpcoming(g, c, bar, x, top, w, scale);
    else if (bar.kind === "run") this.drawRunning(g, c, bar, x, top, nx);
    else if (bar.kind === "queued") { g.strokeStyle = c.run; g.lineWidth = 1.5; box(g, x + 0.75, top + 0.75, Math.max(4, nx - x - 1.5), BAR - 1.5, 3); g.stroke(); }
    else { g.fillStyle = c.skip; box(g, x, top, w, BAR, Math.min(3, w / 2)); g.fill(); } // cancelled
  }
  drawUpcoming(g, c, bar, x, top, w, scale) {
    const mid = top + BAR / 2;
    if (bar.is_skipped) { g.setLineDash([2, 2]); diamond(g, x, mid, 4.2, c.skip, null); g.setLineDash([]); return; }
    const jitter = (bar.jitter || 0) * scale;
    if (jitter > 4) { g.fillStyle = c.next; g.fillRect(this.x(bar.slot), mid - 0.5, Math.min(jitter, 400), 1); }
    g.strokeStyle = c.next; g.lineWidth = 1; g.fillStyle = c.surface;
    if (bar.is_estimate) g.setLineDash([3, 2]);
    if (w > 5) { g.globalAlpha = 0.75; box(g, x + 0.5, top + 0.5, w - 1, BAR - 1, 2.5); } else box(g, x - 1, top + 0.5, 3.5, BAR - 1, 1.5);
    g.fill(); g.stroke(); g.globalAlpha = 1; g.setLineDash([]);
  }
  drawRunning(g, c, bar, x, top, nx) {
    const end = Math.max(x + 4, nx), usual = bar.usual && bar.start ? this.x(bar.start + bar.usual) : 0;
    if (usual > nx + 2) { g.strokeStyle = c.run; g.lineWidth = 1; g.setLineDash([3, 2]); box(g, x + 0.5, top + 0.5, usual - x - 1, BAR - 1, 3); g.stroke(); g.setLineDash([]); }
    box(g, x, top, end - x, BAR, [3, 0, 0, 3]); g.fillStyle = c.run; g.fill();
    g.save(); g.clip(); g.strokeStyle = c["on-mark"]; g.globalAlpha = 0.3; g.lineWidth = 3; g.beginPath();
    for (let q = Math.max(x, -10) - 4; q < Math.min(end, this.width) + 10; q += 9) { g.moveTo(q - 5, top + BAR + 2); g.lineTo(q + 7, top - 2); }
    g.stroke(); g.restore();
  }
  // Dense rows: bins of 5 px, the height by their number, failures on top, the future as an outline.
  drawBins(g, c, row, bars, top, nx) {
    const n = Math.ceil(this.width / BIN), lists = { good: new Float64Array(n), bad: new Float64Array(n), gone: new Float64Array(n), skip: new Float64Array(n), to: new Float64Array(n) };
    for (const bar of bars) {
      const i = Math.floor(this.x(bar.from) / BIN);
      if (i < 0 || i >= n) continue;
      lists[bar.kind === "next" ? (bar.is_skipped ? "skip" : "to") : bar.kind === "miss" ? "gone" : bar.kind === "skip" ? "skip" : FAILED.has(bar.kind) ? "bad" : "good"][i] += bar.count || 1;
    }
    this.paintBins(g, c, row, lists, top, BAR, nx, n, BIN);
  }
  paintBins(g, c, row, { good, bad, gone, skip, to }, top, height, nx, n, size) {
    // Heights are means of five bins, so that an even rhythm looks even.
    const mean = (at) => { let sum = 0, k = 0; for (let j = Math.max(0, at - 2); j <= Math.min(n - 1, at + 2); j++) { const v = good[j] + bad[j]; if (v) { sum += v; k++; } } return k ? sum / k : 0; };
    const ahead = (at) => { let sum = 0, k = 0; for (let j = Math.max(0, at - 2); j <= Math.min(n - 1, at + 2); j++) if (to[j]) { sum += to[j]; k++; } return k ? sum / k : 0; };
    let most = 1;
    for (let i = 0; i < n; i++) most = Math.max(most, mean(i), ahead(i));
    const base = top + height;
    for (let i = 0; i < n; i++) {
      const x = i * size, sum = good[i] + bad[i];
      if (sum) {
        const tall = Math.max(3, (mean(i) / most) * height * 0.8), hot = bad[i] ? Math.max(3, (bad[i] / sum) * tall) : 0;
        g.fillStyle = c.ok; g.globalAlpha = 0.8; g.fillRect(x, base - tall + hot, size - 1, tall - hot); g.globalAlpha = 1;
        if (hot) { g.fillStyle = c.fail; g.fillRect(x, base - tall - 4, size - 1, hot + 4); }
      }
      if (gone[i]) { g.strokeStyle = c.miss; g.lineWidth = 1; g.strokeRect(x + 0.5, base - height * 0.8 + 0.5, size - 2, height * 0.8 - 1); }
      if (skip[i]) { g.fillStyle = c.skip; g.globalAlpha = 0.75; g.fillRect(x, base - 3, size - 1, 3); g.globalAlpha = 1; }
      const soon = ahead(i);
      if (soon && x + size > nx) { const tall = Math.max(3, (soon / most) * height * 0.8); g.strokeStyle = c.next; g.globalAlpha = 0.7; g.lineWidth = 1; g.beginPath(); g.moveTo(x, base - tall + 0.5); g.lineTo(x + size, base - tall + 0.5); g.stroke(); g.globalAlpha = 1; }
      if (sum || to[i] || gone[i] || skip[i]) this.hits.push({ bin: { good: good[i], bad: bad[i], gone: gone[i], skip: skip[i], to: to[i] }, row, x, y: row.y, w: size, h: row.height });
    }
  }
  // What the API counted: of all schedules, or of one that fires too often to be listed.
  drawCounts(g, c, row, stretches, top, height, nx) {
    const n = Math.ceil(this.width / BIN), lists = { good: new Float64Array(n), bad: new Float64Array(n), gone: new Float64Array(n), skip: new Float64Array(n), to: new Float64Array(n) };
    for (const one of stretches) {
      const first = Math.floor(this.x(one.from) / BIN), last = Math.max(first, Math.ceil(this.x(one.to) / BIN) - 1), share = 1 / (last - first + 1);
      for (const [word, count] of Object.entries(one.counts)) {
        const kind = KIND[word], list = lists[kind === "next" ? "to" : kind === "miss" ? "gone" : kind === "skip" ? "skip" : FAILED.has(kind) ? "bad" : "good"];
        for (let i = Math.max(0, first); i <= Math.min(n - 1, last); i++) list[i] += count * share;
      }
    }
    this.paintBins(g, c, row, lists, row.y + top, height, nx, n, BIN);
  }
  drawSelection(g, c) {
    const hit = this.hits.find((one) => isSame(one, this.selected));
    if (!hit) return;
    g.strokeStyle = c.accent; g.lineWidth = 2;
    box(g, hit.x - 4, hit.y + 2, hit.w + 8, hit.h - 5, 4); g.stroke();
  }

  // -- hand and keys --

  at(px, py) {
    let best = null, far = SLACK + 1;
    for (const hit of this.hits) {
      if (py < hit.y || py >= hit.y + hit.h) continue;
      const distance = (px < hit.x ? hit.x - px : px > hit.x + hit.w ? px - hit.x - hit.w : 0) - (hit.isShape ? 0.5 : 0);
      if (distance < far) { far = distance; best = hit; }
    }
    return best;
  }
  select(hit) { this.selected = hit; this.ask(); }
  move(window) { this.window = window; this.ask(); this.onWindow(window); }
  zoom(factor, pin) {
    const [a, b] = this.window, span = Math.min(LONGEST, Math.max(SHORTEST, (b - a) * factor)), left = pin - ((pin - a) / (b - a)) * span;
    this.move([left, left + span]);
  }
  listen() {
    const el = this.canvas, held = new Map();
    let drag = null, moved = false, pinch = 0;
    el.addEventListener("pointerdown", (event) => {
      held.set(event.pointerId, event.offsetX);
      drag = { x: event.offsetX, window: [...this.window] };
      moved = false;
      pinch = held.size === 2 ? apartOf(held) : 0;
      el.setPointerCapture(event.pointerId);
    });
    el.addEventListener("pointermove", (event) => {
      if (held.size === 2 && held.has(event.pointerId)) {
        held.set(event.pointerId, event.offsetX);
        const [p, q] = held.values(), apart = apartOf(held);
        if (pinch) this.zoom(pinch / apart, this.window[0] + ((p + q) / 2 / this.width) * (this.window[1] - this.window[0]));
        pinch = apart; moved = true; drag = null;
        return;
      }
      if (!drag) { this.onHover(this.at(event.offsetX, event.offsetY), false); return; }
      if (Math.abs(event.offsetX - drag.x) > 3) moved = true;
      if (!moved) return;
      const by = ((drag.x - event.offsetX) / this.width) * (drag.window[1] - drag.window[0]);
      this.onHover(null, false);
      this.move([drag.window[0] + by, drag.window[1] + by]);
    });
    const release = (event) => {
      held.delete(event.pointerId);
      if (drag && !moved && event.type === "pointerup") { const hit = this.at(event.offsetX, event.offsetY); this.select(hit); this.onHover(hit, true); }
      drag = null;
    };
    el.addEventListener("pointerup", release);
    el.addEventListener("pointercancel", release);
    el.addEventListener("pointerleave", () => { if (!drag) this.onHover(null, false); });
    el.addEventListener("wheel", (event) => {
      if (!event.ctrlKey && !event.metaKey) return; // the plain wheel scrolls the page
      event.preventDefault();
      const [a, b] = this.window;
      this.zoom(Math.exp(event.deltaY * 0.0015), a + (event.offsetX / this.width) * (b - a));
    }, { passive: false });
    el.addEventListener("keydown", (event) => {
      const step = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[event.key];
      if (event.key === "Escape") { this.select(null); this.onHover(null, true); return; }
      if (event.key === "Enter" && this.selected?.bar) { event.preventDefault(); this.onOpen(this.selected); return; }
      if (!step || event.ctrlKey || event.metaKey) return;
      event.preventDefault();
      this.step(...step);
    });
  }
  // From slot to slot in a row, and to the nearest of the row above or below; the first step begins at now.
  step(along, across) {
    const hits = this.hits.filter((hit) => hit.x + hit.w >= 0 && hit.x <= this.width);
    if (!hits.length) return;
    const near = (list, x) => list.reduce((p, q) => (Math.abs(q.x - x) < Math.abs(p.x - x) ? q : p));
    const here = hits.find((hit) => this.selected && isSame(hit, this.selected));
    let next;
    if (!here) next = near(hits.filter((hit) => hit.y === Math.min(...hits.map((one) => one.y))), this.x(this.now));
    else if (across) { const rows = [...new Set(hits.map((hit) => hit.y))].sort((p, q) => p - q), y = rows[rows.indexOf(here.y) + across]; next = y === undefined ? here : near(hits.filter((hit) => hit.y === y), here.x); }
    else { const line = hits.filter((hit) => hit.y === here.y).sort((p, q) => p.x - q.x); next = line[Math.max(0, Math.min(line.length - 1, line.indexOf(here) + along))]; }
    this.select(next);
    this.onHover(next, true);
  }
}

const apartOf = (fingers) => { const [p, q] = fingers.values(); return Math.max(8, Math.abs(p - q)); };
const isSame = (a, b) => a.row?.schedule_id === b.row?.schedule_id && (a.bar ? a.bar.slot_at === b.bar?.slot_at && a.bar.job_id === b.bar?.job_id : a.bin && b.bin && a.x === b.x);
function firstFrom(bars, from) { let low = 0, high = bars.length; while (low < high) { const mid = (low + high) >> 1; if (bars[mid].from < from) low = mid + 1; else high = mid; } return low; }
// Narrow bars are plain: round corners of less than two pixels cost much and show nothing.
function place(path, x, y, w, h) { if (w < 6) path.rect(x, y, w, h); else path.roundRect(x, y, w, h, 3); }
// What tells a failure apart without colour: it is taller, and cut.
function cut(path, bar, x, top, w) {
  const m = x + w / 2, n = top + BAR / 2;
  if (w < 7) { path.moveTo(x, n); path.lineTo(x + w, n); }
  else if (bar.kind === "timeout" && w > 12) { path.moveTo(x + w - 5, top - 1); path.lineTo(x + w - 5, top + BAR + 1); path.moveTo(x + w - 9, n - 2.5); path.lineTo(x + w - 6, n); path.lineTo(x + w - 9, n + 2.5); }
  else { path.moveTo(m - 2.2, n - 2.2); path.lineTo(m + 2.2, n + 2.2); path.moveTo(m + 2.2, n - 2.2); path.lineTo(m - 2.2, n + 2.2); }
}
function box(g, x, y, w, h, r) { g.beginPath(); g.roundRect(x, y, Math.max(0, w), h, r); }
function diamond(g, x, y, r, stroke, fill) { g.beginPath(); g.moveTo(x, y - r); g.lineTo(x + r, y); g.lineTo(x, y + r); g.lineTo(x - r, y); g.closePath(); if (fill) { g.fillStyle = fill; g.fill(); } g.strokeStyle = stroke; g.lineWidth = 1.4; g.stroke(); }
function triangle(g, x, y, r, stroke, fill) { g.beginPath(); g.moveTo(x - r, y - r * 0.8); g.lineTo(x + r, y - r * 0.8); g.lineTo(x, y + r); g.closePath(); g.fillStyle = fill; g.fill(); g.strokeStyle = stroke; g.lineWidth = 1.5; g.stroke(); }

// The whole day, with the window as a frame on it.
export function drawDay(canvas, { start, end, stretches, window, at, colours: c, font }) {
  const W = canvas.parentElement.clientWidth - (innerWidth <= 760 ? 24 : 32), H = 40, ratio = Math.min(devicePixelRatio || 1, 2), g = canvas.getContext("2d");
  if (W <= 0) return;
  canvas.width = W * ratio; canvas.height = H * ratio; canvas.style.width = `${W}px`; canvas.style.height = `${H}px`;
  g.setTransform(ratio, 0, 0, ratio, 0, 0);
  const x = (t) => ((t - start) / (end - start)) * W, nx = x(at), n = Math.max(1, stretches.length), all = new Float64Array(n), bad = new Float64Array(n), wide = W / n;
  for (const one of stretches) {
    const i = Math.floor(((one.from + one.to) / 2 - start) / (end - start) * n);
    if (i < 0 || i >= n) continue;
    for (const [word, count] of Object.entries(one.counts)) { if (word !== "skipped") all[i] += count; if (FAILED.has(KIND[word]) || word === "missed") bad[i] += count; }
  }
  const most = Math.max(1, ...all);
  for (let i = 0; i < n; i++) if (all[i]) {
    const tall = Math.max(2, Math.sqrt(all[i] / most) * 26), px = i * wide, size = Math.max(1, wide - 1);
    g.globalAlpha = px < nx ? 0.55 : 0.3; g.fillStyle = c.next; g.fillRect(px, 28 - tall, size, tall); g.globalAlpha = 1;
    if (bad[i]) { g.fillStyle = c.fail; g.fillRect(px, 28 - tall - 2, size, Math.min(tall, 4 + bad[i] * 3)); }
  }
  g.fillStyle = c["text-3"]; g.font = `500 10px ${font}`; g.textBaseline = "middle"; g.textAlign = "center";
  for (let k = 3; k < 24; k += 3) g.fillText(hm(start + k * HOUR), x(start + k * HOUR), 35);
  const f = Math.max(0, x(window[0])), t = Math.min(W, x(window[1]));
  if (t > f) {
    g.fillStyle = c.accent; g.globalAlpha = 0.1; g.fillRect(f, 0, t - f, 29); g.globalAlpha = 1;
    g.strokeStyle = c.accent; g.lineWidth = 1; g.strokeRect(Math.round(f) + 0.5, 0.5, Math.max(1, Math.round(t - f) - 1), 28);
  }
  g.fillStyle = c.accent; g.fillRect(Math.round(nx) - 0.5, 0, 1.5, 29);
}
