// New schedule: when, what, what if. The preview follows 150 ms after the last key; errors are the API's, at their field.
import { html, useEffect, useMemo, useRef, useState } from "../lib.js";
import { get, isGlobal, may, patch, post, Problem } from "../api.js";
import { absolute, day, hms, ms, now, relative, ZONE, zoneName } from "../time.js";
import { capital, Glyph } from "../glyphs.js";
import { Copy, Empty, Failed, Field, Loading, ProblemLine, scheduleName, Seg, toast, useData, visible } from "../parts.js";
import { reasonText, terms } from "../terms.js";
import { go, href, route } from "../router.js";
import { bodyOf, changed, copyOf, curlOf, EMPTY, formOf, REQUESTS, TARGETS, yamlOf } from "../schedule_form.js";
import { Page } from "../shell.js";

const PAUSE = 150;
const TRIGGERS = [["every", "Every"], ["cron", "Cron"], ["at", "At"], ["after", "After"]];
// What a key is where the form says nothing, and the words that it may be, each with its meaning.
const keyOf = (key) => terms.value.keys.find((one) => one.key === key);
const defaultOf = (key) => `${keyOf(key).default}, the default`;
const wordsOf = (key) => [["", defaultOf(key)], ...keyOf(key).words.map(({ word, about }) => [word, `${word}: ${about}`])];
const meaningOf = (key, word) => keyOf(key).words.find((one) => one.word === word)?.about;
// Both words of `dst` in one choice; either may be left to its default.
const clocks = () => { const [gaps, folds] = ["dst.gap", "dst.fold"].map((key) => ["", ...keyOf(key).words.map((one) => one.word)]); return gaps.flatMap((gap) => folds.map((fold) => [gap || fold ? `${gap} ${fold}` : "", gap || fold ? [gap && `gap: ${gap}`, fold && `fold: ${fold}`].filter(Boolean).join(", ") : defaultOf("dst")])); };
const clockText = (dst) => { const [gap, fold] = dst.split(" "); return [meaningOf("dst.gap", gap), meaningOf("dst.fold", fold)].filter(Boolean).map(capital).join("; "); };
const zones = (() => { try { return Intl.supportedValuesOf("timeZone"); } catch { return [ZONE, "UTC"]; } })();

export function NewSchedule() {
  const { query } = route.value, like = query.get("like"), edit = query.get("edit");
  const source = useData((abort) => Promise.all(like || edit ? ["", ...(like ? ["body/"] : [])].map((more) => get(`schedules/${encodeURIComponent(like || edit)}/${more}`, null, { signal: abort })) : []), [like, edit]);
  const title = edit ? "Edit schedule" : "New schedule";
  if (!may("operator")) return html`<${Page} title=${title} crumb=${["schedules", "Schedules"]}><section class="card"><${Empty} title="This token may only look"><p>To make schedules, sign in with the role operator or admin.</p><//></section><//>`;
  if (like || edit) {
    if (source.problem) return html`<${Page} title=${title} crumb=${["schedules", "Schedules"]}><section class="card"><${Failed} what="The schedule could not be loaded" problem=${source.problem} again=${source.again} /></section><//>`;
  }
  if (!source.data || !terms.value) return html`<${Page} title=${title} crumb=${["schedules", "Schedules"]}><section class="card"><${Loading} /></section><//>`;
  const [schedule = null, own = null] = source.data;
  return html`<${Form} key=${like || edit || "new"} source=${schedule} own=${own} isEdit=${Boolean(edit)} title=${title} />`;
}

