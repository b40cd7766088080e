// A job: its log as it comes, its timings, its payload and result, and the jobs before it.
import { html, useEffect, useRef, useState } from "../lib.js";
import { get, may } from "../api.js";
import { useKeys } from "../keys.js";
import { absolute, duration, ms, now, number, ofSchedule, precise, relative, ZONE, zoneName } from "../time.js";
import { capital, Glyph, HUE, Icon, KIND, Pill, WORD } from "../glyphs.js";
import { complain, Copy, Empty, Failed, Loading, plural, Running, Seg, useData, visible } from "../parts.js";
import { CancelDialog, rerunJob } from "../actions.js";
import { jobName } from "../names.js";
import { errorText, reasonText } from "../terms.js";
import { go, href } from "../router.js";
import { Page } from "../shell.js";
import { cost, costOfJob } from "../meters.js";
import { LogLines } from "../log_lines.js";

export function JobPage({ id }) {
  const path = `jobs/${encodeURIComponent(id)}/`;
  const { data: job, problem, again } = useData((abort) => get(path, null, { signal: abort }), [id], { events: (event) => event.job_id === id, every: 10000 });
  const [isAsking, setAsking] = useState(false);
  const schedule = useData((abort) => (job ? get(`schedules/${encodeURIComponent(job.uid)}/`, null, { signal: abort }).catch(() => null) : Promise.resolve(null)), [job?.uid]).data;
  const isOver = job && !["queued", "running"].includes(job.status), kind = job && KIND[job.status];
  const name = job ? (schedule?.source === "api" && schedule.name ? schedule.name : schedule ? job.schedule_id : job.schedule_name || job.schedule_id) : id;
  return html`<${Page} title=${job ? `${jobName(job.id)}, attempt ${Math.max(1, job.attempt)}` : id} crumb=${["jobs", "Jobs"]}>
    ${problem && !job ? html`<section class="card"><${Failed} what=${problem.status === 404 ? "There is no such job" : "The job could not be loaded"} problem=${problem} again=${again} /></section>` : !job ? html`<section class="card"><${Loading} rows=${8} /></section>` : html`
    <div class="title-row"><div class="stack"><div class="row wrap"><h2><a class="plain" href=${href("schedules", job.schedule_id)}>${visible(name)}</a></h2>${kind === "ok" ? html`<span class="outcome second"><${Glyph} kind="ok" />Succeeded</span>` : html`<${Pill} kind=${kind}>${kind === "run" ? html`Running for <${Running} since=${job.started_at} />` : capital(WORD[kind])}<//>`}</div>
      <p class="row wrap muted"><span class="mono">${job.id}</span><${Copy} text=${job.id} label="Copy the job id" isShort /><span>slot <a href=${href("schedules", job.schedule_id, { at: job.slot_at })}>${ofSchedule(ms(job.slot_at), now.value, job.timezone)}</a> · ${job.origin.replace("_", " ")}${job.retry ? `, retry ${job.retry}` : ""}${job.queue !== "default" ? ` · queue ${visible(job.queue)}` : ""}</span></p>
      ${job.error ? html`<p class="problem-line"><${Glyph} kind="fail" /><span class="clip-2">${visible(errorText(job.error_message, job.error_type))}</span></p>` : job.reason ? html`<p class="second">${capital(reasonText(job.reason))}.</p>` : null}</div>
      ${may("operator") ? html`<div class="acts"><button class="btn" disabled=${!isOver} title=${isOver ? undefined : "Possible once the job has ended"} onClick=${() => rerunJob(job.id, (next) => go(href("jobs", next.id)))}><${Icon} name="rerun" />Re-run</button><button class="btn danger" disabled=${isOver} onClick=${() => setAsking(true)}><${Icon} name="stop" />Cancel…</button></div>` : null}</div>
    <div class="job"><div class="stack"><${Log} key=${id} path=${path} isOver=${isOver} id=${id} />
        <${Earlier} job=${job} /></div>
      <div class="stack job-side"><${HowLong} job=${job} /><${Cost} job=${job} /><${Timings} job=${job} schedule=${schedule} />
        ${job.error !== null && job.error !== job.error_message ? html`<${Block} title="Error" text=${job.error} />` : null}
        ${job.result !== null ? html`<${Block} title="Result" text=${pretty(job.result)} />` : null}
        <${Block} title="Payload" text=${JSON.stringify(job.payload ?? schedule?.payload ?? {}, null, 2)} hint=${job.payload ? "given for this job" : "of the schedule"} /></div></div>`}
    ${isAsking ? html`<${CancelDialog} jobs=${[job]} onClose=${() => setAsking(false)} done=${again} />` : null}<//>`;
}
const pretty = (text) => { try { return JSON.stringify(JSON.parse(text), null, 2); } catch { return text; } };
const Block = ({ title, text, hint }) => html`<section class="card"><header><h2>${title}</h2><span class="end">${hint ? html`<span class="muted">${hint}</span>` : null}<${Copy} text=${text} label=${`Copy the ${title.toLowerCase()}`} isShort /></span></header><div class="body"><pre class="code">${visible(text)}</pre></div></section>`;

