// Icons, and the mark of each outcome: a colour, a shape and a word, so that colour is never alone.
import { html } from "./lib.js";

const ICONS = {
  now: "M8 1.5v13M1.8 5.3h3.4v5.4H1.8zM10.8 5.3h3.4v5.4h-3.4z",
  schedules: "M5.5 4h8M5.5 8h8M5.5 12h8M2.5 4h.01M2.5 8h.01M2.5 12h.01",
  jobs: "M3.5 2.5h9a1 1 0 0 1 1 1v9a1 1 0 0 1-1 1h-9a1 1 0 0 1-1-1v-9a1 1 0 0 1 1-1zM6.5 5.6v4.8L10.4 8z",
  approvals: "M2.5 9.5h3l1 2h3l1-2h3M2.5 9.5v3a1 1 0 0 0 1 1h9a1 1 0 0 0 1-1v-3M5.5 5l2 2 3.5-4.5",
  agent: "M8 2v2M3.5 5.5a1.5 1.5 0 0 1 1.5-1.5h6a1.5 1.5 0 0 1 1.5 1.5v5A1.5 1.5 0 0 1 11 12H5a1.5 1.5 0 0 1-1.5-1.5zM6.2 7.3v1.4M9.8 7.3v1.4M6 14h4",
  alerts: "M8 2a4 4 0 0 1 4 4v3l1.5 2.5h-11L4 9V6a4 4 0 0 1 4-4zM6.5 13.5h3",
  week: "M3 3.5h10a.5.5 0 0 1 .5.5v9a.5.5 0 0 1-.5.5H3a.5.5 0 0 1-.5-.5V4a.5.5 0 0 1 .5-.5zM2.5 6.5h11M5.5 2v3M10.5 2v3",
  breakers: "M9 1.5 3.5 9H8l-1 5.5L12.5 7H8z",
  quiet: "M13.5 9.6A5.7 5.7 0 0 1 6.4 2.5a5.7 5.7 0 1 0 7.1 7.1z",
  audit: "M4 1.8h8v12.4l-2-1.4-2 1.4-2-1.4-2 1.4zM6.3 5h3.4M6.3 8h3.4",
  system: "M2.5 3h11v4h-11zM2.5 9h11v4h-11zM5 5h.01M5 11h.01",
  search: "M7 12A5 5 0 1 0 7 2a5 5 0 0 0 0 10zM10.7 10.7 14 14",
  plus: "M8 3v10M3 8h10",
  pause: "M5.5 3.5v9M10.5 3.5v9",
  play: "M5 3.2v9.6L12.5 8z",
  bin: "M3 4.5h10M6.5 4.5V3h3v1.5M4.5 4.5l.6 9h5.8l.6-9",
  down: "M4 6.5 8 10.5l4-4",
  next: "M6 3.5 10.5 8 6 12.5",
  prev: "M10 3.5 5.5 8 10 12.5",
  close: "M4 4l8 8M12 4l-8 8",
  copy: "M5.5 5.5h8v8h-8zM3.5 10.5h-1v-8h8v1",
  sun: "M8 11a3 3 0 1 0 0-6 3 3 0 0 0 0 6zM8 1.5v1.2M8 13.3v1.2M1.5 8h1.2M13.3 8h1.2M3.4 3.4l.9.9M11.7 11.7l.9.9M12.6 3.4l-.9.9M4.3 11.7l-.9.9",
  moon: "M13.5 9.6A5.7 5.7 0 0 1 6.4 2.5a5.7 5.7 0 1 0 7.1 7.1z",
  screen: "M2.5 3h11v7.5h-11zM6 13.5h4M8 10.5v3",
  more: "M3.5 8h.01M8 8h.01M12.5 8h.01",
  table: "M2.5 3h11v10h-11zM2.5 6.5h11M6.5 6.5V13",
  filter: "M2.5 3.5h11L9.5 8.4v4.1l-3 1.2V8.4z",
  rerun: "M13 8a5 5 0 1 1-1.6-3.7M13 2.5v3h-3",
  stop: "M4 4h8v8H4z",
  edit: "M10.5 3 13 5.5 6 12.5l-3 .5.5-3z",
  file: "M4 1.8h5l3 3v9.4H4zM9 1.8v3h3",
  wrap: "M2.5 4h11M2.5 8h8.5a2 2 0 0 1 0 4H8.5M10 10.5 8.5 12l1.5 1.5M2.5 12h3",
  save: "M8 2.5v8M4.8 7.5 8 10.7l3.2-3.2M3 13.5h10",
  menu: "M2.5 4.5h11M2.5 8h11M2.5 11.5h11",
  key: "M10.3 9.2a3.5 3.5 0 1 0-3.5-3.5c0 .4.1.8.2 1.2L2.5 11.4v2.1h2.1l.9-.9v-1.4h1.4l1.2-1.2",
  out: "M6 2.5H3.5v11H6M7 8h6.5M11 5.3 13.7 8 11 10.7",
};
export const Icon = ({ name }) => html`<svg class="icon" viewBox="0 0 16 16" aria-hidden="true"><path d=${ICONS[name] || ""} /></svg>`;

