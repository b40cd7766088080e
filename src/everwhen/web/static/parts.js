// Parts that every page uses: times, states, dialogs, toasts, menus, and the data of a page.
import { html, signal, useEffect, useLayoutEffect, useRef, useState } from "./lib.js";
import { Problem } from "./api.js";
import { epoch, onEvents } from "./live.js";
import { reasonText } from "./terms.js";
import { absolute, duration, elapsed, frozen, inOwnZone, ms, now, number, ofSchedule, relative, ZONE } from "./time.js";
import { capital, Glyph, Icon, Pill } from "./glyphs.js";

// -- times --

// Why a schedule has no next run, in two words and in a sentence: the next slot of an interval may be counted from an end to come.
export function noNextRun(one) {
  if (one.status !== "active") return ["none", one.status];
  if (one.type === "webhook" || one.type === "chat") return ["none", reasonText("unsupported_type")];
  const isInterval = Boolean(one.interval_seconds);
  if (one.held_slot_at) return isInterval ? ["after the held slot", `${duration(one.interval_seconds * 1000)} after its job ends`] : ["none", "its last slot is held"];
  if (one.outstanding) return isInterval ? ["after this run", `${duration(one.interval_seconds * 1000)} after its job ends`] : ["none", "its last slot has fired"];
  return ["none", "no slot is left"];
}
// Relative over absolute; in the schedule's own zone, too, where the viewer's clock shows another time.
export function When({ at, zone, prefix = "", none = "none" }) {
  const instant = ms(at);
  if (instant === null) return html`<span class="muted">${none}</span>`;
  const own = inOwnZone(instant, zone);
  return html`<span class="two"><span class="strong ${frozen.value ? "stale" : ""}">${prefix}${relative(instant, now.value)}</span><small>${absolute(instant, now.value)}${own ? html`<br />${own}` : null}</small></span>`;
}
// A trigger in words; one with times of day names its zone where that is not the viewer's.
export const triggerText = (one) => visible(`${one.description_text}${one.type === "cron" && one.timezone !== ZONE ? `, ${one.timezone}` : ""}`);
export const Running = ({ since }) => html`${elapsed(ms(since), now.value)}`;

// -- the state of a schedule, in a pill only where it is out of the ordinary --

export function ScheduleState({ schedule, breaker, budget }) {
  const { status } = schedule;
  if (breaker && breaker.state !== "closed" && status === "active") return html`<${Pill} kind="fail">${breaker.state === "open" ? "Breaker open" : "Breaker probes"}<//>`;
  if (status === "paused") return html`<${Pill} kind="paused">${pausedBy(schedule)}<//>`;
  if (status === "invalid") return html`<${Pill} kind="warn">Invalid<//>`;
  if (status === "dead") return html`<${Pill} kind="fail">Dead<//>`;
  if (status === "done") return html`<${Pill} kind="cancel">Done<//>`;
  if (schedule.failed_slots > 0) return html`<${Pill} kind="fail">Failing<//>`;
  if (schedule.held_slot_at) return html`<${Pill} kind="hold">Held<//>`;
  if (budget) return html`<${Pill} kind="skip">Budget spent<//>`;
  return html`<span class="second">Active</span>`;
}
export const pausedBy = (schedule) => (schedule.pause?.name && schedule.paused_by !== "approval" ? `Paused by ${visible(schedule.pause.name)}` : {  approval: "Waits for approval", config: "Paused by its file", token: "Paused by a token", person: "Paused" }[schedule.paused_by] || "Paused");
// Who paused a schedule, since when, until when and with what note.
export function pauseText(schedule) {
  const { by, name, at, until, note } = schedule.pause, part = (word, instant) => (instant ? `${word} ${ofSchedule(ms(instant), now.value, schedule.timezone)}` : "");
  return `${pausedBy(schedule)}${part(" since", at)}${by === "approval" && name ? `, asked for by ${visible(name)}` : ""}${part(", until", until)}${note ? `: ${visible(note)}` : ""}`;
}
export const KindTag = ({ target }) => (["plugin", "agent", "workflow"].includes(target) ? html`<span class="tag">${target}</span>` : null);
export const scheduleName = (schedule) => (schedule.source === "api" && schedule.name ? schedule.name : schedule.id);

