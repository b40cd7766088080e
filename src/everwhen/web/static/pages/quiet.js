// Quiet hours: policies as a week grid; those made here are edited by drawing on it.
import { html, useEffect, useState } from "../lib.js";
import { get, isGlobal, may, patch, post, remove } from "../api.js";
import { ZONE } from "../time.js";
import { Icon } from "../glyphs.js";
import { Ask, Empty, Failed, Field, Loading, moveInGrid, Seg, toast, useData, visible } from "../parts.js";
import { Page } from "../shell.js";

const DAYS = ["mon", "tue", "wed", "thu", "fri", "sat", "sun"], NAMES = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"];
const minutes = (text) => { const [h, m] = text.split(":").map(Number); return h * 60 + m; };
const clock = (minute) => `${String(Math.floor(minute / 60)).padStart(2, "0")}:${String(minute % 60).padStart(2, "0")}`;

// 7 days of 48 half hours; a window that passes midnight belongs to the day it begins on.
function gridOf(windows) {
  const grid = DAYS.map(() => new Array(48).fill(false));
  for (const window of windows || []) {
    const [from, to] = (window.between || "00:00-24:00").split("-").map(minutes);
    DAYS.forEach((name, day) => {
      if (window.days?.length && !window.days.some((one) => String(one).slice(0, 3) === name)) return;
      for (let slot = 0; slot < 48; slot++) { const at = slot * 30; if (from < to ? at >= from && at < to : at >= from) grid[day][slot] = true; if (from >= to && at < to) grid[(day + 1) % 7][slot] = true; }
    });
  }
  return grid;
}
// Windows of the grid: one for each run, with all days that have the same. A run up to midnight goes on in the morning after it.
function windowsOf(grid) {
  const runs = new Map(), morning = grid.map((slots) => slots.indexOf(false)), isNight = (day) => { const from = grid[day].lastIndexOf(false) + 1, to = morning[(day + 1) % 7]; return from > 0 && from < 48 && to > 0 && to < from; };
  grid.forEach((slots, day) => {
    for (let i = 0; i < 48; i++) if (slots[i] && !slots[i - 1]) {
      let end = i;
      while (end < 48 && slots[end]) end++;
      if (i === 0 && end < 48 && isNight((day + 6) % 7)) continue; // it belongs to the evening before
      const key = `${clock(i * 30)}-${end < 48 ? clock(end * 30) : isNight(day) ? clock(morning[(day + 1) % 7] * 30) : "24:00"}`;
      runs.set(key, [...(runs.get(key) || []), DAYS[day]]);
    }
  });
  return [...runs].map(([between, days]) => (days.length === 7 ? { between } : { days, between }));
}
// Windows that the grid of half hours cannot show as they are.
const isFine = (windows) => (windows || []).some((one) => (one.between || "").split(/[-:]/).filter((_, i) => i % 2).some((minute) => Number(minute) % 30));
const shownDays = (days) => (days?.length ? days.map((one) => NAMES[DAYS.indexOf(String(one).slice(0, 3))]).join(", ") : "every day");

export function QuietHours() {
  const { data, problem, again } = useData((abort) => get("quiet-hours/", null, { signal: abort }), []);
  const [id, setId] = useState(null), [dialog, setDialog] = useState(null), [name, setName] = useState(""), act = may("operator") && isGlobal();
  const items = data?.items || [], chosen = items.find((one) => one.id === id) || items[0];
  const create = async () => { const made = await post("quiet-hours/", { id: name, timezone: ZONE, windows: [{ between: "22:00-07:00" }], action: "skip" }); setId(made.id); again(); toast(`Made ${visible(made.id)}; draw its hours on the grid.`); };
  return html`<${Page} title="Quiet hours">
    <p class="second">In quiet hours slots are skipped, or held until they end. A schedule names the policy that it obeys.</p>
    ${problem && !data ? html`<section class="card"><${Failed} what="The quiet hours could not be loaded" problem=${problem} again=${again} /></section>` : !data ? html`<section class="card"><${Loading} /></section>` : html`<div class="quiet-page">
      <section class="card"><header><h2>Policies</h2>${act ? html`<span class="end"><button class="btn small" onClick=${() => setDialog("new")}><${Icon} name="plus" />New…</button></span>` : null}</header>${items.length ? html`<ul class="pick">${items.map((one) => html`<li key=${one.id}><button aria-pressed=${String(one === chosen)} onClick=${() => setId(one.id)}><span class="strong">${visible(one.name || one.id)}</span><small class="muted">${visible(one.timezone)}, ${one.action === "defer" ? "held until they end" : "slots are skipped"}${one.source === "config" ? "; of the file" : ""}</small></button></li>`)}</ul>` : html`<${Empty} icon="quiet" title="No quiet hours yet"><p>Make one here, or declare it under <span class="mono">quiet_hours</span> in everwhen.yaml.</p><//>`}</section>
      ${chosen ? html`<${Grid} key=${chosen.id} policy=${chosen} canEdit=${act && chosen.source !== "config"} again=${again} setDialog=${setDialog} />` : null}</div>`}
    ${dialog === "new" ? html`<${Ask} title="New quiet hours" verb="Make them" onSend=${create} onClose=${() => setDialog(null)}><${Field} id="quiet-id" label="Id" hint="Letters, digits, _ and -."><input id="quiet-id" class="input" value=${name} onInput=${(event) => setName(event.target.value)} /><//><//>` : null}
    ${dialog === "delete" ? html`<${Ask} title=${`Delete ${visible(chosen.id)}?`} verb="Delete them" isDanger onSend=${async () => { await remove(`quiet-hours/${encodeURIComponent(chosen.id)}/`); setId(null); again(); toast("Deleted."); }} onClose=${() => setDialog(null)}><p class="second">Schedules that use them must be changed first; the API names those.</p><//>` : null}<//>`;
}

