// Alerts: what is open, who knows of it, what was sent about it; acknowledge and silence.
import { html, useState } from "../lib.js";
import { get, isGlobal, may, post, remove } from "../api.js";
import { refreshStatus } from "../live.js";
import { absolute, ago, ms, now, number, ofSchedule, relative, ZONE } from "../time.js";
import { capital, Glyph, Pill } from "../glyphs.js";
import { Ask, complain, Empty, Failed, Field, Loading, plural, Seg, toast, useData, visible } from "../parts.js";
import { learnLabels, nameOf } from "../names.js";
import { reasonText } from "../terms.js";
import { href, route, setQuery } from "../router.js";
import { Page } from "../shell.js";

const VIEWS = [["", "Open"], ["acknowledged", "Acknowledged"], ["silenced", "Silenced"], ["resolved", "Resolved"]];
const SEVERITY = { critical: "fail", error: "fail", warning: "warn", info: "info" };
const LENGTHS = [["1h", "1 hour"], ["4h", "4 hours"], ["24h", "1 day"], ["7d", "7 days"]];
const HOURS = { "1h": 1, "4h": 4, "24h": 24, "7d": 168 };
const tells = (event) => /^(alert|breaker|budget|node|config|scheduler)\.|^schedule\.(failing|died|silent|overdue|missed|invalidated|approv|resumed|paused)|^job\.succeeded/.test(event.type);
const subject = (one) => one.schedule_id || one.key.slice(one.class.length + 1);
const isBudget = (one) => one.class.startsWith("budget.");
const nameOfSubject = (one) => visible(one.schedule_id ? nameOf(one.schedule_id) : (isBudget(one) ? subject(one).replace(/ \S+$/, "") : subject(one)) || one.class);
const linkOf = (one) => (one.class === "schedule.approval_requested" ? href("approvals") : one.schedule_id ? href("schedules", one.schedule_id) : isBudget(one) ? href("budgets") : one.class === "breaker.opened" ? href("breakers", null, { key: subject(one) }) : null);
const wordsOf = (one) => one.class.replace(/^schedule\./, "").replace(".", " ").replaceAll("_", " ");
const evidence = (one) => { const { error, last_error: last, reason, note, node, limit, failed_slots: count } = one.evidence; return [count && (count === 1 ? "the last slot failed" : `${number(count)} slots in a row failed`), error || last, reason && reasonText(String(reason)), note, node && `node ${node}`, limit && String(limit).replaceAll("_", " ")].filter((text) => typeof text === "string" && text).join("; "); };

async function load(abort) {
  const ask = (path, query) => get(path, query, { signal: abort });
  const [open, resolved, silences] = await Promise.all([ask("alerts/", { state: "open", limit: 200 }), ask("alerts/", { state: "resolved", limit: 50 }), ask("alerts/silences/")]);
  learnLabels([...open.items, ...resolved.items]);
  return { open: open.items, openTotal: open.total, resolved: resolved.items, silences: silences.items };
}