// -- states of a page: loading, empty, error --

export function Loading({ rows = 6 }) {
  const [since] = useState(() => Date.now());
  const [isSlow, setSlow] = useState(0);
  useEffect(() => {
    const timers = [setTimeout(() => setSlow(1), 200), setInterval(() => setSlow(Date.now() - since), 1000)];
    return () => { clearTimeout(timers[0]); clearInterval(timers[1]); };
  }, []);
  if (!isSlow) return html`<div class="loading" aria-busy="true"></div>`;
  return html`<div class="loading body stack" aria-busy="true">
    <span class="sr" role="status">Loading</span>
    ${Array.from({ length: rows }, (_, i) => html`<div class="skeleton w${[70, 92, 55, 80, 40, 62][i % 6]}" key=${i}></div>`)}
    ${isSlow > 5000 ? html`<p class="muted">Still asking, ${Math.round(isSlow / 1000)} s so far.</p>` : null}</div>`;
}
export const Empty = ({ icon = "schedules", title, children }) => html`<div class="empty"><${Icon} name=${icon} /><h3>${title}</h3><div class="stack center">${children}</div></div>`;
export function Failed({ what, problem, again }) {
  const text = visible(`${problem.status || "no answer"}: ${problem.message}`);
  return html`<div class="empty" role="alert"><${Glyph} kind="fail" /><h3>${what}</h3><p>${text}</p>
    <div class="row">${again ? html`<button class="btn" onClick=${again}><${Icon} name="rerun" />Try again</button>` : null}<${Copy} text=${text} label="Copy details" /></div></div>`;
}

// Ask for the data of a page, and again when `keys` change, the stream comes back, or events of these types happen.
// What is there stays while it is asked again: nothing jumps.
export function useData(ask, keys, { events = null, every = 0 } = {}) {
  const [state, setState] = useState({ data: null, problem: null, isAsking: true, at: 0 });
  const again = useRef(null);
  useEffect(() => {
    const abort = new AbortController();
    let timer = 0, isAsked = false, wanted = false;
    const run = async () => {
      if (isAsked) { wanted = true; return; }
      isAsked = true;
      setState((before) => ({ ...before, isAsking: true }));
      const began = performance.now();
      try {
        const data = await ask(abort.signal);
        if (abort.signal.aborted) return; // another question has been asked meanwhile
        setState({ data, problem: null, isAsking: false, took: performance.now() - began });
      } catch (problem) {
        if (problem.name === "AbortError" || abort.signal.aborted) return;
        if (!(problem instanceof Problem)) throw problem;
        setState((before) => ({ data: before.data, problem, isAsking: false }));
      }
      isAsked = false;
      if (wanted && !abort.signal.aborted) { wanted = false; soon(); }
    };
    const soon = () => { if (!timer) timer = setTimeout(() => { timer = 0; if (!document.hidden) run(); }, 700); };
    again.current = run;
    run();
    const unlisten = events ? onEvents((list) => { if (list.some(events)) soon(); }) : null;
    const interval = every ? setInterval(() => { if (!document.hidden) soon(); }, every) : 0;
    return () => { abort.abort(); clearTimeout(timer); clearInterval(interval); unlisten?.(); };
  }, [...keys, epoch.value]);
  return { ...state, again: () => again.current?.() };
}

// -- toasts --