// -- the log --

function Log({ path, isOver, id }) {
  const model = useRef(new LogLines()), box = useRef(null), after = useRef(null), over = useRef(false);
  const [, render] = useState(0), [stream, setStream] = useState("all"), [find, setFind] = useState(""), [isWrapped, setWrapped] = useState(true), [isFollowing, setFollowing] = useState(true), [problem, setProblem] = useState(null), [isLoaded, setLoaded] = useState(false), [hit, setHit] = useState(0);
  const ends = useRef(isOver);
  ends.current = isOver;
  useEffect(() => {
    let timer = 0, isGone = false;
    const read = async () => {
      try {
        const found = await get(`${path}log/`, { after: after.current });
        if (isGone) return;
        model.current.add(found.items);
        after.current = found.next_after;
        over.current = found.is_over;
        setLoaded(true); setProblem(null); render((n) => n + 1);
      } catch (failure) { if (!isGone) setProblem(failure); }
      if (!isGone && !over.current) timer = setTimeout(read, document.hidden ? 5000 : 800);
    };
    read();
    return () => { isGone = true; clearTimeout(timer); };
  }, []);
  const toEnd = () => { const el = box.current; if (el) el.scrollTop = el.scrollHeight; };
  useEffect(() => { if (isFollowing) toEnd(); });
  const scrolled = () => { const el = box.current, isAtEnd = el.scrollHeight - el.scrollTop - el.clientHeight < 30; if (isAtEnd !== isFollowing) setFollowing(isAtEnd); };
  const toNewest = () => { setFollowing(true); toEnd(); };
  useKeys({ l: () => setFollowing((is) => !is), G: toNewest }, []);
  const errors = model.current.lines.filter((line) => line.stream === "stderr" && !line.gap).length;
  const lines = model.current.lines.filter((line) => stream === "all" || line.stream === stream);
  const needle = find.toLowerCase(), hits = needle ? lines.filter((line) => !line.gap && line.text.toLowerCase().includes(needle)) : [];
  const step = (by) => { if (!hits.length) return; const next = (hit + by + hits.length) % hits.length; setHit(next); setFollowing(false); box.current.querySelector(`[data-line="${hits[next].number}"]`)?.scrollIntoView({ block: "center" }); };
  const attempts = new Set(lines.map((line) => line.attempt)).size;
  return html`<section class="card" aria-label="Log">
    <header><${Seg} label="Stream" options=${[["all", "All"], ["stdout", "Output"], ["stderr", errors ? `Errors ${number(errors)}` : "Errors"]]} value=${stream} onChange=${setStream} />
      <label class="search hide-phone"><span class="sr">Find in the log</span><${Icon} name="search" /><input class="input" placeholder="Find" value=${find} onInput=${(event) => { setFind(event.target.value); setHit(0); }} onKeyDown=${(event) => { if (event.key === "Enter") step(event.shiftKey ? -1 : 1); }} /></label>${needle ? html`<span class="muted hide-phone nowrap" role="status">${hits.length ? `${Math.min(hit + 1, hits.length)} of ${hits.length}` : "none"}</span>` : null}
      <span class="end">${isOver ? null : html`<button class="btn quiet small" aria-pressed=${String(isFollowing)} title="Follow (L)" onClick=${() => setFollowing(!isFollowing)}><span class="live ${isFollowing ? "" : "off"}"><i></i>${isFollowing ? "Following" : "Not following"}</span></button>`}
        <button class="btn quiet square hide-phone" aria-label="Wrap long lines" aria-pressed=${String(isWrapped)} onClick=${() => setWrapped(!isWrapped)}><${Icon} name="wrap" /></button>
        <${Download} path=${path} id=${id} /></span></header>
    <div class="log ${isWrapped ? "" : "flat"}" role="log" tabindex="0" aria-label="Log lines" aria-live="off" ref=${box} onScroll=${scrolled}>
      ${problem && !isLoaded ? html`<${Failed} what="The log could not be loaded" problem=${problem} />` : !isLoaded ? html`<${Loading} rows=${8} />` : !lines.length ? html`<${Empty} icon="jobs" title=${isOver ? "It printed nothing" : "Nothing printed yet"}><p>${isOver ? "No output was kept." : "Lines appear here as they come."}</p><//>` : html`<ol>${model.current.dropped ? html`<li class="gap">${plural(model.current.dropped, "earlier line")} not shown here; the download has them.</li>` : null}
        ${lines.map((line) => (line.gap ? html`<li class="gap" key=${`gap ${line.attempt} ${line.stream} ${line.number}`}>${number(line.gap)} bytes not kept: only the first 64 KiB and the last 192 KiB of a stream are</li>`
          : html`<li key=${line.number} data-line=${line.number} class="${line.stream === "stderr" ? "err" : ""} ${needle && line.text.toLowerCase().includes(needle) ? "hit" : ""} ${hits[hit] === line ? "at" : ""}"><span class="n">${line.number}</span><span class="src">${attempts > 1 ? `${line.attempt} ` : ""}${line.stream === "stderr" ? "err" : "out"}</span><span class="msg">${LogLines.piecesOf(line).map(([cls, text]) => html`<span class=${cls || undefined}>${marked(text, needle)}</span>`)}</span></li>`))}</ol>`}</div>
    <footer><span>${plural(lines.filter((line) => !line.gap).length, "line")}, ${size(model.current.bytes)}</span><span class="hide-phone">the first 64 KiB and the last 192 KiB of each stream are kept</span><span class="grow"></span><button class="btn small" onClick=${toNewest}><${Icon} name="down" />Newest</button></footer></section>`;
}
const size = (bytes) => (bytes < 1024 ? `${bytes} B` : bytes < 1 << 20 ? `${(bytes / 1024).toFixed(1)} KiB` : `${(bytes / (1 << 20)).toFixed(1)} MiB`);
function marked(text, needle) {
  if (!needle) return text;
  const parts = [], lower = text.toLowerCase();
  let at = 0;
  for (let i = lower.indexOf(needle); i >= 0; i = lower.indexOf(needle, at)) { parts.push(text.slice(at, i), html`<mark>${text.slice(i, i + needle.length)}</mark>`); at = i + needle.length; }
  return [...parts, text.slice(at)];
}
function Download({ path, id }) {
  const save = async () => {
    let found;
    try { found = await get(`${path}log/`, null, { headers: { accept: "text/plain" }, isBlob: true }); } catch (problem) { complain(problem); return; }
    const link = document.createElement("a");
    link.href = URL.createObjectURL(found);
    link.download = `${id}.log`;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 10000);
  };
  return html`<button class="btn quiet square" aria-label="Download the log" onClick=${save}><${Icon} name="save" /></button>`;
}

