// The frame of every page: navigation, top bar, banners, the jump field, the theme, and the list of shortcuts.
import { html, signal, useEffect, useRef, useState } from "./lib.js";
import { get, isGlobal, may, me, post, signOut } from "./api.js";
import { lostSince, refreshStatus, retry, retryAt, status, tickAge, waiting } from "./live.js";
import { areOn, bindKeys, turn } from "./keys.js";
import { absolute, duration, exactNow, hms, ms, now, ZONE } from "./time.js";
import { Glyph, Icon, Logo } from "./glyphs.js";
import { complain, Dialog, KindTag, plural, scheduleName, toast, Toasts, visible } from "./parts.js";
import { focusPage, go, href, route } from "./router.js";

// -- theme: light, dark, or the system's --

const kept = () => { try { return localStorage.getItem("everwhen.theme") || "system"; } catch { return "system"; } };
export const theme = signal(kept());
// Counts changes of the colours that are in force: what is drawn on a canvas is drawn again.
export const colours = signal(0);
function choose(name) {
  theme.value = name;
  if (name === "system") delete document.documentElement.dataset.theme; else document.documentElement.dataset.theme = name;
  try { localStorage.setItem("everwhen.theme", name); } catch { /* storage may be off */ }
  colours.value++;
}
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { colours.value++; });
const THEMES = { system: ["light", "screen", "system's"], light: ["dark", "sun", "light"], dark: ["system", "moon", "dark"] };
const ThemeButton = () => {
  const [next, icon, word] = THEMES[theme.value] || THEMES.system;
  return html`<button class="btn quiet square small" aria-label=${`Theme: ${word}; switch to ${THEMES[next][2]}`} title=${`Theme: ${word}`} onClick=${() => choose(next)}><${Icon} name=${icon} /></button>`;
};

// -- navigation --

const nav = () => [
  ["Watch", [["", "Now", "now"], ["week", "Week", "week"], ["alerts", "Alerts", "alerts", status.value?.unanswered_alerts || 0, "fail"]]],
  ["Work", [["schedules", "Schedules", "schedules"], ["jobs", "Jobs", "jobs"], ["approvals", "Approvals", "approvals", waiting.value, "hot"]]],
  ["Rules", [["budgets", "Budgets", "agent", status.value?.spent_budgets.length || 0, "fail"], ["quiet-hours", "Quiet hours", "quiet"], ["breakers", "Breakers", "breakers", status.value?.breakers.length || 0, "fail"]]],
  ["Record", [["audit", "Audit", "audit"], ...(isGlobal() ? [["system", "System", "system"]] : [])]],
];
const Count = ({ page, count, tone }) => (count ? html`<span class="count ${tone}" role="img" aria-label=${`${count} ${{ approvals: "waiting", budgets: "spent" }[page] || "open"}`}>${count}</span>` : null);
const isCurrent = (page) => (route.value.page === page || (page === "schedules" && route.value.page === "new") ? "page" : undefined);

