// Schedules: find and act. Search, facets, order and page are in the address, so that a view can be shared.
import { html, useRef, useState } from "../lib.js";
import { get, may } from "../api.js";
import { breakerOf, budgetOf } from "../live.js";
import { useKeys } from "../keys.js";
import { ago, duration, ms, now, number } from "../time.js";
import { capital, Glyph, Icon, KIND, Strip, WORD } from "../glyphs.js";
import { AddressField, Empty, Failed, KindTag, Loading, Menu, noNextRun, Running, ScheduleState, scheduleName, triggerText, useData, visible, When } from "../parts.js";
import { DeleteDialog, PauseDialog, resumeAll, TriggerDialog } from "../actions.js";
import { go, href, route, setQuery } from "../router.js";
import { Page } from "../shell.js";

const PAGE = 50;
const FACETS = [["", "All"], ["active", "Active"], ["failing", "Failing"], ["running", "Running"], ["held", "Held"], ["paused", "Paused"], ["invalid", "Invalid"], ["dead", "Dead"], ["done", "Done"]];
const FLAGS = new Set(["failing", "running", "held"]);
const COLUMNS = [["name", "Schedule"], ["status", "Status"], ["next_run_at", "Next run"], ["last_fired_at", "Last slot", "hide-middle"], [null, "Last 30 slots"], [null, "Usual", "num hide-narrow"], ["owner", "Owner", "hide-narrow"]];
const SELECTS = [["group", "Group"], ["owner", "Owner"], ["type", "Type"], ["target", "Target"]];

const stateOf = (query) => [...FLAGS].find((flag) => query.get(flag)) || query.get("status") || "";
function asked(query) {
  const state = stateOf(query);
  const filters = Object.fromEntries(SELECTS.map(([name]) => [name, query.get(name)]));
  return { ...filters, q: query.get("q"), status: FLAGS.has(state) ? null : state, ...(FLAGS.has(state) ? { [state]: "true" } : {}) };
}