function Grid({ policy, canEdit, again, setDialog }) {
  const [grid, setGrid] = useState(() => gridOf(policy.windows)), [drag, setDrag] = useState(null), [isDirty, setDirty] = useState(false), [action, setAction] = useState(policy.action), [problem, setProblem] = useState(null);
  useEffect(() => { if (!drag) return undefined; const end = () => setDrag(null); addEventListener("pointerup", end); return () => removeEventListener("pointerup", end); }, [drag]);
  const put = (day, slot, is) => { setGrid((before) => before.map((slots, i) => (i === day ? slots.map((one, j) => (j === slot ? is : one)) : slots))); setDirty(true); };
  const save = async () => { try { await patch(`quiet-hours/${encodeURIComponent(policy.id)}/`, { windows: windowsOf(grid), action }); setDirty(false); setProblem(null); toast(`Saved ${visible(policy.id)}.`); again(); } catch (found) { setProblem(found); } };
  return html`<section class="card"><header><h2>${visible(policy.name || policy.id)}</h2><span class="muted">${visible(policy.timezone)}</span><span class="end">${canEdit ? html`<${Seg} label="What happens to slots" options=${[["skip", "Skip"], ["defer", "Hold"]]} value=${action} onChange=${(value) => { setAction(value); setDirty(true); }} /><button class="btn small danger" onClick=${() => setDialog("delete")}>Delete…</button><button class="btn small ${isDirty ? "primary" : ""}" disabled=${!isDirty} onClick=${save}>Save</button>` : html`<span class="muted">${policy.source === "config" ? "declared in the file, edit it there" : "read only"}</span>`}</span></header>
    ${problem ? html`<${Failed} what="It was not saved" problem=${problem} />` : null}
    <div class="body"><div class="qgrid" role="grid" aria-label=${`Closed half hours of ${policy.id}`}>
      <div class="qrow head" role="row"><span role="columnheader"><span class="sr">Day</span></span>${[0, 3, 6, 9, 12, 15, 18, 21].map((hour) => html`<span class="qh" role="columnheader" key=${hour}>${String(hour).padStart(2, "0")}:00</span>`)}</div>
      ${grid.map((slots, day) => html`<div class="qrow" role="row" key=${day}><span role="rowheader">${NAMES[day]}</span>${slots.map((is, slot) => html`<button key=${slot} role="gridcell" data-cell=${`${day}-${slot}`} class="q ${is ? "on" : ""} ${slot % 2 ? "" : "whole"}" tabindex=${day === 0 && slot === 0 ? 0 : -1} disabled=${!canEdit} aria-selected=${String(is)} aria-label=${`${NAMES[day]} ${clock(slot * 30)}, ${is ? "closed" : "open"}`} onPointerDown=${(event) => { event.preventDefault(); event.currentTarget.releasePointerCapture?.(event.pointerId); event.currentTarget.focus(); setDrag({ is: !is }); put(day, slot, !is); }} onPointerEnter=${() => { if (drag) put(day, slot, drag.is); }} onClick=${(event) => { if (!event.detail) put(day, slot, !is); }} onKeyDown=${(event) => moveInGrid(event, day, slot)}></button>`)}</div>`)}</div></div>
    <footer><ul class="row wrap">${(isDirty ? windowsOf(grid) : policy.windows || []).map((one) => html`<li class="tag" key=${JSON.stringify(one)}>${shownDays(one.days)} ${one.between || "all day"}</li>`)}${(policy.dates || []).map((one) => html`<li class="tag" key=${JSON.stringify(one)}>${visible(typeof one === "string" ? one : `${one.from} to ${one.to}`)}</li>`)}</ul><span class="grow"></span>${canEdit ? html`<span>${isFine(policy.windows) ? "Its windows do not begin or end on half hours: drawing here rounds them. " : ""}Draw to close, draw again to open</span>` : null}</footer></section>`;
}
