// The REST API as the pages call it: one function, problems as errors, and the session of this browser.
import { signal } from "./lib.js";

// The modules lie in ROOT/assets/DIGEST/, wherever the dashboard is mounted.
export const ROOT = new URL("../../", import.meta.url);
const API = new URL("api/v1/", ROOT);

// Who is signed in (GET /me/): undefined while that is asked, null when nobody is.
export const me = signal(undefined);
const RANK = { viewer: 0, operator: 1, admin: 2 };
export const may = (role) => Boolean(me.value) && RANK[me.value.role] >= RANK[role];
export const isGlobal = () => Boolean(me.value) && me.value.owner === null;

// What the API refused, or that it could not be reached (status 0).
export class Problem extends Error {
  constructor(status, fields) {
    super(fields.detail || "The service did not answer.");
    this.status = status;
    this.type = String(fields.type || "").replace("urn:everwhen:problem:", "");
    this.errors = fields.errors || [];
  }
}

export const apiUrl = (path, query) => {
  const url = new URL(path.replace(/^\//, ""), API);
  for (const [key, value] of Object.entries(query || {})) if (value !== undefined && value !== null && value !== "" && value !== false) url.searchParams.set(key, value);
  return url;
};

// The time of the server: what it said last, and what has passed here since.
export const skew = signal(0);
export const heardOf = (text) => { if (text) skew.value = Date.parse(text) - Date.now(); };

// A browser sends the cookie of a session to every port of the host. What proves that this page is the service's own is
// kept where only pages of this origin can read it, for each place where a dashboard is mounted.
const KEPT = `everwhen.proof ${ROOT.pathname}`;
let proof = null; // where storage is off, as long as the page
const readProof = () => { try { return localStorage.getItem(KEPT) || proof; } catch { return proof; } };
function keepProof(found) {
  proof = found;
  try { if (found) localStorage.setItem(KEPT, found); else localStorage.removeItem(KEPT); } catch { /* storage may be off */ }
}
export const proven = (headers) => { const found = readProof(); return found ? { ...headers, "x-csrf-token": found } : headers; };

// A change is refused where another tab has signed in meanwhile: the cookie is theirs, the proof is ours.
async function isAnother() {
  const before = me.value?.csrf_token;
  await loadSession();
  return Boolean(me.value) && me.value.csrf_token !== before;
}

// A request that comes too often is refused, and has done nothing: it is sent again when the service says so.
const TRIES = 3, LONGEST_WAIT = 10;
async function ask(url, options, tries = TRIES) {
  const answer = await fetch(url, options), wait = Number(answer.headers.get("retry-after"));
  if (answer.status !== 429 || tries <= 1 || !wait || wait > LONGEST_WAIT) return answer;
  await new Promise((done) => { setTimeout(done, wait * 1000); });
  return ask(url, options, tries - 1);
}

export async function call(method, path, { query, body, headers, signal: abort, isBlob } = {}) {
  const sent = proven({ accept: "application/json", ...headers });
  if (body !== undefined) sent["content-type"] = "application/json";
  if (method !== "GET" && me.value?.csrf_token) sent["x-csrf-token"] = me.value.csrf_token;
  let answer, text;
  try {
    answer = await ask(apiUrl(path, query), { method, headers: sent, body: body === undefined ? undefined : JSON.stringify(body), credentials: "same-origin", signal: abort, cache: "no-store" });
    if (isBlob && answer.ok) return await answer.blob();
    text = await answer.text();
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Problem(0, { detail: "The service cannot be reached." });
  }
  let fields = {};
  try { fields = text ? JSON.parse(text) : {}; } catch { fields = { detail: text.slice(0, 300) }; }
  if (answer.ok) return fields;
  if (answer.status === 401 && path !== "session/" && path !== "session/link/") me.value = null;
  if (answer.status === 403 && method !== "GET" && (await isAnother())) throw new Problem(403, { detail: `Another tab has signed in as ${me.value.name}. Nothing was changed; look again, then repeat it.` });
  throw new Problem(answer.status, fields);
}
export const get = (path, query, more) => call("GET", path, { query, ...more });
export const post = (path, body, more) => call("POST", path, { body, ...more });
export const patch = (path, body, more) => call("PATCH", path, { body, ...more });
export const remove = (path, more) => call("DELETE", path, more);

export async function loadSession() {
  try { me.value = await get("me/"); } catch (problem) { if (problem.status === 401) me.value = null; else throw problem; }
}
export async function signIn(path, body) { const found = await post(path, body); keepProof(found.csrf_token); me.value = found; }
export async function signOut() { await remove("session/"); keepProof(null); me.value = null; }