export const DATABASES = { sqlite: "SQLite", postgresql: "PostgreSQL" };
const who = () => `${visible(me.value.name)} · ${me.value.role}${may("operator") ? "" : ", read-only"}`;
function Side() {
  const found = status.value;
  return html`<nav class="side" aria-label="Main">
    <a class="brand" href=${href("")} aria-label="everwhen, Now"><${Logo} /><span>everwhen</span></a>
    ${nav().map(([head, items]) => html`<h2 key=${head}>${head}</h2>${items.map(([page, label, icon, count, tone]) => html`<a class="nav-item" key=${page} href=${href(page)} aria-current=${isCurrent(page)} title=${label}><${Icon} name=${icon} /><span>${label}</span><${Count} page=${page} count=${count} tone=${tone} /></a>`)}`)}
    <div class="foot">
      <${Pulse} />
      ${found ? html`<div class="row muted"><${Icon} name="system" />${plural(found.nodes.filter((node) => node.is_alive).length, "node")}, ${DATABASES[found.database] || "database"}${found.dispatch === "local" ? "" : `, ${found.dispatch}`}</div>` : null}
      <div class="row between"><span class="second clip" title=${`${who()}${me.value.owner ? `, owner ${visible(me.value.owner)}` : ""}`}>${who()}</span><span class="row tight"><${ThemeButton} /><button class="btn quiet square small" aria-label="Sign out" title="Sign out" onClick=${() => signOut().catch(complain)}><${Icon} name="out" /></button></span></div>
    </div></nav>`;
}
// The age of the last tick, as far as the process that answers has one; else whether any scheduler is alive.
function Pulse() {
  const found = status.value;
  if (lostSince.value !== null) return html`<span class="live off"><i></i>Disconnected</span>`;
  if (!found) return html`<span class="live"><i></i>Live</span>`;
  if (found.status !== "running") return html`<span class="live off"><i></i>No scheduler</span>`;
  if (!found.last_check_at) return html`<span class="live"><i></i>Ticking</span>`;
  const age = Math.max(0, now.value - ms(found.last_check_at));
  return html`<span class="live ${age > 15000 ? "off" : ""}"><i></i>${age > 15000 ? `No tick for ${duration(age)}` : `Ticking, ${tickAge(found)} ago`}</span>`;
}
function Bottom() {
  const [isOpen, setOpen] = useState(false), box = useRef(null);
  useEffect(() => {
    if (!isOpen) return undefined;
    const away = (event) => { if (!box.current?.contains(event.target)) setOpen(false); };
    addEventListener("pointerdown", away);
    return () => removeEventListener("pointerdown", away);
  }, [isOpen]);
  const key = (event) => { if (event.key === "Escape" && isOpen) { event.stopPropagation(); setOpen(false); box.current.querySelector("button").focus(); } };
  const items = [["", "Now", "now"], ["schedules", "Schedules", "schedules"], ["week", "Week", "week"], ["approvals", "Approvals", "approvals", waiting.value, "hot"]];
  const more = nav().flatMap(([, all]) => all).filter(([page]) => !items.some(([name]) => name === page));
  return html`<nav class="bottom" aria-label="Main, at the bottom" ref=${box} onKeyDown=${key}>${items.map(([page, label, icon, count, tone]) => html`<a key=${page} href=${href(page)} aria-current=${isCurrent(page)}><${Icon} name=${icon} />${label}<${Count} page=${page} count=${count} tone=${tone} /></a>`)}
    <button aria-expanded=${String(isOpen)} onClick=${() => setOpen(!isOpen)}><${Icon} name="menu" />More</button>
    ${isOpen ? html`<div class="more-sheet" onClick=${(event) => { if (event.target.closest("a")) setOpen(false); }}>${more.map(([page, label, icon, count, tone]) => html`<a class="nav-item" key=${page} href=${href(page)}><${Icon} name=${icon} /><span>${label}</span><${Count} page=${page} count=${count} tone=${tone} /></a>`)}
      <div class="row between"><span class="second">${who()}</span><span class="row"><${ThemeButton} /><button class="btn small" onClick=${() => signOut().catch(complain)}>Sign out</button></span></div></div>` : null}</nav>`;
}

// -- top bar --

export const Clock = () => html`<div class="clock" aria-hidden="true"><b class=${lostSince.value === null ? "" : "stale"}>${hms(now.value)}</b><span>${ZONE}</span></div>`;
function Top({ title, crumb, isPrimary }) {
  return html`<header class="top">
    ${crumb ? html`<div class="crumbs"><a href=${href(crumb[0])} class="hide-phone">${crumb[1]}</a><span class="muted hide-phone">/</span><h1 class="clip">${title}</h1></div>` : html`<h1>${title}</h1>`}
    <button class="jump" aria-label="Search or jump to" onClick=${() => { jumping.value = true; }}><${Icon} name="search" /><span class="grow">Search or jump to</span>${areOn.value ? html`<kbd>/</kbd>` : null}</button>
    ${may("operator") && route.value.page !== "new" ? html`<a class="btn square only-phone" href=${href("new")} aria-label="New schedule"><${Icon} name="plus" /></a>` : null}
    <${Clock} />
    ${may("operator") && route.value.page !== "new" ? html`<a class="btn ${isPrimary ? "primary" : ""} hide-phone" href=${href("new")}><${Icon} name="plus" />New schedule</a>` : null}
  </header>`;
}

// -- banners --