export function Schedules() {
  const { query } = route.value, offset = Math.max(0, Number(query.get("offset")) || 0), sort = query.get("sort") || "next_run_at";
  const filters = asked(query), key = JSON.stringify([filters, offset, sort]);
  const [chosen, setChosen] = useState(new Map()), [dialog, setDialog] = useState(null), [isFiltering, setFiltering] = useState(SELECTS.some(([name]) => query.get(name)));
  const table = useRef(null), search = useRef(null);
  const { data, problem, again, isAsking, took } = useData((abort) => get("schedules/", { ...filters, sort, offset, limit: PAGE, recent: true, facets: "status" }, { signal: abort }), [key], { events: (event) => /^(schedule|job|breaker)\./.test(event.type), every: 20000 });
  const items = useStable(data?.items, key), states = data?.facets?.status || {};
  const all = ["active", "paused", "invalid", "done", "dead"].reduce((sum, name) => sum + (states[name] || 0), 0);
  const isFiltered = Object.values(filters).some(Boolean);
  const act = may("operator");

  const choose = (one, is) => setChosen((before) => { const next = new Map(before); if (is) next.set(one.id, one); else next.delete(one.id); return next; });
  const done = () => { again(); };
  // Keys may come faster than the page is drawn: they see what is in force, not what was drawn.
  const current = useRef({ at: -1 });
  Object.assign(current.current, { items, chosen });
  const setAt = (to) => { current.current.at = to; };
  const focus = (index) => { const rows = table.current?.querySelectorAll("tbody tr"); if (!rows?.length) return; const to = Math.max(0, Math.min(rows.length - 1, index)); setAt(to); rows[to].querySelector("a").focus(); };
  const row = () => current.current.items?.[current.current.at];
  useKeys({
    "/": () => search.current?.focus(),
    f: () => setFiltering((is) => !is),
    j: () => focus(current.current.at + 1),
    k: () => focus(current.current.at - 1),
    x: () => (row() && act ? choose(row(), !current.current.chosen.has(row().id)) : false),
    p: () => { const { chosen: picked } = current.current, list = picked.size ? [...picked.values()] : row() ? [row()] : []; if (!list.length || !act) return false; setDialog({ Kind: PauseDialog, schedules: list }); return true; },
  }, []);

  const order = (name) => setQuery({ sort: sort === name ? `-${name}` : sort === `-${name}` ? null : name, offset: null });
  const clear = () => go(href("schedules"));
  return html`<${Page} title="Schedules" isPrimary>
    <div class="tools">
      <label class="search"><span class="sr">Search schedules</span><${Icon} name="search" /><${AddressField} type="search" field=${search} placeholder="Name or id" text=${query.get("q") || ""} rest=${200} onText=${(text) => setQuery({ q: text || null, offset: null })} /></label>
      <div class="row scroll-x" role="group" aria-label="By state">${FACETS.filter(([name]) => !name || states[name] || stateOf(query) === name || ["active", "failing", "paused"].includes(name)).map(([name, label]) => html`<button class="chip" key=${name} aria-pressed=${String(stateOf(query) === name)} onClick=${() => setQuery({ status: name && !FLAGS.has(name) ? name : null, failing: null, running: null, held: null, ...(FLAGS.has(name) ? { [name]: "true" } : {}), offset: null }, { replace: false })}>${label}<b>${number(name ? states[name] || 0 : all)}</b></button>`)}</div>
      <span class="grow hide-phone"></span>
      <button class="btn hide-phone" aria-expanded=${String(isFiltering)} onClick=${() => setFiltering(!isFiltering)}><${Icon} name="filter" />Filter <kbd>F</kbd></button>
    </div>
    ${isFiltering ? html`<${Filters} />` : null}
    <section class="card" aria-label="Schedules" aria-busy=${String(isAsking && !data)}>
      ${problem && !data ? html`<${Failed} what="The list could not be loaded" problem=${problem} again=${again} />` : !data ? html`<${Loading} rows=${10} />`
        : !items.length && isFiltered ? html`<${Empty} title="Nothing matches"><p>No schedule fits this search and filter.</p><button class="btn" onClick=${clear}>Clear the filter</button><//>`
        : !items.length ? html`<${Empty} title="No schedules yet"><p>Add one here, or put it into everwhen.yaml and reload.</p>${act ? html`<a class="btn primary" href=${href("new")}><${Icon} name="plus" />New schedule</a>` : null}<//>`
        : html`<div class="list-wide" ref=${table}><table class="table list"><caption class="sr">Schedules, by ${sort.replace("-", "").replaceAll("_", " ")}</caption>
          <thead><tr>${act ? html`<th scope="col"><input type="checkbox" class="check" aria-label=${`Select the ${items.length} rows of this page`} checked=${items.every((one) => chosen.has(one.id))} onChange=${(event) => setChosen(event.target.checked ? new Map(items.map((one) => [one.id, one])) : new Map())} /></th>` : null}
            ${COLUMNS.map(([name, text, cls]) => html`<th scope="col" key=${text} class=${cls} aria-sort=${name && sort.replace("-", "") === name ? (sort[0] === "-" ? "descending" : "ascending") : undefined}>${name ? html`<button onClick=${() => order(name)}>${text}${sort === name ? " ↑" : sort === `-${name}` ? " ↓" : ""}</button>` : text}</th>`)}<th scope="col"><span class="sr">Actions</span></th></tr></thead>
          <tbody>${items.map((one, index) => html`<${Row} key=${one.id} one=${one} isChosen=${chosen.has(one.id)} choose=${choose} act=${act} setDialog=${setDialog} done=${done} onFocus=${() => setAt(index)} />`)}</tbody></table></div>
          <ul class="cards">${items.map((one) => html`<${CardRow} key=${one.id} one=${one} />`)}</ul>`}
      ${data?.total ? html`<footer><span>${number(offset + 1)} to ${number(offset + items.length)} of ${data.total_is_approximate ? "about " : ""}${number(data.total)}</span>${took ? html`<span class="hide-phone">answered in ${Math.round(took)} ms</span>` : null}
        <span class="grow"></span><button class="btn small" disabled=${!offset} onClick=${() => setQuery({ offset: Math.max(0, offset - PAGE) || null }, { replace: false })}><${Icon} name="prev" />Previous</button><button class="btn small" disabled=${!data.next_cursor || offset + PAGE >= data.total} onClick=${() => setQuery({ offset: offset + PAGE }, { replace: false })}><${Icon} name="next" />Next</button></footer>` : null}
    </section>
    ${chosen.size && act ? html`<div class="bulk" role="toolbar" aria-label="Selected schedules"><strong>${chosen.size} selected</strong><span class="sep"></span>
      <button class="btn small" onClick=${() => setDialog({ Kind: PauseDialog, schedules: [...chosen.values()] })}><${Icon} name="pause" />Pause…</button><button class="btn small" onClick=${() => resumeAll([...chosen.values()], done)}><${Icon} name="play" />Resume</button><button class="btn small danger" onClick=${() => setDialog({ Kind: DeleteDialog, schedules: [...chosen.values()] })}><${Icon} name="bin" />Delete…</button>
      <button class="btn quiet small square" aria-label="Clear the selection" onClick=${() => setChosen(new Map())}><${Icon} name="close" /></button></div>` : null}
    ${dialog ? html`<${dialog.Kind} schedules=${dialog.schedules} schedule=${dialog.schedules?.[0]} onClose=${() => setDialog(null)} done=${() => { done(); setChosen(new Map()); }} />` : null}<//>`;
}

