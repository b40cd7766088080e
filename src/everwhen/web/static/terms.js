// The words of schedules as the service has them (GET /terms/): keys with their defaults and what they may be, and reasons.
import { signal } from "./lib.js";
import { get } from "./api.js";

export const terms = signal({ keys: new Map(), reasons: new Map() });
let isAsked = false;
export async function loadTerms() {
  if (isAsked) return;
  isAsked = true;
  const byName = (list, name) => new Map(list.map((one) => [one[name], one]));
  try { const found = await get("terms/"); terms.value = { keys: byName(found.keys, "key"), reasons: byName(found.reasons, "reason") }; } catch { isAsked = false; }
}

// Reasons in few words, for marks and lists; the whole sentence is that of `why/`. Until the terms are there, a reason is its own word.
const textOf = (reason, name) => (reason ? terms.value.reasons.get(reason)?.[name] || reason.replaceAll("_", " ") : "");
export const reasonText = (reason) => textOf(reason, "text");
export const reasonAhead = (reason) => textOf(reason, "text_ahead");
// An error behind the type of its exception, as Python prints it; nothing where there is none.
export const errorText = (message, type) => (type && message && message !== type ? `${type}: ${message}` : message || "");