function Banners() {
  const found = status.value, since = lostSince.value;
  return html`${since !== null ? html`<${Disconnected} since=${since} />` : null}
    ${found?.is_paused ? html`<div class="banner hold" role="status"><${Glyph} kind="hold" /><span><strong>The whole system is paused</strong>${found.paused_by_name ? ` by ${visible(found.paused_by_name)}` : ""} since ${absolute(ms(found.paused_at), now.value)}. ${plural(found.schedules.active || 0, "active schedule")} ${found.schedules.active === 1 ? "fires" : "fire"} nothing.</span>${may("admin") ? html`<span class="end"><button class="btn small" onClick=${async () => { try { await post("system/resume/"); await refreshStatus(); toast("The system is resumed."); } catch (problem) { complain(problem); } }}>Resume the system</button></span>` : null}</div>` : null}
    ${found?.unready && since === null ? html`<div class="banner fail" role="status"><${Glyph} kind="fail" /><span><strong>Not ready:</strong> ${visible(found.unready)}. Nothing can be changed until that is over; it goes on by itself.</span></div>` : null}`;
}
function Disconnected({ since }) {
  const [, again] = useState(0);
  useEffect(() => { const timer = setInterval(() => again((n) => n + 1), 1000); return () => clearInterval(timer); }, []);
  const wait = retryAt.value === null ? 0 : Math.max(0, Math.ceil((retryAt.value - Date.now()) / 1000));
  return html`<div class="banner fail" role="status"><${Glyph} kind="lost" /><span><strong>Disconnected since ${absolute(since, now.value)}.</strong> What you see is ${duration(Math.round((exactNow() - since) / 1000) * 1000)} old; nothing moves until the stream is back.</span><span class="end"><span class="muted">${wait ? `next try in ${wait} s` : "trying"}</span><button class="btn small" onClick=${retry}>Try now</button></span></div>`;
}

// -- the jump field --

export const jumping = signal(false);
const PAGES = [["", "Now", "now"], ["week", "Week", "week"], ["schedules", "Schedules", "schedules"], ["jobs", "Jobs", "jobs"], ["approvals", "Approvals", "approvals"], ["alerts", "Alerts", "alerts"], ["budgets", "Agents and budgets", "agent"], ["quiet-hours", "Quiet hours", "quiet"], ["breakers", "Breakers", "breakers"], ["audit", "Audit", "audit"], ["system", "System", "system"], ["new", "New schedule", "plus"]];
function Jump() {
  const [text, setText] = useState(""), [found, setFound] = useState([]), [at, setAt] = useState(0), input = useRef(null);
  useEffect(() => { input.current?.focus(); }, []);
  useEffect(() => {
    const abort = new AbortController(), timer = setTimeout(async () => {
      try { setFound((await get("schedules/", { q: text || undefined, limit: 8, sort: "-last_fired_at" }, { signal: abort.signal })).items); } catch (problem) { if (problem.name !== "AbortError") setFound([]); }
    }, text ? 150 : 0);
    return () => { clearTimeout(timer); abort.abort(); };
  }, [text]);
  const close = () => { jumping.value = false; };
  // The answer to what was typed before stays until the next one is there, without what no longer fits.
  const isMeant = (one) => `${one.id}\n${one.name || ""}`.toLowerCase().includes(text.toLowerCase());
  const job = /^sched-\S+$/.test(text.trim()) ? [{ to: href("jobs", text.trim()), icon: "jobs", label: text.trim(), hint: "job" }] : [];
  const pages = PAGES.filter(([page, label]) => text && label.toLowerCase().includes(text.toLowerCase()) && (page !== "system" || isGlobal()) && (page !== "new" || may("operator"))).map(([page, label, icon]) => ({ to: href(page), icon, label, hint: "page" }));
  const all = [...job, ...pages, ...found.filter(isMeant).map((one) => ({ to: href("schedules", one.id), icon: "schedules", label: visible(scheduleName(one)), hint: visible(one.description_text), target: one.target }))];
  const open = (one) => { close(); go(one.to); };
  const key = (event) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step) { event.preventDefault(); setAt((at + step + all.length) % Math.max(1, all.length)); }
    if (event.key === "Enter" && all[at]) open(all[at]);
  };
  return html`<${Dialog} title="Search or jump to" onClose=${close} isWide actions=${html`<span class="muted grow"><kbd>↑</kbd> <kbd>↓</kbd> to move, <kbd>Enter</kbd> to open</span><button class="btn" onClick=${close}>Close</button>`}>
    <div class="stack jump-box"><label class="search"><span class="sr">Schedule, page or job id</span><${Icon} name="search" /><input class="input" ref=${input} value=${text} role="combobox" aria-expanded="true" aria-controls="jump-list" aria-activedescendant=${all[at] ? `jump-${at}` : undefined} placeholder="Schedule, page or job id" onInput=${(event) => { setText(event.target.value); setAt(0); }} onKeyDown=${key} /></label>
      <ul class="jump-list" id="jump-list" role="listbox" aria-label="Results">${all.map((one, i) => html`<li key=${one.to} id=${`jump-${i}`} role="option" aria-selected=${String(i === at)} onClick=${() => open(one)} onPointerMove=${() => setAt(i)}><${Icon} name=${one.icon} /><span class="strong clip">${one.label}</span><${KindTag} target=${one.target} /><span class="muted clip grow right">${one.hint}</span></li>`)}</ul>
      ${text && !all.length ? html`<p class="muted">Nothing has this in its name.</p>` : null}</div><//>`;
}