// `own`: what makes the source again, where it is to be copied.
function Form({ source, own: ownFields, isEdit, title }) {
  const { source: like, copied, left } = useMemo(() => (ownFields ? copyOf(source, ownFields) : { source, copied: {}, left: [] }), [source, ownFields]);
  const [form, setForm] = useState(() => (source ? { ...formOf(like), ...(isEdit ? {} : { name: `${scheduleName(source)} copy` }) } : EMPTY));
  const [touched, setTouched] = useState(new Set()), [refused, setRefused] = useState(null), [isSending, setSending] = useState(false);
  const policies = useData((abort) => get("quiet-hours/", null, { signal: abort }), []).data?.items || [];
  const set = (key) => (event) => { const { value } = event.target ?? { value: event }; setForm((before) => ({ ...before, [key]: value })); setTouched((before) => new Set(before).add(key)); setRefused(null); };
  const { body, problems: local } = useMemo(() => bodyOf(form, like, copied), [form]);
  const { preview, problem, isAsking, took } = usePreview(body, form, isEdit ? source : null);
  const errors = [...local, ...(refused?.errors || problem?.errors || [])];
  const at = (...paths) => { const found = errors.find((one) => paths.some((path) => one.path === path || one.path.startsWith(`${path}.`))); return found && (refused || paths.some((path) => touched.has(path) || touched.has(path.split(".").pop())) || !source) ? capital(found.message) : null; };
  const own = useRef(crypto.randomUUID?.() || String(Math.random()));

  const send = async (isPaused) => {
    setSending(true);
    try {
      const sent = isPaused ? { ...body, enabled: false } : body;
      const made = isEdit ? await patch(`schedules/${encodeURIComponent(source.id)}/`, changed(source, body), { headers: { "if-match": `"${source.revision}"` } }) : await post("schedules/", sent, { headers: { "idempotency-key": own.current } });
      toast(isEdit ? `Changed ${visible(scheduleName(made))}: revision ${made.revision}.` : `Created ${visible(scheduleName(made))}.`);
      go(href("schedules", made.id));
    } catch (found) {
      if (!(found instanceof Problem)) throw found;
      if (found.status) own.current = crypto.randomUUID?.() || String(Math.random()); // without an answer it may have been made
      setRefused(found);
      setSending(false);
    }
  };
  const input = (key, more = {}) => html`<input id=${key} class="input ${more.isMono ? "mono" : ""}" value=${form[key]} autocomplete="off" spellcheck=${false} placeholder=${more.placeholder} list=${more.list} aria-invalid=${at(more.path || key) ? "true" : undefined} aria-describedby=${at(more.path || key) ? `${key}-problem` : undefined} onInput=${set(key)} />`;
  const select = (key, options) => html`<select id=${key} class="select" value=${form[key]} onChange=${set(key)}>${options.map(([value, text]) => html`<option key=${value} value=${value}>${text}</option>`)}</select>`;
  const targets = source && !TARGETS.some(([kind]) => kind === source.target) ? [...TARGETS, [source.target, capital(source.target)]] : TARGETS;
  const when = { every: ["Interval", "10m, 1h30m, 1d"], cron: ["Cron expression", "minute hour day month weekday"], at: ["Instant", "2027-01-31T09:00"], after: ["Delay", "90s, 2h"] }[form.trigger], isAsked = REQUESTS.includes(form.trigger);
  const buttons = isEdit ? html`<button class="btn primary" disabled=${isSending || errors.length > 0} onClick=${() => send(false)}>Save as revision ${source.revision + 1}</button>` : html`<button class="btn" disabled=${isSending || errors.length > 0} onClick=${() => send(true)}>Create paused</button><button class="btn primary" disabled=${isSending || errors.length > 0} onClick=${() => send(false)}>Create</button>`;
  return html`<${Page} title=${title} crumb=${["schedules", "Schedules"]}><div class="new">
    <form class="stack" onSubmit=${(event) => { event.preventDefault(); send(false); }}>
      <section class="card"><header><h2>When</h2><span class="end"><${Seg} label="Trigger" options=${isAsked ? [[form.trigger, capital(form.trigger)]] : TRIGGERS} value=${form.trigger} onChange=${(value) => set("trigger")(value)} /></span></header><div class="body stack">
        <div class="form-2">${isAsked ? html`<p class="second">${capital(reasonText("unsupported_type"))}.</p>` : html`<${Field} id=${form.trigger} label=${when[0]} hint=${when[1]} problem=${at(form.trigger, "spec", "")}>${input(form.trigger, { isMono: true })}<//>`}
          <${Field} id="timezone" label="Time zone" problem=${at("timezone")}>${input("timezone", { list: "zones" })}<datalist id="zones">${zones.map((name) => html`<option key=${name} value=${name} />`)}</datalist><//></div>
        ${form.trigger === "cron" ? html`<${CronParts} text=${form.cron} />` : null}
        <div class="form-2"><${Field} id="only_between" label="Only between" problem=${at("only_between")}>${input("only_between", { placeholder: "for example 08:00-18:00" })}<//>
          <${Field} id="quiet_hours" label="Quiet hours" problem=${at("quiet_hours")}>${select("quiet_hours", [["", "None"], ...policies.map((one) => [one.id, visible(one.name || one.id)])])}<//>
          <${Field} id="jitter" label="Jitter" problem=${at("jitter")}>${input("jitter", { placeholder: "for example 30s" })}<//>
          ${form.trigger === "cron" || form.trigger === "at" ? html`<${Field} id="dst" label="When clocks change" hint=${clockText(form.dst)} problem=${at("dst")}>${select("dst", clocks())}<//>` : null}</div></div></section>
      <section class="card"><header><h2>What</h2><span class="end"><${Seg} label="Target" options=${targets} value=${form.target} onChange=${(value) => set("target")(value)} /></span></header><div class="body stack">
        <div class="form-2"><${Field} id="name" label="Name" problem=${at("name")}>${input("name")}<//>
          ${isGlobal() ? html`<${Field} id="owner" label="Owner" problem=${at("owner")}>${input("owner", { placeholder: "nobody" })}<//>` : null}</div>
        ${form.target === "http" ? html`<div class="form-url"><${Field} id="method" label="Method">${select("method", keyOf("run.http.method").words.map(({ word }) => [word, word]))}<//><${Field} id="url" label="URL" problem=${at("run.http.url", "run.http", "run")}>${input("url", { isMono: true, path: "run.http.url", placeholder: "https://…" })}<//></div>` : null}
        ${form.target === "message" ? html`<${Field} id="text" label="Text" problem=${at("run.message", "run")}>${input("text", { path: "run.message" })}<//>` : null}
        ${form.target === "plugin" ? html`<div class="form-2"><${Field} id="plugin" label="Plugin" problem=${at("run.plugin", "run")}>${input("plugin", { path: "run.plugin" })}<//><${Field} id="command" label="Command">${input("command")}<//></div>` : null}
        ${form.target === "agent" ? html`<${Field} id="agent" label="Agent" problem=${at("run.agent", "run")}>${input("agent", { path: "run.agent" })}<//><${Field} id="prompt" label="Prompt"><textarea id="prompt" class="area" value=${form.prompt} onInput=${set("prompt")}></textarea><//>` : null}
        ${form.target === "command" ? html`<${Field} id="argv" label="Command" hint="Words by spaces, a word with spaces in double quotes; never a shell." problem=${at("run.command", "run")}>${input("argv", { isMono: true, path: "run.command" })}<//>` : null}
        ${targets.length > TARGETS.length && form.target === source.target ? html`<pre class="code">${visible(JSON.stringify(body.run, null, 2))}</pre>` : null}
        ${left.length ? html`<p class="second" role="note">Secrets are not copied, because nobody can read them: ${left.map(visible).join(", ")}.</p>` : null}
        <${Field} id="payload" label="Payload" hint="A JSON object; optional." problem=${at("payload")}><textarea id="payload" class="area mono" spellcheck=${false} value=${form.payload} aria-invalid=${at("payload") ? "true" : undefined} onInput=${set("payload")}></textarea><//></div></section>
      <section class="card"><header><h2>If something is in the way</h2></header><div class="body form-2">
        <${Field} id="if_running" label="Still running" problem=${at("if_running")}>${select("if_running", wordsOf("if_running"))}<//>
        <${Field} id="catch_up" label="Missed while down" problem=${at("catch_up")}>${select("catch_up", wordsOf("catch_up"))}<//>
        <${Field} id="max_retries" label="Retries" problem=${at("max_retries")}>${input("max_retries", { placeholder: defaultOf("max_retries") })}<//>
        <${Field} id="timeout" label="Timeout" problem=${at("timeout")}>${input("timeout", { placeholder: defaultOf("timeout") })}<//></div></section><button class="sr" type="submit" tabindex="-1" aria-hidden="true"></button></form>
    <aside class="card preview" aria-label="Preview"><header><h2>Preview</h2><span class="end muted">${took ? `answered in ${Math.round(took)} ms` : ""}</span></header>
      <div class="body stack ${isAsking || problem ? "dim" : ""}" aria-live="polite">${preview ? html`<p class="words">${capital(visible(preview.sentence))} <span class="muted">(${preview.timezone})</span></p><${Instants} preview=${preview} /><${WeekMap} items=${preview.items} zone=${preview.timezone} />` : problem ? null : html`<${Loading} rows=${5} />`}</div>
      ${errors.length ? html`<div class="banner fail flat"><${Glyph} kind="fail" /><span>${errors.length === 1 ? "1 problem" : `${errors.length} problems`} to solve: ${[...new Set(errors.map((one) => one.path || "the body"))].slice(0, 4).map((path, i) => html`${i ? ", " : ""}<a href=${`#${fieldOf(path, form)}`} onClick=${(event) => { event.preventDefault(); document.getElementById(fieldOf(path, form))?.focus(); }}>${path}</a>`)}</span></div>` : refused ? html`<div class="banner fail flat"><${ProblemLine} text=${refused.message} /></div>` : null}
      <footer><${Copy} text=${yamlOf(body)} label="As YAML" cls="btn quiet small" /><${Copy} text=${curlOf(body)} label="As curl" cls="btn quiet small" /><span class="grow"></span><span class="row wide-only">${buttons}</span></footer></aside>
    <div class="row narrow-only">${buttons}</div></div><//>`;
}
const FIELD = { http: "url", message: "text", plugin: "plugin", agent: "agent", command: "argv" };
const fieldOf = (path, form) => (path === "" ? form.trigger : path.startsWith("run") ? FIELD[form.target] || "name" : path.split(".")[0]);

