// The year as a map of days, and lines of durations and lags. Each picture has its figures in a table beside it.
import { html, useEffect, useRef } from "./lib.js";
import { colours } from "./shell.js";
import { DAY, day, dayKey, hm, hms, ms, now, number, ZONE } from "./time.js";
import { KIND } from "./glyphs.js";

const FAILED = ["failed", "timed_out", "lost"];
const CELL = 13, WEEKS = 53;
const LEAST = 30; // seconds: the jobs of a chart may all be of one slot

// The worst outcome of each day; five steps of volume for good days.
export function Year({ days, zone }) {
  const byDay = new Map(days.map((one) => [one.day, one.counts])), most = Math.max(1, ...days.map((one) => one.counts.succeeded || 0));
  const today = Date.parse(`${dayKey(now.value, zone)}T12:00:00Z`), weekday = (new Date(today).getUTCDay() + 6) % 7, first = today - (weekday + 7 * (WEEKS - 1)) * DAY;
  const cells = [], months = [];
  for (let week = 0; week < WEEKS; week++) for (let day = 0; day < 7; day++) {
    const at = first + (week * 7 + day) * DAY;
    if (at > today) continue;
    const key = new Date(at).toISOString().slice(0, 10), counts = byDay.get(key), x = 28 + week * CELL, y = 18 + day * CELL;
    if (key.endsWith("-01") && week < WEEKS - 2) months.push([x, new Intl.DateTimeFormat("en-GB", { month: "short", timeZone: "UTC" }).format(at)]);
    const failed = counts ? FAILED.reduce((sum, word) => sum + (counts[word] || 0), 0) : 0, missed = counts?.missed || 0, good = counts?.succeeded || 0;
    const text = counts ? `${key}: ${Object.entries(counts).map(([word, count]) => `${number(count)} ${word.replace("_", " ")}`).join(", ")}` : `${key}: nothing`;
    const paint = !counts ? { fill: "var(--inset)" } : failed ? { fill: "var(--fail)" } : missed ? { fill: "none", stroke: "var(--miss)", "stroke-width": 1.4 } : good ? { fill: "var(--ok)", "fill-opacity": [0.38, 0.5, 0.62, 0.74, 0.86][Math.min(4, Math.floor((good / most) * 5))] } : { fill: "var(--skip)", "fill-opacity": 0.4 };
    cells.push(html`<g key=${key}><rect x=${x} y=${y} width="11" height="11" rx="2.5" ...${paint}><title>${text}</title></rect>${failed ? html`<path d="M${x + 3.4} ${y + 3.4}l4.2 4.2m0-4.2-4.2 4.2" stroke="var(--on-mark)" stroke-width="1.3" fill="none" pointer-events="none" />` : null}</g>`);
  }
  const bad = days.filter((one) => FAILED.some((word) => one.counts[word])).length;
  return html`<svg width=${30 + WEEKS * CELL} height=${18 + 7 * CELL} role="img" aria-label=${`Outcomes per day: ${days.length} days with slots, ${bad} with failures. The table below has the figures.`}>${months.map(([x, text]) => html`<text key=${x} x=${x} y="9">${text}</text>`)}${["Mon", "Wed", "Fri"].map((text, i) => html`<text key=${text} x="0" y=${18 + (i * 2 + 0.78) * CELL}>${text}</text>`)}${cells}</svg>`;
}

// A line of one figure of the last jobs; failures are crosses.
export function Chart({ points, value, unit, limit, label }) {
  const box = useRef(null);
  useEffect(() => {
    let chart = null, isGone = false;
    const draw = async () => {
      const { default: UPlot } = await import("./vendor/uplot.js").catch(() => ({})); // cut off: drawn with the next data
      if (!UPlot || isGone || !box.current) return;
      const style = getComputedStyle(document.documentElement), css = (name) => style.getPropertyValue(name).trim(), width = box.current.clientWidth;
      const times = points.map((one) => ms(one.slot_at) / 1000), good = points.map((one) => (KIND[one.status] === "fail" || KIND[one.status] === "timeout" || KIND[one.status] === "lost" ? null : value(one))), bad = points.map((one, i) => (good[i] === null ? value(one) : null));
      const first = Math.min(...times), last = Math.max(...times);
      const font = `500 10px ${css("--font")}`, axis = { stroke: css("--text-3"), grid: { stroke: css("--line"), width: 1 }, ticks: { show: false }, font };
      const series = [{}, { stroke: css("--run"), width: 1.5, spanGaps: true, points: { show: points.length < 60, size: 4, fill: css("--run") } }, { stroke: css("--fail"), width: 0, paths: () => null, points: { show: true, size: 7, stroke: css("--fail"), fill: css("--fail") } }];
      const data = [times, good, bad];
      if (limit !== null && limit !== undefined) { series.push({ stroke: css("--text-3"), width: 1, dash: [3, 3], points: { show: false } }); data.push(times.map(() => limit)); }
      box.current.replaceChildren();
      chart = new UPlot({ width, height: 150, legend: { show: false }, cursor: { show: false }, padding: [8, 8, 0, 0], tzDate: (at) => UPlot.tzDate(new Date(at * 1000), ZONE), scales: { x: { range: () => (last - first < LEAST ? [first - LEAST, last + LEAST] : [first, last]) }, y: { range: (_, low, high) => [0, Math.max(high || 1, limit || 0) * 1.1] } }, series, axes: [{ ...axis, values: (_, marks) => marks.map((at, i) => (marks[i + 1] - at < 60 || at - marks[i - 1] < 60 ? hms : marks.at(-1) - marks[0] > 86400 ? day : hm)(at * 1000)), space: 80 }, { ...axis, size: 44, values: (_, marks) => marks.map((mark) => `${+mark.toPrecision(3)}`) }] }, data, box.current);
    };
    draw();
    const resize = new ResizeObserver(() => { if (chart && box.current && Math.abs(box.current.clientWidth - chart.width) > 4) draw(); });
    resize.observe(box.current);
    return () => { isGone = true; resize.disconnect(); chart?.destroy(); };
  }, [points, colours.value]);
  const values = points.map(value).filter((one) => one !== null);
  const words = values.length ? `${label} of the last ${values.length === 1 ? "job" : `${values.length} jobs`}, in ${unit}: from ${+Math.min(...values).toPrecision(3)} to ${+Math.max(...values).toPrecision(3)}. The table of slots has each.` : `${label}: no job has ended yet.`;
  return html`<div class="plot" ref=${box} role="img" aria-label=${words}></div>`;
}