// -- the list of shortcuts --

const helping = signal(false);
const CHORDS = [["n", "", "Now"], ["w", "week", "Week"], ["l", "alerts", "Alerts"], ["s", "schedules", "Schedules"], ["j", "jobs", "Jobs"], ["p", "approvals", "Approvals"], ["b", "budgets", "Budgets"], ["q", "quiet-hours", "Quiet hours"], ["r", "breakers", "Breakers"], ["a", "audit", "Audit"], ["y", "system", "System"]];
const SHORTCUTS = [
  ["Everywhere", [["/", "search or jump to"], ["j k", "next, previous row"], ["c", "new schedule"], ["?", "this list"], ["Esc", "close what is open"]]],
  ["Go to", CHORDS.map(([key, , label]) => [`g ${key}`, label])],
  ["Now", [["n", "back to now"], ["+ −", "zoom"], ["← → ↑ ↓", "from slot to slot"], ["Enter", "open"], ["w", "why?"], ["v", "as a table"]]],
  ["Schedules", [["f", "filter"], ["x", "select"], ["p", "pause"], ["Enter", "open"]]],
  ["A schedule", [["w", "why? of the last slot"], ["[ ]", "slot before, slot after"]]],
  ["Approvals", [["j k", "next, previous card"], ["a", "approve the revision shown"], ["d", "decline"]]],
  ["A job", [["l", "follow"], ["Shift g", "end of the log"]]],
];
const Help = () => html`<${Dialog} title="Keyboard" isWide onClose=${() => { helping.value = false; }} actions=${html`<label class="row grow"><input type="checkbox" class="check" checked=${areOn.value} onChange=${(event) => turn(event.target.checked)} />Single-key shortcuts</label><button class="btn" onClick=${() => { helping.value = false; }}>Close</button>`}>
  <div class="shortcuts" tabindex="0" role="group" aria-label="Shortcuts">${SHORTCUTS.map(([head, keys]) => html`<section key=${head}><h3>${head}</h3><dl class="kv">${keys.map(([key, text]) => html`<dt key=${key}>${key.split(" ").map((one) => html`<kbd>${one}</kbd> `)}</dt><dd>${text}</dd>`)}</dl></section>`)}</div><//>`;

// From row to row of the first table; pages with keys of their own for it have these before.
function step(by) {
  const rows = [...(document.querySelector("main tbody")?.rows || [])].filter((row) => row.querySelector("a, button"));
  if (!rows.length) return false;
  const at = rows.findIndex((row) => row.contains(document.activeElement));
  rows[Math.max(0, Math.min(rows.length - 1, at + by))].querySelector("a, button").focus();
  return true;
}
bindKeys({
  "/": () => { jumping.value = true; },
  "?": () => { helping.value = true; },
  ...Object.fromEntries(CHORDS.map(([key, page]) => [`g ${key}`, () => (page !== "system" || isGlobal() ? go(href(page)) : false)])),
  j: () => step(1),
  k: () => step(-1),
  c: () => (may("operator") ? go(href("new")) : false),
});

export function Page({ title, crumb, isPrimary, cls = "page", children }) {
  useEffect(() => { document.title = `${title} · everwhen`; }, [title]);
  useEffect(focusPage, []);
  return html`<a class="skip-link" href="#main">Skip to content</a>
    <div class="app"><${Side} /><div class="grow"><${Top} title=${title} crumb=${crumb} isPrimary=${isPrimary} />
      <main id="main" tabindex="-1" class=${cls}>${cls === "page" ? html`<${Banners} />${children}` : html`<div class="banners"><${Banners} /></div>${children}`}</main></div></div>
    <${Bottom} /><${Toasts} />${jumping.value ? html`<${Jump} />` : null}${helping.value ? html`<${Help} />` : null}`;
}
