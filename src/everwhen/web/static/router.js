// The address is the state: a page, what it is about, and how it is filtered.
import { signal } from "./lib.js";
import { ROOT } from "./api.js";

const read = () => {
  const path = location.pathname.slice(ROOT.pathname.length).replace(/\/+$/, "");
  const [page, ...rest] = path.split("/").map((piece) => { try { return decodeURIComponent(piece); } catch { return piece; } });
  return { page, id: rest.join("/"), query: new URLSearchParams(location.search), hash: location.hash };
};
export const route = signal(read());

export const href = (page, id, query) => {
  const url = new URL([page, ...(id ? [id] : [])].map(encodeURIComponent).join("/"), ROOT);
  for (const [key, value] of Object.entries(query || {})) if (value !== null && value !== undefined && value !== "") url.searchParams.set(key, value);
  return url.pathname + url.search;
};
export function go(to, { replace = false } = {}) {
  const url = new URL(to, location.href);
  if (url.href === location.href) return;
  history[replace ? "replaceState" : "pushState"](null, "", url);
  const before = route.value.page + "/" + route.value.id;
  route.value = read();
  if (!replace && before !== route.value.page + "/" + route.value.id) { scrollTo(0, 0); movedAt = performance.now(); document.activeElement?.blur(); }
}
// A page that was just gone to has the focus, so that the next Tab begins in it; it may have to be loaded first.
let movedAt = -Infinity;
export function focusPage() { if (performance.now() - movedAt < 3000 && document.activeElement === document.body) document.getElementById("main")?.focus({ preventScroll: true }); }
// Change parts of the query; null removes one. A view that is only adjusted takes the place of the one before.
export function setQuery(changes, { replace = true } = {}) {
  const url = new URL(location.href);
  for (const [key, value] of Object.entries(changes)) if (value === null || value === undefined || value === "") url.searchParams.delete(key); else url.searchParams.set(key, value);
  go(url.href, { replace });
}

addEventListener("popstate", () => { route.value = read(); });
addEventListener("click", (event) => {
  const link = event.target.closest?.("a[href]");
  if (!link || event.defaultPrevented || event.button || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey || link.target || link.hasAttribute("download")) return;
  const url = new URL(link.href);
  if (url.origin !== location.origin || !url.pathname.startsWith(ROOT.pathname) || url.pathname.startsWith(`${ROOT.pathname}api/`)) return;
  if (url.hash && url.pathname === location.pathname && url.search === location.search) return; // a place on this page
  event.preventDefault();
  go(url.href);
});
