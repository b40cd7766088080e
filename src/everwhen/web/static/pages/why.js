// Why?: beside the page, a sheet on phones. The API's sentence, what led to it, what fires next, what to do, the record.
import { html, useEffect, useRef } from "../lib.js";
import { get, may, post } from "../api.js";
import { useKeys } from "../keys.js";
import { absolute, fullDay, hm, hms, ms, now, ofSchedule, precise, relative, ZONE, zoneName } from "../time.js";
import { capital, Glyph, Icon, KIND, WORD } from "../glyphs.js";
import { complain, Copy, Failed, Loading, toast, useData, visible } from "../parts.js";
import { errorText, reasonText } from "../terms.js";
import { jobName, nameOf } from "../names.js";
import { href } from "../router.js";

const KINDS = { fired: "ok", skipped: "skip", missed: "miss", caught_up: "ok", held: "hold" };
const EVENT = { "schedule.skipped": "skip", "schedule.missed": "miss", "schedule.caught_up": "ok", "breaker.opened": "fail", "schedule.paused": "paused", "system.paused": "hold" };

export function Why({ schedule, at, slots, onStep, onClose, breaker, setDialog, done }) {
  const { data, problem, again } = useData((abort) => get(`schedules/${encodeURIComponent(schedule.id)}/why/`, { at: at === "last" ? null : at }, { signal: abort }), [schedule.id, at]);
  const panel = useRef(null);
  useEffect(() => { const before = document.activeElement; panel.current?.focus({ preventScroll: true }); return () => { if (before?.isConnected) before.focus({ preventScroll: true }); }; }, []);
  const index = slots ? slots.findIndex((one) => ms(one.slot_at) === ms(data?.slot_at)) : -1;
  const before = index >= 0 ? slots[index + 1] : null, after = index > 0 ? slots[index - 1] : null;
  useKeys({ "[": () => (before ? onStep(before.slot_at) : false), "]": () => (after ? onStep(after.slot_at) : false), Escape: onClose }, [before, after]);
  const slot = ms(data?.slot_at), word = { fired: "fire", skipped: "skipped", missed: "missed", held: "held", caught_up: "caught up" }[data?.fate] || data?.fate;
  const title = !data ? "Why?" : slot === null ? "Why does it not fire?" : data.fate === "fired" ? `Why did ${hm(slot)} fire?` : `Why was ${hm(slot)} ${word}?`;
  const reset = async () => { try { await post(`breakers/${encodeURIComponent(breaker.key)}/reset/`); toast(`The breaker ${nameOf(breaker.key)} is closed.`); done(); } catch (found) { complain(found); } };
  const zone = data?.timezone;
  return html`<aside class="why" aria-label="Why?" tabindex="-1" ref=${panel}>
    <header><h2>${title}</h2><span class="grow"></span>
      <button class="btn quiet square small" aria-label="Slot before" title="Slot before ([)" disabled=${!before} onClick=${() => onStep(before.slot_at)}><${Icon} name="prev" /></button><button class="btn quiet square small" aria-label="Slot after" title="Slot after (])" disabled=${!after} onClick=${() => onStep(after.slot_at)}><${Icon} name="next" /></button><button class="btn quiet square small" aria-label="Close" onClick=${onClose}><${Icon} name="close" /></button></header>
    ${problem && !data ? html`<div class="content"><${Failed} what="The explanation could not be loaded" problem=${problem} again=${again} /></div>` : !data ? html`<div class="content"><${Loading} rows=${5} /></div>` : html`<div class="content">
      <p class="sentence ${data.fate === "fired" ? "good" : ""}"><${Sentence} text=${splitSentence(data.sentence)[0]} fate=${data.fate} /></p>
      <div><h3>What led to it, ${ZONE}</h3><ol class="evidence">${evidence(data, zone)}</ol></div>
      <div><h3>What fires next</h3>${data.next_run_at ? html`<p>The next slot is due <strong>${ofSchedule(ms(data.next_run_at), now.value, zone)}</strong>, ${relative(ms(data.next_run_at), now.value)}.</p>` : html`<p>Nothing, as things stand.</p>`}${splitSentence(data.sentence)[1] ? html`<p class="second">${splitSentence(data.sentence)[1]}</p>` : null}</div>
      <div><h3>On record</h3><dl class="kv"><${Record} data=${data} slot=${slot} zone=${zone} /></dl></div></div>`}
    <footer>${may("operator") ? html`<div class="row">${breaker && breaker.state !== "closed" && data?.reason === "circuit_open" ? html`<button class="btn primary grow" onClick=${reset}><${Icon} name="breakers" />Reset the breaker</button>` : null}<button class="btn grow" onClick=${() => setDialog("trigger")}><${Icon} name="play" />Trigger now…</button></div>` : null}
      ${slot === null ? null : html`<${Command} text=${`everwhen why ${schedule.id} --at ${data.slot_at}`} />`}</footer></aside>`;
}
const Command = ({ text }) => html`<div class="code row between"><span>${visible(text)}</span><${Copy} text=${text} label="Copy the command" isShort /></div>`;

