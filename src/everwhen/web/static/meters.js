// Limits of budgets: what is used, what is asked for (hatched), and of how much.
import { html } from "./lib.js";
import { absolute, ms, now, number } from "./time.js";
import { visible } from "./parts.js";

export const money = (amount, currency) => `${Number.isInteger(amount) ? number(amount) : amount.toFixed(amount < 0.1 && Math.round(amount * 1e4) % 100 ? 4 : 2)}${currency ? ` ${visible(currency)}` : ""}`;
export const cost = (found) => money(found.amount, found.currency);
// An amount that runs reported, and beside it what is estimated: a guess never stands as if it were spent.
export const amounts = (all, estimated, currency) => (!estimated ? money(all, currency) : all > estimated ? `${money(all - estimated, currency)} reported, ${money(estimated, currency)} estimated` : `${money(estimated, currency)} estimated`);
export const costOfJob = (job) => amounts(job.cost.amount, job.estimated_cost?.amount || 0, job.cost.currency);
export const ASKED = { fires_per_hour: "Each hour", fires_per_day: "Each day", cost_per_day: "Cost each day", cost_per_month: "Cost each month" };
const USED = { fires_per_hour: "This hour", fires_per_day: "Today", cost_per_day: "Cost today", cost_per_month: "Cost this month" };

export function Meter({ limit, currency, asked = null }) {
  const { used, most } = limit, unit = limit.limit.startsWith("cost") ? currency : null, isSpent = used >= most;
  const share = (amount) => `${Math.min(100, (amount / most) * 100)}%`, figures = `${amounts(used, limit.estimated)}${asked ? ` + ${money(asked)}` : ""} of ${money(most, unit)}`;
  return html`<div class="budget"><div class="row"><span title=${`refills ${absolute(ms(limit.refill_at), now.value)}`}>${(asked === null ? USED : ASKED)[limit.limit]}</span><span class="second">${figures}${isSpent ? ", spent" : ""}</span></div>
    <div class="meter ${isSpent ? "full" : ""}" role="img" aria-label=${`${amounts(used, limit.estimated)}${limit.estimated ? "" : " used"}${asked ? `, ${money(asked)} more asked for` : ""}, of ${money(most, unit)}`}><i style=${{ left: 0, width: share(used) }}></i>${asked ? html`<u style=${{ left: share(used), width: share(Math.max(0, Math.min(asked, most - used))) }}></u>` : null}</div></div>`;
}
