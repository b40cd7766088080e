// 50 rows of 200 jobs on the time line's canvas, moved as a hand moves it; each frame is painted before the next.
async (root) => {
  const { Timeline, barOf } = await import(`${root}/timeline.js`);
  const host = document.createElement("div"), canvas = document.createElement("canvas");
  const paper = canvas.getContext("2d", { willReadFrequently: true }); // painted by the processor
  host.style.width = "1100px";
  host.append(canvas);
  document.body.append(host);
  const line = new Timeline(canvas, { onHover() {}, onWindow() {}, onOpen() {} });
  const at = Date.now(), span = 6 * 3600e3, step = span / 200, rows = [], bars = [];
  for (let r = 0; r < 50; r++) {
    rows.push({ schedule_id: `s${r}`, label: `s${r}`, closedTimes: [] });
    for (let i = 0; i < 200; i++) {
      const [slot_at, ended_at] = [i, i + 0.5].map((n) => new Date(at - span + n * step).toISOString());
      const status = i % 17 ? "succeeded" : "failed", more = { job_id: `${r}-${i}`, count: 1 };
      const bar = { kind: "job", status, schedule_id: `s${r}`, slot_at, due_at: slot_at, started_at: slot_at, ended_at };
      bars.push(barOf({ ...bar, ...more }, 1000));
    }
  }
  line.setData({ rows, bars, spans: [], stretches: [], hasMore: false });
  line.resize();
  const times = [];
  for (let i = 0; i < 60; i++) {
    const began = performance.now(), shift = i * 60e3, zoom = 1 + 0.3 * Math.sin(i / 6);
    line.window = [at - span * zoom + shift, at + shift];
    line.draw();
    paper.getImageData(0, 0, 1, 1);
    times.push(performance.now() - began);
  }
  line.close();
  host.remove();
  times.sort((a, b) => a - b);
  return { bars: bars.length, hits: line.hits.length, frames: times.length, median: times[30], p95: times[56] };
}
