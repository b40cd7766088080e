// What a person does to schedules: each as a dialog that says what will happen, and a toast with its inverse.
import { html, useState } from "./lib.js";
import { get, me, post, Problem, remove } from "./api.js";
import { capital } from "./glyphs.js";
import { Ask, complain, Failed, Field, Loading, plural, scheduleName, toast, useData, visible } from "./parts.js";
import { reasonText } from "./terms.js";
import { absolute, DAY, HOUR, MINUTE, ms, now, number, offsetOf, startOfDay, ZONE } from "./time.js";

const DELAY = 10000; // how long a deletion waits in the page

const path = (schedule, verb) => `schedules/${encodeURIComponent(schedule.id)}/${verb ? `${verb}/` : ""}`;
const listed = (schedules) => { const names = schedules.slice(0, 2).map((one) => visible(scheduleName(one))); return schedules.length > 2 ? `${names.join(", ")} and ${schedules.length - 2} more` : names.join(" and "); };
const count = (schedules) => (schedules.length === 1 ? scheduleName(schedules[0]) : plural(schedules.length, "schedule"));

// Change each of these, and return those that were changed; what is refused is said with its first reason.
async function changeEach(schedules, verb, word, bodyOf = () => ({})) {
  const changed = [], refused = [];
  if (schedules.length > 1 && schedules.every((one) => !Object.keys(bodyOf(one)).length)) {
    const { items } = await post(`schedules/batch-${verb}/`, { schedule_ids: schedules.map((one) => one.id) });
    items.forEach(({ problem }, i) => (problem ? refused.push(problem.detail) : changed.push(schedules[i])));
  } else for (const one of schedules) {
    try { await post(path(one, verb), bodyOf(one)); changed.push(one); } catch (problem) { if (!(problem instanceof Problem) || schedules.length === 1) throw problem; refused.push(problem.message); }
  }
  if (refused.length) toast(`${refused.length} of ${plural(schedules.length, "schedule")} ${refused.length === 1 ? "was" : "were"} not ${word}: ${refused[0]}`, { kind: "fail", lasts: 12000 });
  return changed;
}
// The inverse touches only what was changed, and gives a pause its note and its end again.
async function pauseEach(schedules, bodyOf, done) {
  const changed = await changeEach(schedules, "pause", "paused", bodyOf);
  if (changed.length) toast(`Paused ${count(changed)}.`, { undo: () => resumeAll(changed, done) });
  done?.();
}
const pauseOf = (one) => ({ ...(one.status_reason ? { note: one.status_reason } : {}), ...(ms(one.resume_at) > now.value ? { until: one.resume_at } : {}) });
export async function resumeAll(schedules, done) {
  try {
    const changed = await changeEach(schedules, "resume", "resumed");
    if (changed.length) toast(`Resumed ${count(changed)}.`, { undo: () => pauseEach(changed, pauseOf, done).catch(complain) });
  } catch (problem) { if (!(problem instanceof Problem)) throw problem; complain(problem); }
  done?.();
}

export function PauseDialog({ schedules, onClose, done }) {
  const [note, setNote] = useState(""), [until, setUntil] = useState("");
  const running = schedules.reduce((sum, one) => sum + one.running_jobs, 0);
  const options = [["", "Until somebody resumes it"], [now.value + HOUR, "In an hour"], [startOfDay(now.value, 1) + 8 * HOUR, "Tomorrow at 08:00"], [now.value + 7 * DAY, "In a week"]];
  const send = () => pauseEach(schedules, () => ({ ...(note ? { note } : {}), ...(until ? { until: new Date(Number(until)).toISOString() } : {}) }), done);
  return html`<${Ask} title=${`Pause ${count(schedules)}?`} verb=${`Pause ${count(schedules)}`} cancel="Keep running" onSend=${send} onClose=${onClose}>
    <p class="second">${listed(schedules)} ${schedules.length === 1 ? "fires" : "fire"} nothing until ${schedules.length === 1 ? "it is" : "they are"} resumed. ${running ? `${plural(running, "running job")} ${running === 1 ? "goes" : "go"} on; what is queued is cancelled.` : "What is queued is cancelled."}</p>
    <${Field} id="pause-note" label="Note" hint="Shown to whoever asks why it does not fire."><input id="pause-note" class="input" maxlength="500" value=${note} onInput=${(event) => setNote(event.target.value)} /><//>
    <${Field} id="pause-until" label="Resume by itself" hint=${`In ${ZONE}.`}><select id="pause-until" class="select" value=${until} onChange=${(event) => setUntil(event.target.value)}>${options.map(([value, text]) => html`<option key=${text} value=${value}>${text}${value ? `, ${absolute(Number(value), now.value)}` : ""}</option>`)}</select><//><//>`;
}