export function Alerts() {
  const { data, problem, again } = useData(load, [], { events: tells, every: 15000 }), view = route.value.query.get("view") || "", [asked, setAsked] = useState(null);
  const silenceOf = (one) => data.silences.find((silence) => silence.subject === (silence.kind === "schedule" ? one.schedule_id : one.group));
  const stateOf = (one) => (one.state === "resolved" ? "resolved" : silenceOf(one) ? "silenced" : one.acked_at ? "acknowledged" : "");
  const all = data ? [...data.open, ...data.resolved] : [], items = all.filter((one) => stateOf(one) === view), count = (name) => all.filter((one) => stateOf(one) === name).length;
  const done = () => { again(); refreshStatus(); };
  const acknowledge = async (one) => { try { await post(`alerts/${one.id}/ack/`); toast(`Acknowledged ${nameOfSubject(one)}: it is not reported again until it is over.`); } catch (found) { complain(found); } done(); };
  const unsilence = async (silence) => { try { await remove(`alerts/silences/${silence.id}/`); toast(`Alerts of ${visible(nameOf(silence.subject))} are reported again.`); } catch (found) { complain(found); } done(); };
  return html`<${Page} title="Alerts">
    <p class="intro"><strong>${!data ? "Asking what is open." : count("") ? `${plural(count(""), "alert is", "alerts are")} open.` : "No alert is open."}</strong><span class="second">${data ? others(count, data) : null}Rules of <span class="mono">notify</span> report them.</span></p>
    <div class="row scroll-x"><${Seg} label="Which alerts" value=${view} options=${VIEWS.map(([key, label]) => [key, data && count(key) ? `${label} ${count(key)}` : label])} onChange=${(key) => setQuery({ view: key || null }, { replace: false })} /></div>
    <section class="card" aria-label="Alerts">${problem && !data ? html`<${Failed} what="The alerts could not be loaded" problem=${problem} again=${again} />` : !data ? html`<${Loading} />` : !items.length ? html`<${Empty} icon="alerts" title=${{ "": "Nothing needs you", acknowledged: "None is acknowledged", silenced: "None is silenced", resolved: "None was resolved" }[view]}><p>${view ? "Open alerts can be acknowledged, or held for a time." : "What fails, is silent or overdue, and a budget that is spent, open an alert."}</p><//>`
      : html`<div class="table-box"><table class="table alerts"><caption class="sr">Alerts, newest first</caption><thead><tr><th scope="col">Alert</th><th scope="col">Since</th><th scope="col" class="hide-phone">State</th><th scope="col"><span class="sr">Actions</span></th></tr></thead><tbody>${items.map((one) => html`<${Row} key=${one.id} alert=${one} silence=${silenceOf(one)} acknowledge=${acknowledge} unsilence=${unsilence} onSilence=${() => setAsked(one)} />`)}</tbody></table></div>`}</section>
    ${data?.silences.length && view === "silenced" ? html`<section class="card" aria-label="Silences"><header><h2>Silences</h2></header><ul class="feed">${data.silences.map((one) => html`<li key=${one.id}><${Glyph} kind="paused" /><span class="two grow"><span class="strong clip">${visible(nameOf(one.subject))}</span><small>${one.kind}, ends ${relative(ms(one.until), now.value)}, ${absolute(ms(one.until), now.value)}</small></span>${may("operator") ? html`<button class="btn small" onClick=${() => unsilence(one)}>End silence</button>` : null}</li>`)}</ul></section>` : null}
    ${isGlobal() ? html`<${Rules} />` : null}<${Deliveries} />
    ${asked ? html`<${SilenceDialog} alert=${asked} onClose=${() => setAsked(null)} done=${done} />` : null}<//>`;
}

// The open ones that somebody has answered, and those that are too many to be listed.
function others(count, data) {
  const words = [["acknowledged", "acknowledged"], ["silenced", "silenced"]].filter(([name]) => count(name)).map(([name, word]) => `${number(count(name))} ${word}`);
  const more = data.openTotal > data.open.length ? `Of ${number(data.openTotal)} the newest ${number(data.open.length)} are listed. ` : "";
  return `${words.length ? `${capital(words.join(", "))} besides. ` : ""}${more}`;
}
function Row({ alert, silence, acknowledge, unsilence, onSilence }) {
  const isOpen = alert.state === "open", act = may("operator") && isOpen, detail = evidence(alert);
  return html`<tr><td><span class="outcome"><${Glyph} kind=${isOpen ? SEVERITY[alert.severity] : "ok"} title=${isOpen ? alert.severity : "resolved"} /><span class="two"><span class="strong">${linkOf(alert) ? html`<a href=${linkOf(alert)}>${nameOfSubject(alert)}</a>` : nameOfSubject(alert)}</span><small>${wordsOf(alert)}${alert.count > 1 ? `, ${alert.count} times` : ""}${detail ? html`: <span class="clip-2">${visible(detail)}</span>` : null}</small></span></span></td>
    <td class="nowrap"><span class="two"><span>${ago(ms(alert.since), now.value)}</span><small>${alert.resolved_at ? `over ${ofSchedule(ms(alert.resolved_at), now.value, alert.timezone)}` : ofSchedule(ms(alert.since), now.value, alert.timezone)}</small></span></td>
    <td class="hide-phone">${!isOpen ? html`<span class="second">Resolved</span>` : silence ? html`<span class="two"><${Pill} kind="paused">Silenced<//><small>until ${absolute(ms(silence.until), now.value)}</small></span>` : alert.acked_at ? html`<span class="two"><span>Acknowledged</span><small>${absolute(ms(alert.acked_at), now.value)}</small></span>` : html`<${Pill} kind=${SEVERITY[alert.severity]}>${alert.severity[0].toUpperCase()}${alert.severity.slice(1)}<//>`}</td>
    <td class="right nowrap">${act && !alert.acked_at ? html`<button class="btn small" onClick=${() => acknowledge(alert)}>Acknowledge</button> ` : null}${act && silence ? html`<button class="btn small" onClick=${() => unsilence(silence)}>End silence</button>` : act && (alert.schedule_id || alert.group) ? html`<button class="btn small" onClick=${onSilence}>Silence…</button>` : null}</td></tr>`;
}

function SilenceDialog({ alert, onClose, done }) {
  const [whom, setWhom] = useState(alert.schedule_id || alert.group), [length, setLength] = useState("4h");
  const send = async () => { const made = await post("alerts/silences/", { subject: whom, duration: length }); toast(`Silenced until ${absolute(ms(made.until), now.value)}.`, { undo: () => remove(`alerts/silences/${made.id}/`).then(done, complain) }); done(); };
  const until = now.value + HOURS[length] * 3600000;
  return html`<${Ask} title=${`Silence ${nameOfSubject(alert)}?`} verb="Silence" onSend=${send} onClose=${onClose}>
    <p class="second">Nothing is reported about it until then; what is still open afterwards is reported.</p>
    ${alert.schedule_id && alert.group && isGlobal() ? html`<${Field} id="silence-whom" label="Whose alerts"><select id="silence-whom" class="select" value=${whom} onChange=${(event) => setWhom(event.target.value)}><option value=${alert.schedule_id}>${nameOfSubject(alert)}</option><option value=${alert.group}>All of ${visible(alert.group)}</option></select><//>` : null}
    <${Field} id="silence-length" label="For" hint=${`Until ${absolute(until, now.value)}, ${ZONE}.`}><select id="silence-length" class="select" value=${length} onChange=${(event) => setLength(event.target.value)}>${LENGTHS.map(([value, label]) => html`<option key=${value} value=${value}>${label}</option>`)}</select><//><//>`;
}

