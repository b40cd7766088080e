// Sign in: with a token, or by the link that `everwhen up` printed, whose key is in the fragment of the address.
import { html, useEffect, useState } from "../lib.js";
import { me, Problem, signIn } from "../api.js";
import { go, href, route } from "../router.js";
import { Logo } from "../glyphs.js";
import { Field } from "../parts.js";

// Where the person wanted to go.
const goOn = () => go(route.value.page === "sign-in" ? href("") : location.href, { replace: true });

export function SignIn() {
  const [token, setToken] = useState(""), [problem, setProblem] = useState(null), [isSending, setSending] = useState(false);
  const key = new URLSearchParams(route.value.hash.slice(1)).get("key");
  const begin = async (path, body) => {
    setSending(true);
    setProblem(null);
    try { await signIn(path, body); goOn(); } catch (found) {
      if (!(found instanceof Problem)) throw found;
      setProblem(found.message);
      setSending(false);
    }
  };
  useEffect(() => { document.title = "Sign in · everwhen"; }, []);
  useEffect(() => {
    if (key) { history.replaceState(null, "", href("sign-in")); begin("session/link/", { key }); } else if (me.value) goOn();
  }, []);
  const send = (event) => { event.preventDefault(); begin("session/", { token: token.trim() }); };
  return html`<main class="sign-in" id="main"><form class="card" onSubmit=${send}>
    <h1 class="brand"><${Logo} /><span>everwhen</span></h1>
    <${Field} id="token" label="Token" problem=${problem} hint=${html`<span>Made with <span class="mono">everwhen token create</span>. The first one was printed when the service first started; on a terminal it also prints a link that signs you in.</span>`}>
      <input id="token" class="input mono" type="password" autocomplete="current-password" autofocus required value=${token} aria-invalid=${problem ? "true" : undefined} aria-describedby=${problem ? "token-problem" : undefined} onInput=${(event) => setToken(event.target.value)} /><//>
    <button class="btn primary" disabled=${isSending || !token.trim()}>Sign in</button></form></main>`;
}
