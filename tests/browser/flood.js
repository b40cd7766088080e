// So many events, as the stream hands them to the page; each batch is taken and drawn before the next comes.
async ([root, count]) => {
  const { hearOne, onEvents } = await import(`${root}/live.js`);
  const common = { id: null, schedule_id: "health-ping", reason: "retrying", slot_count: 1, detail: { seconds: 1 } };
  const frame = () => new Promise((done) => requestAnimationFrame(() => setTimeout(done)));
  const taken = () => new Promise((done) => { const stop = onEvents(() => { stop(); done(); }); });
  for (let i = 0; i < count; i++) {
    const at = new Date().toISOString(), slot_at = new Date(Date.now() - i).toISOString();
    hearOne({ ...common, type: i % 3 ? "job.succeeded" : "schedule.skipped", at, slot_at, job_id: `${at}${i}` });
    if ((i + 1) % 5000 === 0) { await taken(); await frame(); await frame(); }
  }
}
