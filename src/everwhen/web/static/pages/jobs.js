// Jobs: what ran and runs, newest first.
import { html, useEffect, useState } from "../lib.js";
import { get } from "../api.js";
import { useStill } from "../feed.js";
import { absolute, ago, duration, inOwnZone, ms, now } from "../time.js";
import { capital, Glyph, Icon, KIND, WORD } from "../glyphs.js";
import { Empty, Failed, Loading, plural, Running, useData, visible } from "../parts.js";
import { errorText, reasonText } from "../terms.js";
import { href, route, setQuery } from "../router.js";
import { Page } from "../shell.js";
import { jobName, learnLabels, learnNames, nameOf } from "../names.js";
import { costOfJob } from "../meters.js";

const STATES = [["", "All"], ["running", "Running"], ["queued", "Queued"], ["failed", "Failed"], ["timed_out", "Timed out"], ["succeeded", "Succeeded"], ["cancelled", "Cancelled"], ["lost", "Lost"]];

export function Jobs() {
  const { query } = route.value, state = query.get("status") || "", schedule = query.get("schedule") || "";
  const [cursors, setCursors] = useState([]), cursor = cursors.at(-1) || null, key = JSON.stringify([state, schedule]);
  useEffect(() => setCursors([]), [key]);
  const { data, problem, again } = useData((abort) => get("jobs/", { status: state, schedule_id: schedule, cursor, limit: 50 }, { signal: abort }), [key, cursor], { events: (event) => !cursor && /^(job|schedule\.(fired|retried))/.test(event.type) });
  const { shown: items, held, news } = useStill(data?.items, (one) => one.id, key + cursor);
  useEffect(() => { learnLabels(data?.items || []); if (data) learnNames([schedule]); }, [data, schedule]);
  return html`<${Page} title="Jobs">
    <div class="tools"><div class="row scroll-x" role="group" aria-label="By status">${STATES.map(([name, label]) => html`<button class="chip" key=${name} aria-pressed=${String(state === name)} onClick=${() => setQuery({ status: name || null }, { replace: false })}>${label}</button>`)}${schedule ? html`<button class="chip" aria-pressed="true" onClick=${() => setQuery({ schedule: null }, { replace: false })}>Schedule: ${visible(nameOf(schedule))} <${Icon} name="close" /></button>` : null}</div></div>
    <section class="card" aria-label="Jobs" ...${held}>${news ? html`<header>${news}</header>` : null}${problem && !data ? html`<${Failed} what="The jobs could not be loaded" problem=${problem} again=${again} />` : !data ? html`<${Loading} rows=${10} />` : !items.length ? html`<${Empty} icon="jobs" title=${state || schedule ? "Nothing matches" : "No jobs yet"}>${state || schedule ? html`<button class="btn" onClick=${() => setQuery({ status: null, schedule: null })}>Clear the filter</button>` : html`<p>The first slot that fires makes the first job.</p>`}<//>`
      : html`<div class="table-box"><table class="table slots jobs stacked"><caption class="sr">Jobs, newest first</caption><thead><tr>${["Schedule", "Job", "Outcome", "Slot", "Ran", "Origin"].map((text) => html`<th scope="col" key=${text} class=${text === "Ran" ? "num" : text === "Origin" || text === "Job" ? "hide-phone" : ""}>${text}</th>`)}</tr></thead><tbody>${items.map((one) => { const kind = KIND[one.status]; return html`<tr key=${one.id}><td class="name"><a class="plain strong" href=${href("jobs", one.id)}>${visible(nameOf(one.schedule_id))}</a></td><td class="mono hide-phone"><a href=${href("jobs", one.id)}>${jobName(one.id)}</a></td><td><span class="outcome"><${Glyph} kind=${kind} /><span class="two"><span>${capital(WORD[kind])}</span>${one.error || one.reason ? html`<small class="clip-1">${visible(one.error ? errorText(one.error_message, one.error_type).split("\n")[0] : reasonText(one.reason))}</small>` : null}</span></span></td><td class="nowrap"><span class="two"><span>${ago(ms(one.slot_at), now.value)}</span><small>${absolute(ms(one.slot_at), now.value)}${inOwnZone(ms(one.slot_at), one.timezone) ? html`<br />${inOwnZone(ms(one.slot_at), one.timezone)}` : null}</small></span></td><td class="num nowrap">${one.started_at ? (one.ended_at ? duration(ms(one.ended_at) - ms(one.started_at)) : html`<${Running} since=${one.started_at} />`) : ""}${one.cost ? html`<br /><small class="muted">${costOfJob(one)}</small>` : null}</td><td class="second hide-phone">${one.origin.replace("_", " ")}${one.retry ? ` ${one.retry}` : ""}</td></tr>`; })}</tbody></table></div>
      <footer><span>${data.total_is_approximate ? "about " : ""}${plural(data.total, "job")}</span><span class="grow"></span><button class="btn small" disabled=${!cursors.length} onClick=${() => setCursors(cursors.slice(0, -1))}><${Icon} name="prev" />Newer</button><button class="btn small" disabled=${!data.next_cursor} onClick=${() => setCursors([...cursors, data.next_cursor])}><${Icon} name="next" />Older</button></footer>`}</section><//>`;
}