// A deletion cannot be undone once it is sent, so it waits in the page; closing the page, or signing out, drops it.
export function DeleteDialog({ schedules, onClose, done }) {
  const mine = schedules.filter((one) => one.source !== "config"), others = schedules.length - mine.length;
  const send = async () => {
    const who = me.value.id;
    const end = async () => {
      if (me.value?.id !== who) return;
      try {
        if (mine.length === 1) await remove(path(mine[0])); else await post("schedules/batch-delete/", { schedule_ids: mine.map((one) => one.id) });
        toast(`Deleted ${count(mine)}.`);
        done?.();
      } catch (problem) { complain(problem); }
    };
    toast(`Deleting ${count(mine)}. Once it is sent it cannot be undone.`, { kind: "warn", lasts: DELAY, undoLabel: "Keep", undo: () => toast(`Kept ${count(mine)}.`), onEnd: end });
  };
  if (!mine.length) return html`<${Ask} title="These are declared in the file" verb="Close" onSend=${async () => {}} onClose=${onClose}><p class="second">Schedules of the configuration file are removed there: take ${schedules.length === 1 ? "its entry" : "their entries"} out and reload.</p><//>`;
  return html`<${Ask} title=${`Delete ${count(mine)}?`} verb=${`Delete ${count(mine)}`} isDanger onSend=${send} onClose=${onClose}>
    <p class="second">${listed(mine)} will fire nothing any more; running jobs end by themselves, queued ones are cancelled. The record of past slots stays until retention.</p>
    <p class="second">It is sent after 10 seconds. Until then you can keep ${mine.length === 1 ? "it" : "them"}, also by closing this page; afterwards it cannot be undone.</p>
    ${others ? html`<p class="second">${plural(others, "schedule")} of the configuration file ${others === 1 ? "stays" : "stay"}: those are removed in the file.</p>` : null}<//>`;
}

// What a request to run something led to: a job, or the reason why there is none.
function fired(found, text) {
  if (found.job) toast([`${text}: job ${found.job.id}.`, ...(found.warnings || []).map((one) => `${capital(one)}.`)].join(" "), { kind: found.warnings?.length ? "warn" : undefined }); else toast(`Not run: ${reasonText(found.skipped)}.`, { kind: "skip" });
  return found;
}
// The keys of a payload without a masked secret: what is left out of a request stays as the schedule has it.
const readable = (payload) => Object.fromEntries(Object.entries(payload || {}).filter(([, one]) => !JSON.stringify(one).includes("***")));
export function TriggerDialog({ schedule, onClose, done }) {
  const [text, setText] = useState(JSON.stringify(readable(schedule.payload), null, 2)), [isOwn, setOwn] = useState(false);
  // Of what waits, the revision that is shown runs, and none that was written a moment ago.
  const send = async () => {
    const body = {};
    if (isOwn) { try { body.payload = JSON.parse(text); } catch (error) { throw new Problem(422, { detail: `The payload is not valid JSON: ${error.message}` }); } }
    const { job } = fired(await post(path(schedule, "trigger"), body, schedule.paused_by === "approval" && { headers: { "if-match": `"${schedule.revision}"` } }), `Triggered ${scheduleName(schedule)}`);
    done?.(job);
  };
  return html`<${Ask} title=${`Trigger ${scheduleName(schedule)}?`} verb="Trigger now" onSend=${send} onClose=${onClose}>
    <p class="second">It runs once, now, beside its slots; counters and breaker do not move.</p>
    <label class="row"><input type="checkbox" class="check" checked=${isOwn} onChange=${(event) => setOwn(event.target.checked)} />With a payload of its own</label>
    ${isOwn ? html`<${Field} id="trigger-payload" label="Payload"><textarea id="trigger-payload" class="area mono" rows="6" spellcheck=${false} value=${text} onInput=${(event) => setText(event.target.value)}></textarea><//>` : null}<//>`;
}

