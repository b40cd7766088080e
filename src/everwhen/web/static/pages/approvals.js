// Approvals: what agents want to do, each with what it would fire and spend; approve the revision shown, or decline it.
import { html, useEffect, useLayoutEffect, useRef, useState } from "../lib.js";
import { get, may, me } from "../api.js";
import { bindKeys } from "../keys.js";
import { refreshStatus } from "../live.js";
import { absolute, ago, date, ms, now, number, ofSchedule, relative } from "../time.js";
import { capital, Glyph, Icon, Pill } from "../glyphs.js";
import { Empty, Failed, Loading, plural, scheduleName, sentence, useData, visible } from "../parts.js";
import { approve, DeclineDialog } from "../actions.js";
import { cost, Meter } from "../meters.js";
import { actorOf, learnLabels, nameOf } from "../names.js";
import { href } from "../router.js";
import { Page } from "../shell.js";
import { AgentBudgets } from "./budgets.js";

const MOST = 20;
const answers = (event) => /^schedule\.(approv|declined|expired|updated|deleted)|^budget\./.test(event.type);
const path = (schedule) => `schedules/${encodeURIComponent(schedule.id)}/`;

async function load(abort) {
  const found = await get("schedules/", { waiting: true, limit: MOST }, { signal: abort });
  const items = await Promise.all(found.items.map(async (schedule) => {
    try { return { schedule, review: await get(`${path(schedule)}review/`, null, { signal: abort }) }; } catch (problem) { if (problem.status === 404 || problem.status === 400) return null; throw problem; } // answered meanwhile
  }));
  return { total: found.total, items: items.filter(Boolean).reverse().sort((a, b) => ms(a.review.asked_at) - ms(b.review.asked_at)) };
}

export function Approvals() {
  const { data, problem, again } = useData(load, [], { events: answers, every: 30000 });
  const [current, setCurrent] = useState(null), [declined, setDeclined] = useState(null), cards = useRef(null), state = useRef({}), isSending = useRef(false), last = useRef(0);
  const items = data?.items || [], here = items.findIndex((one) => one.schedule.id === current), at = here >= 0 ? here : Math.max(0, Math.min(last.current, items.length - 1)), mayAnswer = may("operator") && me.value.approval === "none";
  const done = () => { again(); refreshStatus(); };
  // A key that is held, or pressed again before the answer is there, must not approve the card that comes next.
  const send = async (one) => {
    if (isSending.current) return;
    isSending.current = true;
    setCurrent(one.schedule.id);
    await approve(one.schedule, done);
    isSending.current = false;
  };
  state.current = { items, at, send, mayAnswer };
  last.current = at; // the card that takes the place of an answered one is the next
  useLayoutEffect(() => {
    const move = (step) => () => { const { items: list, at: from } = state.current, to = Math.min(list.length - 1, Math.max(0, from + step)); if (list[to]) { setCurrent(list[to].schedule.id); cards.current.children[to]?.focus(); } };
    const answer = (act) => (event) => { if (event.repeat) return false; const { items: list, at: here, mayAnswer: isAllowed } = state.current; return isAllowed && list[here] ? act(list[here]) : false; };
    return bindKeys({ j: move(1), k: move(-1), a: answer((one) => { state.current.send(one); }), d: answer((one) => { setDeclined(one.schedule); }) });
  }, []);
  return html`<${Page} title="Approvals">
    ${items.length ? html`<p class="intro"><strong>${data.total === 1 ? "1 schedule waits" : `${number(data.total)} schedules wait`} for ${mayAnswer ? "you" : "approval"}.</strong><span class="second">${data.total === 1 ? "It fires" : "They fire"} nothing until a person approves the revision shown.${data.total > items.length ? ` The newest ${items.length} are here.` : ""}</span>${mayAnswer ? html`<span class="end hide-phone"><kbd>J</kbd> <kbd>K</kbd> move, <kbd>A</kbd> approve, <kbd>D</kbd> decline</span>` : null}</p>` : null}
    <div class="inbox">
      <div class="stack" ref=${cards}>${problem && !data ? html`<section class="card"><${Failed} what="What waits could not be loaded" problem=${problem} again=${again} /></section>` : !data ? html`<section class="card"><${Loading} /></section>` : items.length ? items.map((one, i) => html`<${Card} key=${one.schedule.id} ...${one} isCurrent=${i === at} mayAnswer=${mayAnswer} onFocus=${() => setCurrent(one.schedule.id)} onApprove=${() => send(one)} onDecline=${() => setDeclined(one.schedule)} />`)
        : html`<section class="card"><${Empty} icon="approvals" title="Nothing waits for approval"><p>What a token with the limit <span class="mono">approval</span> creates or changes waits here until a person answers.</p><//></section>`}</div>
      <div class="stack"><${AgentBudgets} /><${Decided} /></div></div>
    ${declined ? html`<${DeclineDialog} schedule=${declined} onClose=${() => setDeclined(null)} done=${done} />` : null}<//>`;
}

