// The first run: what to do next, not an empty table.
import { html } from "../lib.js";
import { ROOT, may } from "../api.js";
import { Icon } from "../glyphs.js";
import { Copy } from "../parts.js";
import { href } from "../router.js";

const FILE = `schedules:
  - id: hello
    every: 1m
    run: {command: [echo, hello]}
`;

export function FirstRun() {
  const curl = `curl -X POST ${ROOT.href}api/v1/schedules/ \\
  -H "X-API-Key: $EVERWHEN_TOKEN" -H 'Content-Type: application/json' \\
  -d '{"name": "hello", "every": "1m", "run": {"message": {"text": "hello"}}}'`;
  const ways = [
    ["Here", html`<p>A form with a preview: words and next instants as you type.</p>${may("operator") ? html`<a class="btn primary" href=${href("new")}><${Icon} name="plus" />New schedule</a>` : html`<p class="muted">This token may only look.</p>`}`],
    ["In everwhen.yaml", html`<p>Add this, then <span class="mono">everwhen config reload</span>.</p><pre class="code">${FILE}</pre><${Copy} text=${FILE} label="Copy" cls="btn" />`],
    ["Over the API", html`<p>With a token of <span class="mono">everwhen token create</span>.</p><pre class="code">${curl}</pre><${Copy} text=${curl} label="Copy" cls="btn" />`],
  ];
  return html`<section class="first-run stack"><div class="stack"><h2>Nothing is scheduled yet</h2><p class="second">The scheduler is running. Make a first schedule; this page then shows what ran and what comes on one line.</p></div>
    <div class="three">${ways.map(([title, body]) => html`<section class="card" key=${title}><header><h2>${title}</h2></header><div class="body stack">${body}</div></section>`)}</div></section>`;
}
