// Lists that follow what happens. While a hand or the focus is on one nothing moves: what is new waits behind a button.
import { html, useEffect, useRef, useState } from "./lib.js";
import { onEvents } from "./live.js";
import { number } from "./time.js";

// What an event is known by; only those that are kept on record have a number.
export const eventKey = (event) => event.id ?? `${event.type} ${event.job_id || event.schedule_id} ${event.slot_at} ${event.at}`;

// The pointer and the focus that are on a list: `held` goes onto its element.
function useHands(onFree) {
  const hands = useRef(new Set());
  const leave = (hand) => { hands.current.delete(hand); if (!hands.current.size) onFree(); };
  const held = {
    onPointerEnter: () => hands.current.add("pointer"),
    onPointerLeave: () => leave("pointer"),
    onFocusIn: () => hands.current.add("focus"),
    onFocusOut: (event) => { if (!event.currentTarget.contains(event.relatedTarget)) leave("focus"); },
  };
  return { hands: hands.current, held };
}
const News = ({ count, show }) => html`<button class="btn small" onClick=${show}>${number(count)} new, show</button>`;

// A list that events join at its top. `items`: what the API answered, newest first. `isWanted`: which events join it, for
// as long as `keys` are the same.
export function useFeed(items, isWanted, { most, keys = [], isFollowing = true }) {
  const [shown, setShown] = useState([]), [waiting, setWaiting] = useState([]), known = useRef(shown);
  known.current = [...waiting, ...shown];
  const show = () => { setShown((list) => [...waiting, ...list].slice(0, most)); setWaiting([]); };
  const { hands, held } = useHands(() => { if (isFollowing && waiting.length) show(); });
  useEffect(() => { if (items) { setShown(items); setWaiting([]); } }, [items]);
  useEffect(() => onEvents((events) => {
    const fresh = events.filter(isWanted).reverse();
    if (!fresh.length) return;
    // The stream may tell again what the API has answered.
    const join = (list) => { const seen = new Set([...known.current, ...list].map(eventKey)); return [...fresh.filter((event) => !seen.has(eventKey(event))), ...list].slice(0, most); };
    if (hands.size || !isFollowing) setWaiting(join); else setShown(join);
  }), [...keys, isFollowing]);
  return { shown, setShown, show, held, news: waiting.length ? html`<${News} count=${waiting.length} show=${show} />` : null };
}

// A list that is asked for again: meanwhile its rows are updated in place. Another `question` lets go of it.
export function useStill(items, keyOf, question) {
  const kept = useRef(null), asked = useRef(question), [, draw] = useState(0);
  const { hands, held } = useHands(() => draw((n) => n + 1));
  const show = () => { hands.clear(); draw((n) => n + 1); };
  if (asked.current !== question) { hands.clear(); asked.current = question; }
  if (hands.size && items && kept.current) {
    const fresh = new Map(items.map((one) => [keyOf(one), one]));
    kept.current = kept.current.map((one) => fresh.get(keyOf(one)) || one);
  } else kept.current = items;
  const known = new Set((kept.current || []).map(keyOf)), count = (items || []).filter((one) => !known.has(keyOf(one))).length;
  return { shown: kept.current, held, news: count ? html`<${News} count=${count} show=${show} />` : null };
}