export const toasts = signal([]);
let toastId = 0;
export function toast(text, { kind = "ok", undo = null, undoLabel = "Undo", lasts = 8000, onEnd = null } = {}) {
  const id = ++toastId;
  const end = () => { toasts.value = toasts.value.filter((one) => one.id !== id); };
  const timer = setTimeout(() => { end(); onEnd?.(); }, lasts);
  // Four at most; one that counts down stays, because it can still be stopped.
  const others = toasts.value, spare = others.filter((one) => !one.isTimed).slice(0, Math.max(0, others.length - 3));
  toasts.value = [...others.filter((one) => !spare.includes(one)), { id, text: visible(text), kind, undoLabel, until: Date.now() + lasts, isTimed: Boolean(onEnd), undo: undo && (() => { clearTimeout(timer); end(); undo(); }), close: onEnd ? null : () => { clearTimeout(timer); end(); } }];
}
export const complain = (problem) => toast(problem.message, { kind: "fail", lasts: 12000 });
export const Toasts = () => html`<div class="toasts" role="status" aria-live="polite">${toasts.value.map((one) => html`<div class="toast" key=${one.id}>
  <${Glyph} kind=${one.kind} /><span class="grow">${one.text}${one.isTimed ? html` <${Left} until=${one.until} />` : null}</span>
  ${one.undo ? html`<button class="btn small" onClick=${one.undo}>${one.undoLabel}</button>` : null}
  ${one.close ? html`<button class="btn quiet square small" aria-label="Close" onClick=${one.close}><${Icon} name="close" /></button>` : null}</div>`)}</div>`;
function Left({ until }) {
  const [, again] = useState(0);
  useEffect(() => { const timer = setInterval(() => again((n) => n + 1), 500); return () => clearInterval(timer); }, []);
  return html`<span class="muted" aria-hidden="true">${Math.max(0, Math.ceil((until - Date.now()) / 1000))} s</span>`;
}

// -- dialogs: the browser's own, so that focus stays inside and returns --

export function Dialog({ title, children, onClose, actions, isWide }) {
  const ref = useRef(null);
  useLayoutEffect(() => {
    const dialog = ref.current, before = document.activeElement;
    dialog.showModal();
    return () => { if (dialog.open) dialog.close(); if (before?.isConnected) before.focus({ preventScroll: true }); };
  }, []);
  title = visible(title);
  return html`<dialog class="dialog ${isWide ? "wide" : ""}" ref=${ref} aria-label=${title} onCancel=${(event) => { event.preventDefault(); onClose(); }} onClick=${(event) => { if (event.target === ref.current) onClose(); }}>
    <h2>${title}</h2>${children}<footer>${actions}</footer></dialog>`;
}
// A dialog with one verb. What `onSend` refuses with a Problem is shown; where it returns false, the dialog stays for the next step.
export function Ask({ title, children, verb, onSend, onClose, isDanger, cancel = "Cancel" }) {
  const [problem, setProblem] = useState(null), [isSending, setSending] = useState(false);
  const send = async (event) => {
    event?.preventDefault();
    setSending(true);
    setProblem(null);
    try { if ((await onSend()) === false) setSending(false); else onClose(); } catch (found) { if (!(found instanceof Problem)) throw found; setProblem(found); setSending(false); }
  };
  return html`<${Dialog} title=${title} onClose=${onClose} actions=${html`<button class="btn" onClick=${onClose}>${cancel}</button><button class="btn ${isDanger ? "solid-danger" : "primary"}" disabled=${isSending} onClick=${send}>${visible(verb)}</button>`}>
    <form class="stack" onSubmit=${send}>${children}${problem ? html`<${ProblemLine} text=${problem.message} />` : null}<button class="sr" tabindex="-1" aria-hidden="true" type="submit"></button></form><//>`;
}
export const ProblemLine = ({ text, id }) => html`<span class="problem" id=${id} role="alert"><${Glyph} kind="fail" /><span>${typeof text === "string" ? visible(text) : text}</span></span>`;
export const Field = ({ label, hint, problem, id, children }) => html`<div class="field"><label for=${id}>${label}</label>${children}${problem ? html`<${ProblemLine} text=${problem} id=${`${id}-problem`} />` : hint ? html`<span class="hint">${hint}</span>` : null}</div>`;