const cut = { fill: "none", stroke: "var(--on-mark)", "stroke-width": 1.7, "stroke-linecap": "round", "stroke-linejoin": "round" };
const line = (colour, width = 1.6) => ({ fill: "none", stroke: colour, "stroke-width": width, "stroke-linecap": "round", "stroke-linejoin": "round" });
const DRAW = {
  ok: (c) => html`<circle cx="7" cy="7" r="6" fill=${c} /><path d="M4.2 7.2l2 2 3.6-4.2" ...${cut} />`,
  fail: (c) => html`<rect x="1" y="1" width="12" height="12" rx="2.5" fill=${c} /><path d="M4.8 4.8l4.4 4.4M9.2 4.8 4.8 9.2" ...${cut} />`,
  timeout: (c) => html`<rect x="1" y="1" width="12" height="12" rx="2.5" fill=${c} /><path d="M7 3.8V7.4h2.6" ...${cut} />`,
  lost: (c) => html`<rect x="1.8" y="1.8" width="10.4" height="10.4" rx="2.5" fill="none" stroke=${c} stroke-width="1.5" stroke-dasharray="2.4 1.8" /><path d="M7 4v3.6M7 9.9v.1" ...${line(c, 1.7)} />`,
  run: (c) => html`<circle cx="7" cy="7" r="5.2" fill="none" stroke=${c} stroke-width="1.6" opacity="0.35" /><path d="M7 1.8A5.2 5.2 0 0 1 12.2 7" ...${line(c, 2)} /><circle cx="7" cy="7" r="2.1" fill=${c} />`,
  queued: (c) => html`<circle cx="7" cy="7" r="5.2" ...${line(c)} /><path d="M4.8 7h.01M7 7h.01M9.2 7h.01" ...${line(c, 1.7)} />`,
  hold: (c) => html`<rect x="1" y="1" width="12" height="12" rx="6" fill=${c} /><path d="M5.4 4.8v4.4M8.6 4.8v4.4" ...${cut} />`,
  miss: (c) => html`<path d="M1.6 2.6h10.8L7 12.2z" ...${line(c, 1.7)} />`,
  skip: (c) => html`<path d="M7 1.6 12.4 7 7 12.4 1.6 7z" ...${line(c)} />`,
  cancel: (c) => html`<circle cx="7" cy="7" r="5.2" ...${line(c)} /><path d="M3.6 10.4l6.8-6.8" ...${line(c)} />`,
  next: (c) => html`<rect x="4.6" y="1.4" width="4.8" height="11.2" rx="1.6" ...${line(c, 1.5)} />`,
  paused: (c) => html`<circle cx="7" cy="7" r="5.2" ...${line(c)} /><path d="M5.7 5v4M8.3 5v4" ...${line(c, 1.5)} />`,
  warn: (c) => html`<path d="M7 1.4 13 12.4H1z" fill=${c} stroke=${c} stroke-linejoin="round" /><path d="M7 5.4v3.2M7 10.6v.1" ...${cut} />`,
  info: (c) => html`<circle cx="7" cy="7" r="5.2" ...${line(c, 1.5)} /><path d="M7 6.4v3M7 4.4v.1" ...${line(c)} />`,
};
export const HUE = { ok: "ok", fail: "fail", timeout: "fail", lost: "fail", run: "run", queued: "run", hold: "hold", miss: "miss", skip: "skip", cancel: "skip", next: "next", paused: "skip", warn: "hold", info: "run" };
export const WORD = { ok: "succeeded", fail: "failed", timeout: "timed out", lost: "lost", run: "running", queued: "queued", hold: "held", miss: "missed", skip: "skipped", cancel: "cancelled", next: "upcoming", paused: "paused" };
// The word of the API for an outcome, and the mark that stands for it.
export const KIND = { succeeded: "ok", failed: "fail", timed_out: "timeout", lost: "lost", running: "run", queued: "queued", cancelled: "cancel", skipped: "skip", missed: "miss", held: "hold", upcoming: "next", caught_up: "ok", fired: "run" };
export const capital = (text) => (text ? text[0].toUpperCase() + text.slice(1) : "");

