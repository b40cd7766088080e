// Single-key shortcuts: they rest in fields and dialogs, can be turned off, and `?` lists them.
import { signal, useLayoutEffect } from "./lib.js";

const STORE = "everwhen.shortcuts";
const kept = () => { try { return localStorage.getItem(STORE) !== "off"; } catch { return true; } };
export const areOn = signal(kept());
export function turn(isOn) { areOn.value = isOn; try { localStorage.setItem(STORE, isOn ? "on" : "off"); } catch { /* storage may be off */ } }

const bound = []; // the newest first: a page's keys win over the shell's
export function bindKeys(keys) {
  bound.unshift(keys);
  return () => bound.splice(bound.indexOf(keys), 1);
}
// The keys of a page are in force as soon as it is drawn: an effect would come after the paint, and lose a quick key.
export const useKeys = (keys, inputs) => useLayoutEffect(() => bindKeys(keys), inputs);

let chord = "", chordTimer = 0;
addEventListener("keydown", (event) => {
  if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey) return;
  const field = event.target.closest?.("input:not([type=checkbox]), textarea, select, [contenteditable]");
  if (field) { if (event.key === "Escape") field.blur(); return; }
  if (document.querySelector("dialog[open]")) return;
  if (!areOn.value && event.key !== "?" && event.key !== "Escape") return;
  // A capital letter is a key of its own where a page has one; else Shift and Caps Lock change nothing.
  const small = event.key.length === 1 ? event.key.toLowerCase() : event.key, typed = bound.some((keys) => keys[event.key]) ? event.key : small;
  const name = chord ? `${chord} ${small}` : typed;
  chord = "";
  clearTimeout(chordTimer);
  for (const keys of bound) if (keys[name]) { if (keys[name](event) !== false) event.preventDefault(); return; }
  if (typed === "g") { chord = "g"; chordTimer = setTimeout(() => { chord = ""; }, 1200); }
});