// The instant at which the clocks of a zone show a time of an input ("2026-11-16T09:00"), as RFC 3339; null: none is typed.
function typedIn(text, zone) {
  const wall = Date.parse(`${text}Z`);
  if (Number.isNaN(wall)) return null;
  const guess = wall - offsetOf(wall, zone) * MINUTE;
  return new Date(wall - offsetOf(guess, zone) * MINUTE).toISOString();
}
const local = (at, zone) => new Date(at + offsetOf(at, zone) * MINUTE).toISOString().slice(0, 16);
export function BackfillDialog({ schedule, onClose, done }) {
  const [from, setFrom] = useState(local(startOfDay(now.value, -1, schedule.timezone), schedule.timezone)), [to, setTo] = useState(local(startOfDay(now.value, 0, schedule.timezone), schedule.timezone)), [dry, setDry] = useState(null);
  const body = (isDry) => ({ from: typedIn(from, schedule.timezone), to: typedIn(to, schedule.timezone), dry_run: isDry });
  const send = async () => {
    const found = await post(path(schedule, "backfill"), body(!dry?.count));
    if (!dry?.count) { setDry(found); return false; }
    toast(`Backfilling ${plural(found.count, "slot")} of ${scheduleName(schedule)}.`);
    done?.();
    return true;
  };
  return html`<${Ask} title=${`Backfill ${scheduleName(schedule)}?`} verb=${dry?.count ? `Run ${plural(dry.count, "slot")}` : "Count the slots"} onSend=${send} onClose=${onClose}>
    <p class="second">Slots of the past that have no job run one after another. First they are only counted.</p>
    <div class="form-2"><${Field} id="backfill-from" label="From" hint=${schedule.timezone}><input id="backfill-from" type="datetime-local" class="input" value=${from} onInput=${(event) => { setFrom(event.target.value); setDry(null); }} /><//>
    <${Field} id="backfill-to" label="To, not included" hint=${schedule.timezone}><input id="backfill-to" type="datetime-local" class="input" value=${to} onInput=${(event) => { setTo(event.target.value); setDry(null); }} /><//></div>
    <p role="status" class="second">${!dry ? "" : !dry.count ? "No slot of this time is without a job: nothing would run." : `${number(dry.count)} ${dry.count === 1 ? "slot has" : "slots have"} no job.${dry.slots.length ? ` First ${absolute(ms(dry.slots[0]), now.value, schedule.timezone)}, last ${absolute(ms(dry.slots.at(-1)), now.value, schedule.timezone)}.` : ""}`}</p><//>`;
}

async function settle(schedule, verb, text, done, sent) {
  try { await post(path(schedule, verb), sent); toast(`${text} ${scheduleName(schedule)}.`); } catch (problem) { complain(problem); }
  done?.();
}
export const revive = (schedule, done) => settle(schedule, "revive", "Revived", done);
export const approve = (schedule, done) => settle(schedule, "approve", `Approved revision ${schedule.revision} of`, done, { revision: schedule.revision });
export function DeclineDialog({ schedule, onClose, done }) {
  const [note, setNote] = useState("");
  const send = async () => {
    await post(path(schedule, "decline"), note ? { note } : {});
    toast(`Declined ${scheduleName(schedule)}.`);
    done?.();
  };
  return html`<${Ask} title=${`Decline ${scheduleName(schedule)}?`} verb="Decline and delete" isDanger onSend=${send} onClose=${onClose}>
    <p class="second">It is deleted without having fired this revision. The note stays in the audit, for whoever asked for it. It cannot be undone.</p>
    <${Field} id="decline-note" label="Note"><input id="decline-note" class="input" maxlength="500" value=${note} onInput=${(event) => setNote(event.target.value)} /><//><//>`;
}

// Those jobs that were seen are cancelled, and no others.
export function CancelDialog({ jobs, onClose, done }) {
  const isOne = jobs.length === 1, running = jobs.filter((job) => job.status === "running").length, what = isOne ? "the job" : plural(jobs.length, "job");
  const send = async () => {
    for (const job of jobs) await post(`jobs/${encodeURIComponent(job.id)}/cancel/`);
    toast(isOne ? "The job is cancelled." : `Cancelled ${what}.`);
    done?.();
  };
  return html`<${Ask} title=${`Cancel ${isOne ? "this job" : what}?`} verb=${`Cancel ${what}`} cancel=${isOne ? "Let it run" : "Let them run"} isDanger onClose=${onClose} onSend=${send}>
    <p class="second">${!running ? `${isOne ? "It" : "They"} will not start.` : `${isOne ? "Its process is" : `${plural(running, "running job")} ${running === 1 ? "is" : "are"}`} asked to end, and killed a few seconds later.`} ${isOne ? "Its slot counts" : "Their slots count"} as cancelled; the schedule goes on.</p>
    ${isOne ? null : html`<ul class="row wrap">${jobs.map((job) => html`<li class="tag mono" key=${job.id}>${job.id}</li>`)}</ul>`}<//>`;
}
// What a schedule runs now, and what waits for a worker.
export function CancelAllDialog({ schedule, onClose, done }) {
  const { data, problem, again } = useData(async (abort) => (await Promise.all(["running", "queued"].map((status) => get("jobs/", { schedule_id: schedule.uid, status, limit: 100 }, { signal: abort })))).flatMap((found) => found.items), [schedule.uid]);
  if (data?.length) return html`<${CancelDialog} jobs=${data} onClose=${onClose} done=${done} />`;
  return html`<${Ask} title=${`Cancel jobs of ${scheduleName(schedule)}?`} verb="Close" onSend=${async () => {}} onClose=${onClose}>${problem ? html`<${Failed} what="The jobs could not be loaded" problem=${problem} again=${again} />` : data ? html`<p class="second">None runs or waits any more.</p>` : html`<${Loading} rows=${2} />`}<//>`;
}
export async function rerunJob(id, done) {
  try { const { job } = fired(await post(`jobs/${encodeURIComponent(id)}/rerun/`), "Runs again"); if (job) done(job); } catch (problem) { complain(problem); }
}