export const Glyph = ({ kind, title }) =>
  html`<svg class="glyph" viewBox="0 0 14 14" role=${title ? "img" : undefined} aria-label=${title} aria-hidden=${title ? undefined : "true"}>${(DRAW[kind] || DRAW.info)(`var(--${HUE[kind] || "run"})`)}</svg>`;
const TONE = { timeout: "fail", lost: "fail", queued: "run", warn: "hold", info: "run" };
export const Pill = ({ kind, children }) => html`<span class="pill ${TONE[kind] || kind}"><${Glyph} kind=${kind} />${children}</span>`;
export const Outcome = ({ kind, children }) => html`<span class="outcome"><${Glyph} kind=${kind} /><span>${children || capital(WORD[kind])}</span></span>`;

// The last slots as cells: outcome by colour, and by height and form.
const CELL = 6, GAP = 2, HEIGHT = 20, CELLS = 30;
function cell(kind, x) {
  const c = `var(--${HUE[kind] || "skip"})`;
  if (kind === "ok") return html`<rect x=${x} y="5" width=${CELL} height="15" rx="1.5" fill=${c} />`;
  if (kind === "fail") return html`<rect x=${x} y="0" width=${CELL} height="20" rx="1.5" fill=${c} /><path d="M${x + 1.3} 8.3l3.4 3.4m0-3.4-3.4 3.4" stroke="var(--on-mark)" stroke-width="1.3" fill="none" />`;
  if (kind === "timeout" || kind === "lost") return html`<rect x=${x} y="0" width=${CELL} height="20" rx="1.5" fill=${c} /><path d="M${x + 3} 7.5v3.2h2" stroke="var(--on-mark)" stroke-width="1.2" fill="none" />`;
  if (kind === "skip" || kind === "cancel") return html`<rect x=${x} y="15" width=${CELL} height="5" rx="1.5" fill=${c} opacity="0.75" />`;
  if (kind === "miss") return html`<rect x=${x + 0.75} y="5.75" width=${CELL - 1.5} height="13.5" rx="1.2" fill="none" stroke=${c} stroke-width="1.5" />`;
  if (kind === "hold") return html`<rect x=${x} y="5" width=${CELL} height="6" rx="1.5" fill=${c} /><rect x=${x} y="14" width=${CELL} height="6" rx="1.5" fill=${c} />`;
  return html`<rect x=${x} y="5" width=${CELL} height="15" rx="1.5" fill=${c} opacity="0.3" /><rect x=${x} y="12" width=${CELL} height="8" rx="1.5" fill=${c} />`;
}
export function Strip({ slots }) {
  if (!slots?.length) return html`<span class="muted">no slots yet</span>`;
  const kinds = slots.slice(-CELLS).map((slot) => KIND[slot.outcome] || "skip"), tally = new Map();
  for (const kind of kinds) tally.set(WORD[kind], (tally.get(WORD[kind]) || 0) + 1);
  const words = `Last ${kinds.length === 1 ? "slot" : `${kinds.length} slots, oldest first`}: ${[...tally].map(([word, count]) => `${count} ${word}`).join(", ")}`;
  const width = CELLS * (CELL + GAP) - GAP, first = CELLS - kinds.length;
  return html`<svg class="strip" width=${width} height=${HEIGHT} viewBox="0 0 ${width} ${HEIGHT}" role="img" aria-label=${words}>${kinds.map((kind, i) => cell(kind, (i + first) * (CELL + GAP)))}</svg>`;
}

export const Logo = () => html`<svg viewBox="0 0 22 22" aria-hidden="true"><rect x="1" y="6" width="7.5" height="10" rx="2" fill="var(--text)" /><rect x="10.2" y="1.5" width="1.8" height="19" rx="0.9" fill="var(--accent)" /><rect x="14.3" y="6.7" width="6.2" height="8.6" rx="1.6" fill="none" stroke="var(--text)" stroke-width="1.4" /></svg>`;