// A button with a menu under it.
export function Menu({ label, icon = "more", text, items, cls = "btn square" }) {
  const [isOpen, setOpen] = useState(false), box = useRef(null);
  useLayoutEffect(() => { // before the paint: a quick key finds the first item
    if (!isOpen) return undefined;
    const away = (event) => { if (!box.current?.contains(event.target)) setOpen(false); };
    addEventListener("pointerdown", away);
    box.current.querySelector("[role=menuitem]")?.focus();
    return () => removeEventListener("pointerdown", away);
  }, [isOpen]);
  const key = (event) => {
    const all = [...box.current.querySelectorAll("[role=menuitem]")], at = all.indexOf(document.activeElement);
    if (event.key === "Escape" && isOpen) { event.stopPropagation(); setOpen(false); box.current.querySelector("button").focus(); }
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step && isOpen) { event.preventDefault(); all[(at + step + all.length) % all.length]?.focus(); }
  };
  return html`<span class="menu-box" ref=${box} onKeyDown=${key}><button class=${cls} aria-label=${text ? undefined : label} aria-haspopup="menu" aria-expanded=${String(isOpen)} onClick=${() => setOpen(!isOpen)}><${Icon} name=${icon} />${text}</button>
    ${isOpen ? html`<ul class="menu" role="menu" aria-label=${label}>${items.filter(Boolean).map((item) => html`<li role="none" key=${item.text}><button role="menuitem" class=${item.isDanger ? "danger" : ""} onClick=${() => { setOpen(false); box.current.querySelector("button").focus(); item.act(); }}><${Icon} name=${item.icon} />${item.text}</button></li>`)}</ul>` : null}</span>`;
}

// A field whose text is in the address. What is being typed stays while the page is drawn again, and until the address
// says something else. It counts when the field is left or Enter is pressed; with `rest`, after so many milliseconds.
export function AddressField({ text, onText, rest = 0, field = null, ...more }) {
  const [typed, setTyped] = useState(null), timer = useRef(0), sent = useRef(text);
  useLayoutEffect(() => { if (text !== sent.current) { sent.current = text; clearTimeout(timer.current); setTyped(null); } }, [text]);
  useEffect(() => () => clearTimeout(timer.current), []);
  const send = (value) => { sent.current = value.trim(); onText(sent.current); };
  const type = ({ target: { value } }) => { setTyped(value); clearTimeout(timer.current); if (rest) timer.current = setTimeout(() => send(value), rest); };
  return html`<input class="input" ref=${field} value=${typed ?? text} onInput=${type} onChange=${rest ? undefined : (event) => send(event.target.value)} ...${more} />`;
}

// From cell to cell of a grid by the arrows: only one cell is a stop of Tab.
export function moveInGrid(event, row, column) {
  const step = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] }[event.key];
  if (!step) return;
  event.preventDefault();
  event.currentTarget.closest("[role=grid]").querySelector(`[data-cell="${row + step[0]}-${column + step[1]}"]`)?.focus();
}

export function Copy({ text, label, cls = "btn quiet", isShort }) {
  const copy = async () => {
    try { await navigator.clipboard.writeText(text); toast("Copied.", { lasts: 3000 }); } catch { toast("This browser does not let pages copy here; select the text instead.", { kind: "fail" }); }
  };
  return html`<button type="button" class="${cls}${isShort ? " square small" : ""}" aria-label=${isShort ? label : undefined} onClick=${copy}><${Icon} name="copy" />${isShort ? null : label}</button>`;
}
export const Seg = ({ label, options, value, onChange }) => html`<div class="seg" role="group" aria-label=${label}>${options.map(([key, text]) => html`<button type="button" key=${key} aria-pressed=${String(key === value)} onClick=${() => onChange(key)}>${text}</button>`)}</div>`;
export const plural = (count, one, many = `${one}s`) => `${number(count)} ${count === 1 ? one : many}`;

// Text of strangers: control characters are shown, not sent to the page as they are.
export const visible = (text) => String(text ?? "").replace(/[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]/g, (c) => `\\x${c.charCodeAt(0).toString(16).padStart(2, "0")}`);
export const sentence = (text) => { const line = capital(visible(text)); return /[.!?]$/.test(line) ? line : `${line}.`; };
