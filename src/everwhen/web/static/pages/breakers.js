// Breakers: what is open, since when, why; reset.
import { html, useEffect, useState } from "../lib.js";
import { get, may, post } from "../api.js";
import { refreshStatus } from "../live.js";
import { absolute, ms, now, relative } from "../time.js";
import { capital, Icon, Pill } from "../glyphs.js";
import { Ask, Empty, Failed, Loading, plural, toast, useData, visible } from "../parts.js";
import { jobName, learnNames, nameOf } from "../names.js";
import { reasonText } from "../terms.js";
import { href, route, setQuery } from "../router.js";
import { Page } from "../shell.js";

const WORDS = { open: ["fail", "Open"], half_open: ["warn", "Probes"], closed: ["ok", "Closed"] };

export function Breakers() {
  const { data, problem, again } = useData((abort) => get("breakers/", null, { signal: abort }), [], { events: (event) => event.type.startsWith("breaker.") });
  const key = route.value.query.get("key"), [asked, setAsked] = useState(null), order = { open: 0, half_open: 1, closed: 2 };
  const items = [...(data?.items || [])].sort((a, b) => order[a.state] - order[b.state] || a.key.localeCompare(b.key)).slice(0, 200);
  useEffect(() => { learnNames([key, ...(data?.items || []).map((one) => one.key)].filter(Boolean)); }, [data, key]);
  const reset = async () => { await post(`breakers/${encodeURIComponent(asked)}/reset/`); toast(`The breaker ${nameOf(asked)} is closed.`); again(); refreshStatus(); };
  return html`<${Page} title="Breakers">
    <p class="second">A breaker opens when its threshold of failures in a row is reached: its slots are skipped until a probe succeeds, instead of failing again and again.</p>
    <section class="card" aria-label="Breakers">${problem && !data ? html`<${Failed} what="The breakers could not be loaded" problem=${problem} again=${again} />` : !data ? html`<${Loading} />` : !items.length ? html`<${Empty} icon="breakers" title="No breaker has counted a failure"><p>Set <span class="mono">circuit_breaker</span> on a plugin, an agent or a schedule.</p><//>` : html`<div class="table-box"><table class="table stacked"><caption class="sr">Breakers, open ones first</caption><thead><tr><th scope="col">Breaker</th><th scope="col">State</th><th scope="col">Failures in a row</th><th scope="col">Since</th><th scope="col">Next probe</th><th scope="col"><span class="sr">Actions</span></th></tr></thead><tbody>${items.map((one) => html`<tr key=${one.key} aria-selected=${String(one.key === key)}><td class="strong"><button class="link" aria-expanded=${String(one.key === key)} onClick=${() => setQuery({ key: one.key === key ? null : one.key })}>${visible(nameOf(one.key))}</button></td><td>${one.state === "closed" ? html`<span class="second">Closed</span>` : html`<${Pill} kind=${WORDS[one.state][0]}>${WORDS[one.state][1]}<//>`}</td><td data-of="Failures in a row">${one.failure_count}</td><td class="nowrap">${one.opened_at ? html`<span class="two"><span>${relative(ms(one.opened_at), now.value)}</span><small>${absolute(ms(one.opened_at), now.value)}</small></span>` : html`<span class="muted">–</span>`}</td><td class="nowrap" data-of="Next probe">${one.probes_at ? html`<span class="two"><span>${ms(one.probes_at) > now.value ? relative(ms(one.probes_at), now.value) : "its next slot"}</span><small>from ${absolute(ms(one.probes_at), now.value)} on</small></span>` : html`<span class="muted">${one.state === "half_open" ? "runs now" : "–"}</span>`}</td><td class="right">${may("operator") && one.state !== "closed" ? html`<button class="btn small" onClick=${() => setAsked(one.key)}><${Icon} name="breakers" />Reset…</button>` : null}</td></tr>`)}</tbody></table></div><footer><span>${plural(items.length, "breaker")}</span></footer>`}</section>
    ${key ? html`<${Transitions} key=${key} name=${key} />` : null}
    ${asked ? html`<${Ask} title=${`Reset ${nameOf(asked)}?`} verb="Reset the breaker" onSend=${reset} onClose=${() => setAsked(null)}><p class="second">It closes at once, and the next slot fires. If the cause is still there, it opens again after the same number of failures.</p><//>` : null}<//>`;
}
function Transitions({ name }) {
  const { data, problem, again } = useData((abort) => get(`breakers/${encodeURIComponent(name)}/`, null, { signal: abort }), [name], { events: (event) => event.type.startsWith("breaker.") });
  if (problem) return html`<section class="card"><${Failed} what="This breaker could not be loaded" problem=${problem} again=${again} /></section>`;
  return html`<section class="card"><header><h2>What happened to ${visible(nameOf(name))}</h2><span class="end muted">newest first</span></header>${!data ? html`<${Loading} />` : !data.transitions.length ? html`<${Empty} icon="breakers" title="No change on record"><p>Its changes are kept for 90 days.</p><//>` : html`<div class="table-box"><table class="table slots stacked"><caption class="sr">Changes of the breaker</caption><tbody>${data.transitions.slice(0, 100).map((one, i) => html`<tr key=${i}><td class="nowrap">${absolute(ms(one.at), now.value)}</td><td>${capital(one.from_state.replace("_", " "))} to <strong>${one.to_state.replace("_", " ")}</strong></td><td class="second">${reasonText(one.reason)}${one.failure_count ? `, ${plural(one.failure_count, "failure")}` : ""}</td><td class="right">${one.job_id ? html`<a class="mono" href=${href("jobs", one.job_id)}>${jobName(one.job_id)}</a>` : null}</td></tr>`)}</tbody></table></div>`}</section>`;
}
