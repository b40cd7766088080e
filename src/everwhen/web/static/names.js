// Names of schedules that REST made.
import { signal } from "./lib.js";
import { get } from "./api.js";

const isGenerated = (id) => /^[0-9a-f]{8}-/.test(id);
// Of a row of the time line, which has both.
export const labelOf = (row) => (isGenerated(row.schedule_id) && row.name ? row.name : row.schedule_id);
const names = signal(new Map());
export const nameOf = (id) => names.value.get(id) || id;
// Who did it, by name.
export const actorOf = (event) => event.actor_name || event.actor || "";
// A job in short: its number, and the retry that it is.
export const jobName = (id) => (id.match(/n\d+(-rc[1-9]\d*)?/) || [id])[0];
// The names that rows of an answer have beside the id: of deleted schedules, too, and without a further request.
export function learnLabels(rows) {
  const labels = rows.map((one) => [one.schedule_id, one.schedule_name || one.schedule_key]).filter(([id, name]) => name && isGenerated(id));
  if (labels.some(([id, name]) => names.value.get(id) !== name)) names.value = new Map([...names.value, ...labels]);
}
export async function learnNames(ids) {
  const unknown = [...new Set(ids)].filter((id) => isGenerated(id) && !names.value.has(id)).slice(0, 20);
  if (!unknown.length) return;
  const found = await Promise.all(unknown.map((id) => get(`schedules/${id}/`).then((one) => [id, one.name || id], () => [id, id])));
  names.value = new Map([...names.value, ...found]);
}
