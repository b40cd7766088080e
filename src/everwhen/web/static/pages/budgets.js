// Agents and budgets: what each may fire and spend, how much of it is used, and when it refills.
import { html } from "../lib.js";
import { get, isGlobal, may } from "../api.js";
import { absolute, duration, ms, now, number, relative } from "../time.js";
import { capital, Glyph, Pill } from "../glyphs.js";
import { Empty, Failed, Loading, plural, useData, visible } from "../parts.js";
import { amounts, Meter, money } from "../meters.js";
import { href } from "../router.js";
import { Page } from "../shell.js";

const spends = (event) => /^(budget\.|schedule\.fired|job\.(succeeded|failed|timed_out))/.test(event.type);
const useBudgets = () => useData((abort) => get("budgets/", null, { signal: abort }), [], { events: spends, every: 30000 });
const KINDS = [["group", "Agents and other groups"], ["owner", "Owners"], ["token", "Tokens"]];
const REACHED = { skip: "slots are skipped when it is spent", pause: "schedules pause when it is spent", alert: "only told when it is spent" };
const State = ({ budget }) => (budget.spent_until ? html`<${Pill} kind="skip">Budget spent<//>` : budget.limits.some((one) => one.level === "warning") ? html`<${Pill} kind="warn">Nearly spent<//>` : null);
const Name = ({ budget }) => (budget.kind === "token" ? html`<strong>${visible(budget.name)}</strong>` : html`<a class="plain strong" href=${href("schedules", null, { [budget.kind]: budget.name })}>${visible(budget.name)}</a>`);
const Rows = ({ budget }) => html`${budget.limits.map((one) => html`<${Meter} key=${one.limit} limit=${one} currency=${budget.currency} />`)}
  ${budget.spent_until ? html`<span class="outcome second"><${Glyph} kind="skip" /><span>${budget.skipped ? `${plural(budget.skipped, "slot")} skipped; ` : ""}refills ${relative(ms(budget.spent_until), now.value)}, ${absolute(ms(budget.spent_until), now.value)}</span></span>` : null}`;

// Beside the approvals: the budgets of groups, those that are spent first.
export function AgentBudgets() {
  const { data } = useBudgets(), items = (data?.items || []).filter((one) => one.kind === "group").sort((a, b) => Boolean(b.spent_until) - Boolean(a.spent_until)).slice(0, 5);
  return items.length ? html`<section class="card"><header><h2>Agents</h2><span class="end"><a href=${href("budgets")}>All budgets</a></span></header><ul class="agents">${items.map((one) => html`<li key=${one.key}><div class="row between"><${Name} budget=${one} /><${State} budget=${one} /></div><${Rows} budget=${one} /></li>`)}</ul></section>` : null;
}

function Card({ budget }) {
  const facts = [budget.cost_per_run === null ? null : `at most ${money(budget.cost_per_run, budget.currency)} a run`, budget.currency ? `${amounts(budget.total_cost, budget.total_estimated, budget.currency)} since it exists` : null, REACHED[budget.on_reached]];
  const refill = budget.limits.map((one) => ms(one.refill_at)).sort((a, b) => a - b)[0];
  return html`<li><div class="row between"><${Name} budget=${budget} /><span class="row"><${State} budget=${budget} /></span></div><span class="muted">${capital(facts.filter(Boolean).join(", "))}</span><${Rows} budget=${budget} />
    <span class="row between muted">${budget.currency ? html`<span>${money(budget.reserved, budget.currency)} reserved for runs that have not ended</span>` : html`<span></span>`}${refill && !budget.spent_until ? html`<span class="nowrap">refills ${relative(refill, now.value)}</span>` : null}</span></li>`;
}

export function Budgets() {
  const { data, problem, again } = useBudgets(), items = data?.items || [], spent = items.filter((one) => one.spent_until);
  return html`<${Page} title="Agents and budgets">
    ${items.length ? html`<p class="intro"><strong>${spent.length ? `${plural(spent.length, "budget is", "budgets are")} spent.` : "No budget is spent."}</strong><span class="second">${plural(items.length, "budget")}; hours, days and months are those of UTC.</span></p>` : null}
    ${problem && !data ? html`<section class="card"><${Failed} what="The budgets could not be loaded" problem=${problem} again=${again} /></section>` : !data ? html`<section class="card"><${Loading} /></section>` : !items.length ? html`<section class="card"><${Empty} icon="agent" title="There is no budget"><p>Set <span class="mono">budgets</span> in the configuration file, or a limit of a token: how often it may fire, and what it may cost.</p><//></section>`
      : html`<div class="budget-list">${KINDS.map(([kind, head]) => { const list = items.filter((one) => one.kind === kind); return list.length ? html`<section class="card" key=${kind} aria-label=${head}><header><h2>${head}</h2><span class="end muted">${plural(list.length, "budget")}</span></header><ul class="agents">${list.map((one) => html`<${Card} key=${one.key} budget=${one} />`)}</ul></section>` : null; })}${may("admin") && isGlobal() ? html`<${Tokens} />` : null}</div>`}<//>`;
}

// Tokens with limits: what they may make. Their secrets are known to nobody.
const LIMITS = { approval: (value) => `approval ${value}`, max_schedules: (value) => plural(value, "schedule"), min_interval: (value) => `every ${duration(value * 1000)} at most`, fires_per_hour: (value) => `${number(value)} an hour`, fires_per_day: (value) => `${number(value)} a day`, ttl: (value) => `lives ${duration(value * 1000)}`, targets: (value) => `only ${value.join(", ")}`, cost_per_day: (value) => `${value} a day`, cost_per_month: (value) => `${value} a month`, cost_per_run: (value) => `${value} a run` };
function Tokens() {
  const { data } = useData((abort) => get("tokens/", null, { signal: abort }), [], { events: (event) => event.type.startsWith("token.") });
  const limitsOf = (token) => Object.entries(LIMITS).filter(([key]) => token.limits[key] !== null && token.limits[key] !== undefined).map(([key, words]) => words(token.limits[key]));
  const items = (data?.items || []).filter((one) => !one.revoked_at && limitsOf(one).length).slice(0, 200);
  return items.length ? html`<section class="card whole" aria-label="Limits of tokens"><header><h2>Limits of tokens</h2><span class="end"><a href=${href("system")}>All tokens</a></span></header><div class="table-box"><table class="table"><caption class="sr">Tokens with limits</caption><thead><tr><th scope="col">Token</th><th scope="col">Owner</th><th scope="col">Limits</th></tr></thead><tbody>${items.map((one) => html`<tr key=${one.id}><td class="strong">${visible(one.name)}</td><td>${visible(one.owner || "")}</td><td class="second">${visible(limitsOf(one).join(", "))}</td></tr>`)}</tbody></table></div></section>` : null;
}
