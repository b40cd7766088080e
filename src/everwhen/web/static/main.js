// Starts the dashboard: who is signed in, then the page of the address.
import { effect, html, render, signal, useEffect } from "./lib.js";
import { loadSession, me, Problem } from "./api.js";
import { start, stop } from "./live.js";
import { tick } from "./time.js";
import { route } from "./router.js";
import { Failed } from "./parts.js";
import { Page } from "./shell.js";
import { SignIn } from "./pages/sign_in.js";

// A page is loaded when it is first opened; the server names its modules beforehand for the address that was asked for.
const loaded = signal({});
const unreachable = signal(null); // why nobody knows who is signed in
const PAGES = {
  "": () => import("./pages/now.js").then((found) => found.Now),
  week: () => import("./pages/week.js").then((found) => found.Week),
  schedules: () => import("./pages/schedules.js").then((found) => found.Schedules),
  jobs: () => import("./pages/jobs.js").then((found) => found.Jobs),
  approvals: () => import("./pages/approvals.js").then((found) => found.Approvals),
  alerts: () => import("./pages/alerts.js").then((found) => found.Alerts),
  budgets: () => import("./pages/budgets.js").then((found) => found.Budgets),
  new: () => import("./pages/new.js").then((found) => found.NewSchedule),
  breakers: () => import("./pages/breakers.js").then((found) => found.Breakers),
  "quiet-hours": () => import("./pages/quiet.js").then((found) => found.QuietHours),
  audit: () => import("./pages/audit.js").then((found) => found.Audit),
  system: () => import("./pages/system.js").then((found) => found.System),
  "schedules/": () => import("./pages/schedule.js").then((found) => found.ScheduleAndWhy),
  "jobs/": () => import("./pages/job.js").then((found) => found.JobPage),
};
// The files of a release are gone after an upgrade: then the page is loaded again, with those of the new one.
function load(name) {
  PAGES[name]().then((found) => { loaded.value = { ...loaded.value, [name]: found }; }, () => location.reload());
}

function App() {
  useEffect(() => { document.body.classList.add("ready"); }, []);
  if (me.value === undefined && unreachable.value) return html`<main class="sign-in" id="main"><section class="card"><${Failed} what="The dashboard could not begin" problem=${unreachable.value} again=${begin} /></section></main>`;
  if (me.value === undefined) return html`<div class="starting" aria-busy="true"></div>`;
  const { page, id } = route.value;
  if (me.value === null || page === "sign-in") return html`<${SignIn} />`;
  const name = id ? `${page}/` : page, Found = loaded.value[name];
  if (!Found && PAGES[name]) { load(name); return html`<${Page} title=${document.title.split(" · ")[0]}><div class="loading" aria-busy="true"></div><//>`; }
  if (!Found) return html`<${Page} title="Not found"><section class="card"><${Failed} what="There is no such page" problem=${new Problem(404, { detail: "The address is not one of the dashboard's." })} /></section><//>`;
  return html`<${Found} key=${`${page}/${id}`} id=${id} />`;
}

render(html`<${App} />`, document.body);
setInterval(tick, 1000);
// What was asked for as one person is asked for again as another.
let session = null;
effect(() => {
  const found = me.value?.csrf_token || null;
  if (found === session) return;
  if (session) stop();
  if (found) start({ isAgain: session !== null });
  session = found;
});
const begin = () => loadSession().then(() => { unreachable.value = null; }, (problem) => { unreachable.value = problem; });
begin();