// -- beside it --

function HowLong({ job }) {
  const { data } = useData((abort) => get(`schedules/${encodeURIComponent(job.uid)}/stats/`, null, { signal: abort }).catch(() => null), [job.uid]);
  const start = ms(job.started_at), end = ms(job.ended_at), limit = job.deadline_at && start !== null ? ms(job.deadline_at) - start : null;
  if (start === null) return null;
  const ran = (end ?? Math.max(now.value, start)) - start, usual = data?.duration_median === null || !data ? null : data.duration_median * 1000, p95 = data?.duration_p95 === null || !data ? null : data.duration_p95 * 1000;
  const most = Math.max(ran, p95 || 0, usual || 0) * 1.25 || 1, top = limit && limit < most * 4 ? Math.max(most, limit) : most, place = (value) => `${Math.min(100, (value / top) * 100)}%`;
  const marks = [[usual, `usual ${usual === null ? "" : duration(usual)}`], [p95, `p95 ${p95 === null ? "" : duration(p95)}`], [limit, `limit ${limit ? duration(limit) : ""}`]].filter(([value]) => value !== null);
  const words = `${duration(ran)}${end === null ? " so far" : ""}${usual === null ? "" : `; usually ${duration(usual)}, the median of ${plural(data.duration_jobs, "job")}${p95 === null ? "" : `, 95 of 100 within ${duration(p95)}`}`}${limit ? `; stopped at ${duration(limit)}` : ""}`;
  return html`<section class="card"><header><h2>How long</h2><span class="end strong">${duration(ran)}</span></header><div class="body usual"><div class="track" role="img" aria-label=${words}><i class=${end === null ? "run" : HUE[KIND[job.status]]} style=${{ width: place(ran) }}></i>${marks.filter(([value]) => value <= top).map(([value]) => html`<b key=${value} style=${{ left: place(value) }}></b>`)}</div>
    <dl class="kv">${marks.map(([value, text]) => html`<dt key=${text}>${text.split(" ")[0]}</dt><dd>${duration(value)}${value === usual ? `, the median of ${plural(data.duration_jobs, "job")}` : ""}</dd>`)}</dl></div></section>`;
}
const Cost = ({ job }) => (job.cost || job.reserved ? html`<section class="card" aria-label="Cost"><header><h2>Cost</h2><span class="end strong">${job.cost ? costOfJob(job) : "not known yet"}</span></header><div class="body"><dl class="kv">${job.reported_cost ? html`<dt>Reported</dt><dd>${cost(job.reported_cost)} by the run</dd>` : null}${job.estimated_cost ? html`<dt>Estimated</dt><dd>${cost(job.estimated_cost)}, ${job.reported_cost ? "for an attempt that" : "since the run"} reported nothing</dd>` : null}${job.reserved ? html`<dt>Reserved</dt><dd>${cost(job.reserved)} until it ends, an estimate</dd>` : null}</dl></div></section>` : null);
// A one-shot is due at its very instant within the second that is its slot; of others the difference is their jitter.
const jitterText = (job, schedule) => (schedule?.type === "one_shot" || ms(job.due_at) - ms(job.slot_at) < 1000 ? null : `${duration(ms(job.due_at) - ms(job.slot_at))} of jitter`);
function Timings({ job, schedule }) {
  const steps = [
    ["Slot", job.slot_at, null],
    job.due_at === job.slot_at ? null : job.origin === "manual" ? ["Requested", job.due_at, "to run its slot again"] : ["Due", job.due_at, jitterText(job, schedule)],
    ["Fired", job.created_at, `lag ${duration(Math.max(0, ms(job.created_at) - ms(job.due_at)))}`],
    job.handed_over_at ? ["Handed over", job.handed_over_at, `delivery ${job.delivery}`] : null,
    job.not_before && !job.started_at ? ["Not before", job.not_before, "the pause before its retry"] : null,
    job.started_at ? ["Started", job.started_at, `attempt ${job.attempt}, ${duration(Math.max(0, ms(job.started_at) - ms(job.created_at)))} after it fired`] : null,
    job.ended_at ? [capital(WORD[KIND[job.status]]), job.ended_at, job.started_at ? `ran ${duration(ms(job.ended_at) - ms(job.started_at))}` : null] : job.deadline_at ? ["Deadline", job.deadline_at, "then it is stopped"] : null,
  ].filter(Boolean);
  const first = ms(job.slot_at), last = job.ended_at ? ms(job.ended_at) : Math.max(now.value, ms(job.started_at || job.created_at)), length = Math.max(1, last - first);
  return html`<section class="card"><header><h2>Timings</h2><span class="end muted">${zoneName(first)}, ${ZONE}</span></header><div class="body"><ol class="steps">${steps.map(([name, at, text]) => html`<li key=${name} class=${name === "Started" && !job.ended_at ? "on" : ""}><span>${name}${text ? html`<small>${text}</small>` : null}</span><time title=${relative(ms(at), now.value)}>${precise(ms(at))}</time></li>`)}</ol>
    ${job.started_at ? html`<svg class="fall" viewBox="0 0 100 22" preserveAspectRatio="none" role="img" aria-label="The share of waiting and of running in the time from its slot"><rect x="0" y="4" width=${((ms(job.started_at) - first) / length) * 100} height="5" fill="var(--hold)" /><rect x=${((ms(job.started_at) - first) / length) * 100} y="13" width=${Math.max(0.8, (((job.ended_at ? ms(job.ended_at) : Math.max(now.value, ms(job.started_at))) - ms(job.started_at)) / length) * 100)} height="5" fill=${`var(--${HUE[KIND[job.status]]})`} /></svg>` : null}</div></section>`;
}
function Earlier({ job }) {
  const { data } = useData((abort) => get("jobs/", { schedule_id: job.uid, limit: 8 }, { signal: abort }), [job.uid, job.status]);
  const others = (data?.items || []).filter((one) => one.id !== job.id).slice(0, 6), longest = Math.max(1, ...others.map((one) => (one.ended_at && one.started_at ? ms(one.ended_at) - ms(one.started_at) : 0)));
  return html`<section class="card"><header><h2>Other jobs of this schedule</h2><span class="end"><a href=${href("jobs", null, { schedule: job.schedule_id })}>All</a></span></header>
    ${!data ? html`<${Loading} rows=${3} />` : !others.length ? html`<${Empty} icon="jobs" title="None yet"><p>This is its first job.</p><//>` : html`<table class="table slots"><caption class="sr">Other jobs of this schedule</caption><tbody>${others.map((one) => { const kind = KIND[one.status], length = one.ended_at && one.started_at ? ms(one.ended_at) - ms(one.started_at) : null; return html`<tr key=${one.id}><td><a class="mono" href=${href("jobs", one.id)}>${jobName(one.id)}</a></td><td class="nowrap">${ofSchedule(ms(one.slot_at), now.value, one.timezone)}</td><td><span class="outcome"><${Glyph} kind=${kind} title=${capital(WORD[kind])} /><span class="hide-phone">${capital(WORD[kind])}</span></span></td><td class="hide-phone"><svg width="180" height="8" aria-hidden="true"><rect width="180" height="8" rx="4" fill="var(--inset)" /><rect width=${length === null ? 0 : Math.max(2, (180 * length) / longest)} height="8" rx="4" fill=${`var(--${HUE[kind]})`} /></svg></td><td class="num nowrap">${length === null ? "" : duration(length)}</td></tr>`; })}</tbody></table>`}</section>`;
}