// Live never moves what is looked at: rows are updated in place, the order changes only with a new question.
function useStable(items, key) {
  const order = useRef({ key: null, ids: [] });
  if (!items) return items;
  const byId = new Map(items.map((one) => [one.id, one]));
  if (order.current.key !== key) order.current = { key, ids: items.map((one) => one.id) };
  const kept = order.current.ids.filter((id) => byId.has(id)), fresh = items.filter((one) => !order.current.ids.includes(one.id)).map((one) => one.id);
  order.current.ids = [...kept, ...fresh];
  return order.current.ids.map((id) => byId.get(id));
}

function Filters() {
  const { data } = useData((abort) => get("schedules/", { facets: "group,owner,type,target", limit: 1 }, { signal: abort }), []);
  return html`<div class="card filters">${SELECTS.map(([name, label]) => html`<label class="field" key=${name}><span class="label">${label}</span><select class="select" value=${route.value.query.get(name) || ""} onChange=${(event) => setQuery({ [name]: event.target.value || null, offset: null }, { replace: false })}><option value="">any</option>${Object.entries(data?.facets[name] || {}).filter(([value]) => value).map(([value, count]) => html`<option key=${value} value=${value}>${visible(value)} (${count})</option>`)}</select></label>`)}
    <button class="btn quiet" onClick=${() => setQuery(Object.fromEntries([...SELECTS.map(([name]) => [name, null]), ["offset", null]]))}>Clear</button></div>`;
}

function LastSlot({ one }) {
  const last = one.recent?.at(-1);
  if (!last) return html`<span class="muted">never ran</span>`;
  const kind = KIND[last.outcome];
  return html`<span class="outcome"><${Glyph} kind=${kind} /><span class="two"><span>${capital(WORD[kind])}</span><small>${kind === "run" ? html`for <${Running} since=${one.last_run_at || last.slot_at} />` : ago(ms(kind === "ok" || kind === "fail" ? one.last_completed_at || last.slot_at : last.slot_at), now.value)}</small></span></span>`;
}
function Row({ one, isChosen, choose, act, setDialog, done, onFocus }) {
  const name = scheduleName(one), open = (Kind) => setDialog({ Kind, schedules: [one] });
  return html`<tr aria-selected=${String(isChosen)} onFocusIn=${onFocus}>
    ${act ? html`<td><input type="checkbox" class="check" aria-label=${`Select ${name}`} checked=${isChosen} onChange=${(event) => choose(one, event.target.checked)} /></td>` : null}
    <td class="name"><span class="two"><span class="row"><a href=${href("schedules", one.id)} class="clip">${visible(name)}</a><${KindTag} target=${one.target} /></span><small class="clip" title=${triggerText(one)}>${triggerText(one)}</small></span></td>
    <td><${ScheduleState} schedule=${one} breaker=${breakerOf(one)} budget=${budgetOf(one)} /></td><td class="nowrap"><${When} at=${one.next_run_at} zone=${one.type === "cron" ? one.timezone : null} none=${noNextRun(one)[0]} /></td><td class="nowrap hide-middle"><${LastSlot} one=${one} /></td>
    <td class="strip-cell"><${Strip} slots=${one.recent} /></td><td class="num nowrap second hide-narrow">${one.usual_seconds === null || one.usual_seconds === undefined ? "" : duration(one.usual_seconds * 1000)}</td><td class="second clip hide-narrow">${visible(one.owner || "")}</td>
    <td class="right">${act ? html`<${Menu} label=${`Actions for ${name}`} cls="btn quiet square small" items=${[
      { text: "Trigger…", icon: "play", act: () => open(TriggerDialog) },
      one.status === "paused" ? { text: "Resume", icon: "play", act: () => resumeAll([one], done) } : { text: "Pause…", icon: "pause", act: () => open(PauseDialog) },
      { text: "Duplicate", icon: "copy", act: () => go(href("new", null, { like: one.id })) },
      one.source === "config" ? null : { text: "Delete…", icon: "bin", isDanger: true, act: () => open(DeleteDialog) },
    ]} />` : null}</td></tr>`;
}
const CardRow = ({ one }) => html`<li><div class="row between"><a class="plain strong clip" href=${href("schedules", one.id)}>${visible(scheduleName(one))}</a><${ScheduleState} schedule=${one} breaker=${breakerOf(one)} budget=${budgetOf(one)} /></div><small class="muted">${triggerText(one)}</small>
  <${Strip} slots=${one.recent} /><div class="row between"><${LastSlot} one=${one} /><span class="right nowrap"><${When} at=${one.next_run_at} zone=${one.type === "cron" ? one.timezone : null} none=${noNextRun(one)[0]} /></span></div></li>`;