// The API's sentence is about the slot; what it says behind it, about the next one, stands under its own head.
const splitSentence = (text) => { const shown = visible(text), at = shown.search(/ (Next|The next to fire|It goes on|To \w+):? /); return at < 0 ? [shown, ""] : [shown.slice(0, at), shown.slice(at + 1)]; };
// The cause is underlined, the outcome is bold, and nothing is added to what the API says.
function Sentence({ text, fate }) {
  const word = { skipped: "skipped", missed: "missed", held: "held", fired: "fired" }[fate], found = text.match(/^(.*?)( because |(?:skipped|missed|held|fired|cancelled)(?:[^:]{0,40}): )(.*?)(\.?)$/s);
  const bold = (part) => { const place = word ? part.indexOf(word) : -1; return place < 0 ? part : html`${part.slice(0, place)}<strong>${word}</strong>${part.slice(place + word.length)}`; };
  return found ? html`${bold(found[1] + found[2])}<mark>${found[3]}</mark>${found[4]}` : bold(text);
}

function evidence(data, zone) {
  const entries = [], slot = ms(data.slot_at);
  for (const piece of data.evidence) {
    if (piece.job) {
      const { job } = piece, kind = KIND[job.status], at = ms(job.ended_at || job.started_at || job.created_at);
      entries.push({ at, kind, isThis: ms(job.slot_at) === slot, text: html`Job <a class="mono" href=${href("jobs", job.id)}>${jobName(job.id)}</a> ${WORD[kind]}`, small: errorText(job.error_message, job.error_type) || (job.reason ? reasonText(job.reason) : job.started_at && job.ended_at ? `ran ${span(job)}` : `${job.origin}`) });
    } else if (piece.event) entries.push({ at: ms(piece.at), kind: EVENT[piece.event] || "info", isThis: /skipped|missed/.test(piece.event), text: /skipped|missed/.test(piece.event) && slot !== null ? html`<strong>Slot ${hms(slot)} ${piece.event.split(".")[1]}</strong>` : capital(piece.event.replace(".", " ").replace("_", " ")), small: reasonText(piece.reason) });
    else if (piece.transition) entries.push({ at: ms(piece.at), kind: piece.transition === "open" ? "fail" : "info", text: `Breaker ${piece.transition === "open" ? "opened" : piece.transition === "closed" ? "closed" : "let a probe through"}`, small: reasonText(piece.reason) });
  }
  entries.sort((a, b) => a.at - b.at);
  if (slot !== null && !entries.some((entry) => entry.isThis)) entries.push({ at: slot, kind: KINDS[data.fate] || "info", isThis: true, text: html`<strong>Slot ${hms(slot)}</strong> ${data.fate.replace("_", " ")}`, small: reasonText(data.reason) });
  if (!entries.length) return html`<li><time></time><${Glyph} kind="info" /><div>Nothing else is on record for it.</div></li>`;
  return entries.map((entry, i) => html`<li key=${i} class=${entry.isThis ? "this" : ""}><time title=${absolute(entry.at, now.value, zone)}>${hms(entry.at)}</time><${Glyph} kind=${entry.kind} title=${WORD[entry.kind]} /><div>${entry.text}${entry.small ? html`<small>${visible(entry.small)}</small>` : null}</div></li>`);
}
const span = (job) => { const length = ms(job.ended_at) - ms(job.started_at); return length < 1000 ? `${length} ms` : `${(length / 1000).toFixed(length < 10000 ? 1 : 0)} s`; };

function Record({ data, slot, zone }) {
  const events = data.evidence.filter((piece) => piece.event), revision = data.evidence.find((piece) => piece.revision), schedulers = data.evidence.filter((piece) => piece.scheduler);
  const rows = [
    slot === null ? null : ["Slot", html`${fullDay(slot, zone)}, ${precise(slot, zone).replace(".000", "")} ${zoneName(slot, zone)}, ${zone}`],
    events.length ? ["Event", html`<span class="mono">${events.map((one) => `${one.event} ${one.id}`).join(", ")}</span>`] : null,
    data.reason ? ["Reason", html`<span class="mono">${data.reason}</span>`] : null,
    revision ? ["Revision", html`<a href=${href("schedules", data.schedule_id, { tab: "revisions" })}>${revision.revision}${revision.cause ? `, ${revision.cause}` : ""}</a>`] : null,
    schedulers.length ? ["Scheduler", `${schedulers.map((one) => one.scheduler).join(", ")} ${schedulers.length === 1 ? "was" : "were"} running`] : null,
  ].filter(Boolean);
  return rows.map(([term, text]) => html`<dt key=${term}>${term}</dt><dd>${text}</dd>`);
}