// The old answer stays, dimmed, until the new one is there.
function usePreview(body, form, edited) {
  const [state, setState] = useState({ preview: null, problem: null, isAsking: true });
  const { name, payload, run, ...timing } = body, isComplete = form.target in FIELD ? form[FIELD[form.target]] : true;
  // A run that stays as it is may have masks in it: only one that was changed is judged.
  const sent = JSON.stringify(isComplete && !(edited && JSON.stringify(edited.run) === JSON.stringify(run)) ? { ...timing, run } : timing);
  useEffect(() => {
    const abort = new AbortController();
    setState((before) => ({ ...before, isAsking: true }));
    const timer = setTimeout(async () => {
      const began = performance.now();
      try { setState({ preview: await post("preview/?limit=5", JSON.parse(sent), { signal: abort.signal }), problem: null, isAsking: false, took: performance.now() - began }); } catch (problem) {
        if (problem.name === "AbortError") return;
        setState((before) => ({ ...before, problem, isAsking: false }));
      }
    }, PAUSE);
    return () => { clearTimeout(timer); abort.abort(); };
  }, [sent]);
  return state;
}
function Instants({ preview: { items, timezone, clock_change: change } }) {
  const line = (at, note, key) => html`<tr key=${key}><td class="nowrap strong">${day(at, timezone)}</td><td class="nowrap">${hms(at, timezone)}<span class="muted"> ${zoneName(at, timezone)}</span></td><td class="muted right">${note}</td></tr>`;
  return html`<table class="instants"><caption class="sr">The next instants, in ${timezone}</caption><tbody>${items.map((one) => [line(ms(one.due_at), one.skip_reason ? `skipped: ${reasonText(one.skip_reason)}` : relative(ms(one.due_at), now.value), one.slot_at), one.note ? html`<tr class="note" key=${`${one.slot_at} note`}><td colspan="3">${capital(one.note)}.</td></tr>` : null])}
    ${items.length ? null : html`<tr><td class="muted">No slot lies ahead.</td></tr>`}
    ${change ? html`<tr><td class="muted" colspan="3">Then the clock is put ${change.forward_seconds > 0 ? "forward" : "back"} on ${day(ms(change.at), timezone)}${change.slot_at ? ":" : ", which moves no slot."}</td></tr>${change.slot_at ? [line(ms(change.slot_at), html`<span class="tag">${change.note.split(":")[0]}</span>`, "change"), html`<tr class="note" key="change note"><td colspan="3">${capital(change.note)}.</td></tr>`] : null}` : null}</tbody></table>`;
}
// In a week: where the next instants lie.
function WeekMap({ items, zone }) {
  const days = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"], marks = items.map((one) => { const at = ms(one.due_at), parts = new Intl.DateTimeFormat("en-GB", { timeZone: zone === "local" ? ZONE : zone, weekday: "short", hour: "2-digit", minute: "2-digit", hourCycle: "h23" }).formatToParts(at), get = (type) => parts.find((part) => part.type === type).value; return [days.indexOf(get("weekday")), Number(get("hour")) + Number(get("minute")) / 60]; });
  return html`<div class="mini"><svg viewBox="0 0 400 92" role="img" aria-label=${`Where the next ${items.length} instants lie in a week: ${items.map((one) => absolute(ms(one.due_at), now.value, zone)).join("; ")}`}>${days.map((name, i) => html`<g key=${name}><text x="0" y=${10 + i * 11}>${name}</text><rect x="30" y=${2 + i * 11} width="370" height="9" rx="2" fill="var(--inset)" /></g>`)}${marks.map(([row, hour], i) => html`<rect key=${i} x=${30 + (hour / 24) * 370 - 1.5} y=${1 + row * 11} width="4" height="11" rx="1.5" fill="var(--accent)" />`)}${[0, 6, 12, 18].map((hour) => html`<text key=${hour} x=${30 + (hour / 24) * 370} y="91">${`${String(hour).padStart(2, "0")}:00`}</text>`)}</svg></div>`;
}
function CronParts({ text }) {
  const parts = text.trim().split(/\s+/);
  if (parts.length !== 5) return null;
  return html`<div class="cron" aria-hidden="true">${["minute", "hour", "day", "month", "weekday"].map((name, i) => html`<div key=${name}><b>${visible(parts[i])}</b><small>${parts[i] === "*" ? `any ${name}` : name}</small></div>`)}</div>`;
}