const SENT = { delivered: ["ok", "delivered"], given_up: ["fail", "given up"], waiting: ["queued", "waits"] };
function Deliveries() {
  const { data, problem, again } = useData((abort) => get("alerts/deliveries/", { limit: 20 }, { signal: abort }), [], { events: (event) => event.type.startsWith("alert."), every: 15000 });
  return html`<section class="card" aria-label="Messages"><header><h2>Messages</h2><span class="end muted">newest first</span></header>${problem && !data ? html`<${Failed} what="The messages could not be loaded" problem=${problem} again=${again} />` : !data ? html`<${Loading} rows=${3} />` : !data.items.length ? html`<p class="body muted">None was sent yet.</p>` : html`<ul class="feed">${data.items.map((one) => { const [kind, word] = SENT[one.state]; return html`<li key=${one.id}><${Glyph} kind=${kind} title=${word} /><span class="two grow"><span class="strong clip">${visible(one.title || one.kind)}</span><small class="clip">${visible(one.rule)}: ${word}${one.attempts > 1 ? ` after ${one.attempts} attempts` : ""}${one.answer ? `, ${visible(one.answer)}` : ""}${one.next_at ? `, next try ${ms(one.next_at) > now.value ? relative(ms(one.next_at), now.value) : "now"}` : ""}</small></span><small class="muted nowrap">${ago(ms(one.created_at), now.value)}</small></li>`; })}</ul>`}</section>`;
}

function Rules() {
  const { data, again } = useData((abort) => get("alerts/rules/", {}, { signal: abort }), [], { events: (event) => event.type.startsWith("alert."), every: 60000 }), [asking, setAsking] = useState(null);
  const send = async (name) => { setAsking(name); try { const found = await post(`alerts/rules/${encodeURIComponent(name)}/test/`); toast(`${visible(name)}: ${found.state === "delivered" ? "delivered" : "not delivered"}${found.answer ? `, ${visible(found.answer)}` : ""}.`); } catch (found) { complain(found); } setAsking(null); again(); };
  return data?.items.length ? html`<section class="card" aria-label="Rules"><header><h2>Rules</h2><span class="end muted">of notify, in the configuration file</span></header><ul class="feed">${data.items.map((one) => html`<li key=${one.name}><${Glyph} kind=${one.last ? SENT[one.last.state][0] : "next"} title=${one.last ? `last message ${SENT[one.last.state][1]}` : "no message yet"} /><span class="two grow"><span class="strong clip">${visible(one.name)}</span><small class="clip">${one.channel}: ${one.last ? `last message ${ago(ms(one.last.created_at), now.value)}` : "no message yet"}</small></span>${may("operator") ? html`<button class="btn small" disabled=${asking === one.name} aria-label=${`Send a test through ${visible(one.name)}`} onClick=${() => send(one.name)}>Send a test</button>` : null}</li>`)}</ul></section>` : null;
}
