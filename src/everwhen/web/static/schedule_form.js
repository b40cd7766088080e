// The form of a schedule as the API takes it: what is sent, what an existing schedule has, and the same as YAML and curl.
import { ROOT } from "./api.js";
import { ZONE } from "./time.js";

export const TARGETS = [["http", "HTTP"], ["message", "Message"], ["plugin", "Plugin"], ["agent", "Agent"], ["command", "Command"]];
const TRIGGERS = ["every", "cron", "at", "after"];
// What requests fire has no trigger, but a type.
export const REQUESTS = ["webhook", "chat"];
export const EMPTY = { trigger: "cron", every: "10m", cron: "0 9 * * 1-5", at: "", after: "1h", timezone: ZONE, only_between: "", quiet_hours: "", jitter: "", dst: "", target: "http", name: "", owner: "", url: "", method: "POST", text: "", plugin: "", command: "poll", agent: "", prompt: "", argv: "", payload: "", if_running: "", catch_up: "", max_retries: "", timeout: "" };
// The keys that are one field each, as they are.
const PLAIN = ["timezone", "only_between", "quiet_hours", "jitter", "name", "owner", "if_running", "catch_up", "timeout"];
// All keys that the form shows; a copy has the others as the service answers them (GET /schedules/{id}/body/).
const SHOWN = new Set([...PLAIN, ...TRIGGERS, "type", "dst", "max_retries", "payload", "run"]);
const same = (a, b) => JSON.stringify(a) === JSON.stringify(b);
const isSet = (value) => value !== null && value !== undefined && value !== "" && !same(value, []) && !same(value, {});

// A command as text: words by spaces, those with spaces or quotes in double quotes.
const wordsOf = (argv) => argv.map((word) => (/^[^\s"]+$/.test(word) ? word : JSON.stringify(word))).join(" ");
const argvOf = (text) => [...text.matchAll(/"(?:\\.|[^"\\])*"(?=\s|$)|\S+/g)].map(([word]) => { try { return word[0] === '"' ? JSON.parse(word) : word; } catch { return word; } });

// What is run: the fields of the form, over what the source has of the same kind and the form does not show.
function runOf(form, source) {
  const before = source?.target === form.target ? source.run : {}, inside = before[form.target];
  const merged = (fields) => ({ ...before, [form.target]: { ...inside, ...fields } });
  switch (form.target) {
    case "http": return merged({ url: form.url, ...(form.method !== "POST" || inside?.method ? { method: form.method } : {}) });
    case "message": return merged({ text: form.text });
    case "plugin": return merged({ name: form.plugin, command: form.command });
    case "agent": return merged({ name: form.agent, ...(form.prompt || inside?.prompt ? { prompt: form.prompt } : {}) });
    case "command": return { ...before, command: argvOf(form.argv) };
    default: return before; // of a kind that the form does not know
  }
}
// What is sent: only what was filled in. `copied` are the keys of a source that the form has no field for.
export function bodyOf(form, source, copied = {}) {
  const body = { ...copied, ...(REQUESTS.includes(form.trigger) ? { type: form.trigger } : { [form.trigger]: form.trigger === "at" && form.at ? atText(form.at) : form[form.trigger] }) }, problems = [];
  for (const key of PLAIN) if (form[key]) body[key] = form[key];
  if (form.dst && (form.trigger === "cron" || form.trigger === "at")) { const [gap, fold] = form.dst.split(" "); body.dst = { ...(gap ? { gap } : {}), ...(fold ? { fold } : {}) }; }
  if (form.max_retries !== "") body.max_retries = Number.isNaN(Number(form.max_retries)) ? form.max_retries : Number(form.max_retries);
  if (form.payload.trim()) { try { body.payload = JSON.parse(form.payload); } catch (error) { problems.push({ path: "payload", message: `is not valid JSON: ${error.message}` }); } }
  body.run = runOf(form, source);
  return { body, problems };
}
const atText = (text) => (/[zZ]|[+-]\d\d:\d\d$/.test(text) ? text : `${text}${text.length === 16 ? ":00" : ""}`);

// The fields of the form that a schedule has.
export function formOf(schedule) {
  const trigger = TRIGGERS.find((key) => isSet(schedule[key])) || schedule.type, run = schedule.run[schedule.target] || {}, { dst } = schedule;
  const plain = (key) => (isSet(schedule[key]) ? String(schedule[key]) : "");
  return {
    ...EMPTY, trigger, ...(isSet(schedule[trigger]) ? { [trigger]: plain(trigger) } : {}), ...Object.fromEntries(PLAIN.map((key) => [key, plain(key)])),
    max_retries: plain("max_retries"), dst: isSet(dst) ? `${dst.gap || ""} ${dst.fold || ""}` : "", payload: isSet(schedule.payload) ? JSON.stringify(schedule.payload, null, 2) : "", target: schedule.target,
    url: run.url || "", method: run.method || "POST", text: run.text || "", plugin: run.name || "", command: run.command || "poll", agent: run.name || "", prompt: run.prompt || "", argv: Array.isArray(run) ? wordsOf(run) : "",
  };
}
// What a copy takes over: the schedule as the form has it, and the keys that it does not show. A secret is left out, and named.
export function copyOf(schedule, { body, left_out: left }) {
  const copied = Object.fromEntries(Object.entries(body).filter(([key]) => !SHOWN.has(key)));
  return { source: { type: schedule.type, target: schedule.target, ...body }, copied, left: left.filter((path) => path !== "run.http.url") };
}
// A change names only what is different; what was emptied is cleared.
export function changed(source, body) {
  const found = {};
  for (const [key, value] of Object.entries(body)) if (!same(source[key], value)) found[key] = value;
  for (const key of [...PLAIN, "dst", "max_retries", "payload"]) if (isSet(source[key]) && !(key in body)) found[key] = null;
  return found;
}

// -- the same as text --

const WORD = /^[A-Za-z][\w./-]*$/, NO_TEXT = /^(true|false|yes|no|on|off|null|y|n)$/i; // what YAML takes for something else
const quoted = (text) => JSON.stringify(text).replace(/[\u007f-\u009f\u2028\u2029\ufeff]/g, (c) => `\\u${c.charCodeAt(0).toString(16).padStart(4, "0")}`);
const yamlText = (text) => (WORD.test(text) && !NO_TEXT.test(text) ? text : quoted(text));
const yamlValue = (value) => (typeof value === "string" ? yamlText(value) : Array.isArray(value) ? `[${value.map(yamlValue).join(", ")}]` : value && typeof value === "object" ? `{${Object.entries(value).map(([key, one]) => `${yamlText(key)}: ${yamlValue(one)}`).join(", ")}}` : String(value));
export function yamlOf(body) {
  const { name, ...rest } = body, id = (name || "my-schedule").replace(/[^A-Za-z0-9_-]+/g, "-").replace(/^[^A-Za-z0-9]+|-+$/g, "") || "my-schedule";
  return `schedules:\n  - id: ${yamlText(id)}\n${Object.entries(name && name !== id ? { name, ...rest } : rest).map(([key, value]) => `    ${key}: ${yamlValue(value)}\n`).join("")}`;
}
export const curlOf = (body) => `curl -X POST ${ROOT.href}api/v1/schedules/ \\\n  -H "X-API-Key: $EVERWHEN_TOKEN" -H 'Content-Type: application/json' \\\n  -d '${JSON.stringify(body).replaceAll("'", "'\\''")}'`;
