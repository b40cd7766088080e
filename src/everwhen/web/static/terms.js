// The words of schedules as the service has them (GET /terms/): keys with their defaults and what they may be, and reasons.
import { signal } from "./lib.js";
import { get } from "./api.js";

export const terms = signal(null);
let isAsked = false;
export async function loadTerms() {
  if (isAsked) return;
  isAsked = true;
  try { terms.value = await get("terms/"); } catch { isAsked = false; }
}

// Reasons in few words, for marks and lists; the whole sentence is that of `why/`. Until the terms are there, a reason is its own word.
const textOf = (reason, name) => (reason ? terms.value?.reasons.find((one) => one.reason === reason)?.[name] || reason.replaceAll("_", " ") : "");
export const reasonText = (reason) => textOf(reason, "text");
export const reasonAhead = (reason) => textOf(reason, "text_ahead");
// An error behind the type of its exception, as Python prints it; nothing where there is none.
export const errorText = (message, type) => (type && message && message !== type ? `${type}: ${message}` : message || "");
