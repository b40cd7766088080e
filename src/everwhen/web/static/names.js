// Names of schedules that REST made: everything else has only their ids.
import { signal } from "./lib.js";
import { get } from "./api.js";

const isGenerated = (id) => /^[0-9a-f]{8}-/.test(id);
// Of a row of the time line, which has both.
export const labelOf = (row) => (isGenerated(row.schedule_id) && row.name ? row.name : row.schedule_id);
const names = signal(new Map());
export const nameOf = (id) => names.value.get(id) || id;
// The names of tokens, as lists of events give them; a live event of another token shows its id.
const actors = signal({});
export const learnActors = (found) => { actors.value = { ...actors.value, ...found }; };
export const actorOf = (event) => { const actor = event.actor || event.detail?.by || ""; return actors.value[actor] || actor; };
// A job in short: its number, and the retry that it is.
export const jobName = (id) => (id.match(/n\d+(-rc[1-9]\d*)?/) || [id])[0];
export async function learnNames(ids) {
  const unknown = [...new Set(ids)].filter((id) => isGenerated(id) && !names.value.has(id)).slice(0, 20);
  if (!unknown.length) return;
  const found = await Promise.all(unknown.map((id) => get(`schedules/${id}/`).then((one) => [id, one.name || id], () => [id, id])));
  names.value = new Map([...names.value, ...found]);
}