// What it runs, as text: a prompt, a message, a command, an address.
function runText(schedule) {
  const run = schedule.run?.[schedule.target] || {}, command = Array.isArray(run) ? run : run.argv || run.command;
  return run.prompt ?? run.text ?? (command ? [].concat(command).join(" ") : run.url ? `${run.method || "POST"} ${run.url}` : JSON.stringify(run, null, 2));
}
const VERB = { agent: "It says", message: "It says", http: "It calls" };
const ofTarget = (schedule) => { const name = schedule.run?.[schedule.target]?.name; return `${schedule.target}${name ? ` ${name}` : ""}`; };
const text = (value) => (typeof value === "string" ? value : JSON.stringify(value));
const Block = ({ label, children }) => html`<div><p class="label">${label}</p>${children}</div>`;

function Card({ schedule, review, isCurrent, mayAnswer, onFocus, onApprove, onDecline }) {
  const name = visible(scheduleName(schedule)), isChange = review.before_revision !== null, unmet = review.limits.filter((one) => !one.is_met), warning = unmet[0]?.sentence || review.warnings.at(-1);
  const payload = Object.keys(schedule.payload || {}).length ? JSON.stringify(schedule.payload, null, 2) : null;
  return html`<article class="card ask" aria-label=${name} aria-current=${isCurrent ? "true" : undefined} tabindex="0" onFocusIn=${onFocus}>
    <header><${Icon} name="agent" /><span class="who"><strong>${visible(schedule.owner || schedule.group || review.token_name || "a token")}</strong>${review.token_name ? html`<span class="muted">through token ${visible(review.token_name)}</span>` : null}</span><span class="end muted" title=${absolute(ms(review.asked_at), now.value)}>asked ${ago(ms(review.asked_at), now.value)}</span></header>
    <div class="body">
      <div class="row wrap"><h2 class="ask-title"><a class="plain" href=${href("schedules", schedule.id)}>${name}</a></h2>${isChange ? html`<${Pill} kind="warn">${review.approved_at ? "Changed after approval" : "Changed"}<//>` : null}</div>
      <p class="second">${capital(visible(review.sentence))}${schedule.timezone && !review.sentence.includes(schedule.timezone) ? `, ${visible(schedule.timezone)}` : ""}. Runs ${visible(ofTarget(schedule))}.</p>
      ${schedule.description ? html`<p class="second">${visible(schedule.description)}</p>` : null}
      <div class="cols"><div class="stack">
        ${isChange ? html`<${Block} label=${`Revision ${review.before_revision}${review.approved_at ? `, approved on ${date(ms(review.approved_at))}` : ""}, against revision ${schedule.revision}`}><div class="diff">${review.keys.map((one) => html`${one.before === null ? null : html`<div class="del">${visible(`${one.key}: ${text(one.before)}`)}</div>`}${one.after === null ? null : html`<div class="add">${visible(`${one.key}: ${text(one.after)}`)}</div>`}`)}</div><//>` : null}
        <${Block} label=${VERB[schedule.target] || "It runs"}><p class="quote">${visible(runText(schedule))}</p><//>
        ${payload ? html`<${Block} label="With payload"><p class="quote mono">${visible(payload)}</p><//>` : null}
        <${Fires} review=${review} /></div>
      <div class="stack"><${Block} label=${isChange ? "What changes in a week" : "What it adds in a week"}><p><strong>${isChange ? `${plural(review.firings_per_week_before, "firing")} ${review.firings_per_week_before === 1 ? "becomes" : "become"} ${number(review.firings_per_week)}` : `${number(review.firings_per_week)} ${review.firings_per_week === 1 ? "firing" : "firings"}`}</strong>${review.busiest_day > 1 ? `, up to ${number(review.busiest_day)} a day` : ""}</p>${review.cost_per_day ? html`<p class="second">at most ${cost(review.most_cost_per_day)} on one day${review.cost_per_day.amount === review.most_cost_per_day.amount ? "" : `, ${cost(review.cost_per_day)} a day on average`}</p>` : null}<//>
        ${Object.entries(grouped(review.budgets)).map(([label, limits]) => html`<${Block} key=${label} label=${`Budget of ${visible(label)}`}>${limits.map((one) => html`<${Meter} key=${one.limit} limit=${one} currency=${one.currency} asked=${one.asked} />`)}<//>`)}
        ${review.limits.length ? html`<${Block} label="Limits of the token"><div class="tight">${review.limits.map((one) => html`<span class="outcome" key=${one.limit}><${Glyph} kind=${one.is_met ? "ok" : "warn"} title=${one.is_met ? "within" : "beyond"} />${capital(visible(one.sentence))}</span>`)}</div><//>` : null}</div></div></div>
    <footer><span class="row"><${Glyph} kind=${warning ? "warn" : "ok"} />${warning ? sentence(warning) : review.limits.length ? "Within all limits of its token." : schedule.quiet_hours ? `Quiet hours ${visible(schedule.quiet_hours)} apply to it.` : "No quiet hours apply to it."}</span>
      ${mayAnswer ? html`<span class="end"><button class="btn quiet" onClick=${onDecline}>Decline…</button>${schedule.source === "api" ? html`<a class="btn" href=${href("new", null, { edit: schedule.id })}>Edit first</a>` : null}<button class="btn ${isCurrent ? "primary" : ""}" onClick=${onApprove}>Approve revision ${schedule.revision}</button></span>` : null}</footer></article>`;
}
const budgetName = (one) => (one.kind === "group" ? one.name : `${one.kind} ${one.name}`);
function grouped(list) { const found = {}; for (const one of list) (found[budgetName(one)] ||= []).push(one); return found; }
const Fires = ({ review }) => html`<${Block} label="Would fire">${review.items.length ? html`<table class="instants"><tbody>${review.items.slice(0, 3).map((one) => html`<tr key=${one.slot_at}><td class="nowrap">${ofSchedule(ms(one.due_at), now.value, one.timezone)}</td><td class="muted right nowrap">${one.note || (one.skip_reason ? "will be skipped" : relative(ms(one.due_at), now.value))}</td></tr>`)}</tbody></table>` : html`<p class="second">Nothing by the clock.</p>`}<//>`;

const DECIDED = { "schedule.approved": ["ok", "approved"], "schedule.declined": ["cancel", "declined"], "schedule.expired": ["miss", "nobody answered"] };
function Decided() {
  const types = Object.keys(DECIDED), { data } = useData((abort) => get(`audit/?${types.map((type) => `type=${type}`).join("&")}`, { limit: 6 }, { signal: abort }), [], { events: (event) => event.type in DECIDED });
  useEffect(() => { if (data) learnLabels(data.items); }, [data]);
  return html`<section class="card"><header><h2>Decided</h2><span class="end"><a href=${href("audit", null, { type: types.join(",") })}>Audit</a></span></header>${data?.items.length ? html`<ul class="feed">${data.items.map((one) => { const [kind, word] = DECIDED[one.type]; return html`<li key=${one.id}><${Glyph} kind=${kind} title=${word} /><span class="two grow"><span class="strong clip">${visible(one.detail.name || nameOf(one.schedule_id))}, revision ${one.detail.of_revision}</span><small class="clip">${word}${actorOf(one) && one.type !== "schedule.expired" ? ` by ${visible(actorOf(one))}` : ""}${one.detail.note ? `: ${visible(one.detail.note)}` : ""}</small></span><small class="muted nowrap" title=${absolute(ms(one.at), now.value)}>${ago(ms(one.at), now.value)}</small></li>`; })}</ul>` : html`<p class="body muted">${data ? "No answer on record." : ""}</p>`}</section>`;
}
