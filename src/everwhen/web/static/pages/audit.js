// Audit: what happened, newest first; filtered, and followed while it happens.
import { html, useEffect, useState } from "../lib.js";
import { get } from "../api.js";
import { eventKey, useFeed } from "../feed.js";
import { absolute, ago, ms, now, number } from "../time.js";
import { Glyph, Icon } from "../glyphs.js";
import { AddressField, complain, Empty, Failed, Loading, plural, useData, visible } from "../parts.js";
import { actorOf, jobName, learnLabels, nameOf } from "../names.js";
import { reasonText } from "../terms.js";
import { href, route, setQuery } from "../router.js";
import { Page } from "../shell.js";

const KINDS = [["", "All"], ["schedule.skipped,schedule.missed", "Skipped and missed"], ["job.failed,job.timed_out,job.lost", "Failures"], ["schedule.created,schedule.updated,schedule.deleted,schedule.paused,schedule.resumed,schedule.revived", "Changes"], ["breaker.opened,breaker.closed,breaker.half_opened,breaker.reset", "Breakers"], ["token.created,token.revoked,auth.denied", "Access"], ["scheduler.started,scheduler.stopped,node.lost,config.reloaded,config.rejected,system.paused,system.resumed", "System"]];
const GLYPH = { skipped: "skip", missed: "miss", failed: "fail", timed_out: "timeout", lost: "lost", died: "fail", opened: "fail", succeeded: "ok", closed: "ok", paused: "paused", held: "hold", denied: "fail", cancelled: "cancel", started: "run", fired: "next", retried: "queued", stalled: "warn", rejected: "warn", invalidated: "warn" };
const kindOf = (type) => GLYPH[type.split(".")[1]] || "info";
const detailText = (event) => [event.detail?.rule, event.detail?.error, reasonText(event.reason), event.slot_count > 1 ? `${number(event.slot_count)} slots` : "", event.detail?.note, event.detail?.name !== event.schedule_name && event.detail?.name, event.detail?.title, event.type.startsWith("breaker.") && !event.schedule_id && event.detail?.key, event.detail?.path && `${event.detail.method} ${event.detail.path}`].filter(Boolean).join(", ");
const MOST = 200;

export function Audit() {
  const { query } = route.value, types = query.get("type") || "", schedule = query.get("schedule") || "", text = query.get("q") || "", key = JSON.stringify([types, schedule, text]);
  const path = `audit/?${types ? types.split(",").map((type) => `type=${encodeURIComponent(type)}`).join("&") : ""}`;
  const { data, problem, again, isAsking } = useData((abort) => get(path, { schedule_id: schedule, q: text, limit: 50 }, { signal: abort }), [key]);
  const [read, setRead] = useState({}), [isFollowing, setFollowing] = useState(true);
  const more = read.of === data ? read.cursor : data?.next_cursor; // where the list ends, of this answer and no other
  const isWanted = (event) => (!types || types.split(",").includes(event.type)) && (!schedule || event.schedule_id === schedule || event.uid === schedule) && (!text || [event.schedule_id, event.schedule_name, event.schedule_key].some((name) => name?.toLowerCase().includes(text.toLowerCase())));
  const { shown: items, setShown, show, held, news } = useFeed(data?.items, isWanted, { most: MOST, keys: [key], isFollowing });
  useEffect(() => { learnLabels(items); }, [items]);
  const older = async () => {
    try { const found = await get(path, { schedule_id: schedule, q: text, limit: 50, cursor: more }); setShown((list) => [...list, ...found.items].slice(-MOST)); setRead({ of: data, cursor: found.next_cursor }); setFollowing(false); } catch (failure) { complain(failure); }
  };
  return html`<${Page} title="Audit">
    <div class="tools"><label class="search"><span class="sr">Of schedules with this name, key or id</span><${Icon} name="search" /><${AddressField} type="search" placeholder="Name, key or id" text=${text} onText=${(found) => setQuery({ q: found || null }, { replace: false })} /></label>
      <div class="row scroll-x" role="group" aria-label="By kind">${schedule ? html`<button class="chip" aria-pressed="true" onClick=${() => setQuery({ schedule: null }, { replace: false })}>Schedule: ${visible(nameOf(schedule))} <${Icon} name="close" /></button>` : null}${KINDS.map(([value, label]) => html`<button class="chip" key=${label} aria-pressed=${String(types === value)} onClick=${() => setQuery({ type: value || null }, { replace: false })}>${label}</button>`)}</div><span class="grow hide-phone"></span>
      <button class="btn" aria-pressed=${String(isFollowing)} onClick=${() => { setFollowing(!isFollowing); if (!isFollowing) show(); }}><span class="live ${isFollowing ? "" : "off"}"><i></i>${isFollowing ? "Following" : "Not following"}</span></button></div>
    <section class="card" aria-label="Audit" ...${held}>
      ${news ? html`<header>${news}</header>` : null}
      ${problem && !data ? html`<${Failed} what="The audit could not be loaded" problem=${problem} again=${again} />` : !data ? html`<${Loading} rows=${10} />` : !items.length ? types || schedule || text ? html`<${Empty} icon="audit" title="Nothing matches"><button class="btn" onClick=${() => setQuery({ type: null, schedule: null, q: null })}>Clear the filter</button><//>` : html`<${Empty} icon="audit" title="Nothing is on record yet"><p>What people, programs and schedules do appears here.</p><//>` : html`<div class="table-box"><table class="table slots audit stacked"><caption class="sr">Events, newest first</caption><thead><tr>${["When", "What", "Schedule", "Detail", "By"].map((text) => html`<th scope="col" key=${text} class=${text === "By" ? "hide-phone" : ""}>${text}</th>`)}</tr></thead><tbody>${items.map((one) => html`<tr key=${eventKey(one)}><td class="nowrap"><span class="two"><span>${ago(ms(one.at), now.value)}</span><small>${absolute(ms(one.at), now.value)}</small></span></td><td class="nowrap"><span class="outcome"><${Glyph} kind=${kindOf(one.type)} /><span class="mono">${one.type}</span></span></td><td>${one.schedule_id ? html`<a href=${href("schedules", one.schedule_id, one.slot_at ? { at: one.slot_at } : null)}>${visible(nameOf(one.schedule_id))}</a>` : null}</td><td class="second"><span class="clip-2">${visible(detailText(one))}</span>${one.job_id ? html` <a class="mono" href=${href("jobs", one.job_id)}>${jobName(one.job_id)}</a>` : null}</td><td class="second hide-phone">${visible(actorOf(one))}</td></tr>`)}</tbody></table></div>
      ${more && items.length < MOST ? html`<footer><span>${plural(items.length, "event")}</span><span class="grow"></span><button class="btn small" disabled=${isAsking} onClick=${older}>Older</button></footer>` : null}`}</section><//>`;
}
