// A list that what happens joins at its top. While a hand or the focus is on it nothing moves: what is new waits.
import { html, useEffect, useRef, useState } from "./lib.js";
import { onEvents } from "./live.js";
import { number } from "./time.js";

// `items`: what the API answered, newest first. `isWanted`: which events join it, for as long as `keys` are the same.
export function useFeed(items, isWanted, { most, keys = [], isFollowing = true }) {
  const [shown, setShown] = useState([]), [waiting, setWaiting] = useState([]), hands = useRef(new Set());
  useEffect(() => { if (items) { setShown(items); setWaiting([]); } }, [items]);
  useEffect(() => onEvents((events) => {
    const fresh = events.filter(isWanted).reverse();
    if (!fresh.length) return;
    const join = (list) => [...fresh, ...list].slice(0, most);
    if (hands.current.size || !isFollowing) setWaiting(join); else setShown(join);
  }), [...keys, isFollowing]);
  const show = () => { setShown((list) => [...waiting, ...list].slice(0, most)); setWaiting([]); };
  const leave = (hand) => { hands.current.delete(hand); if (!hands.current.size && isFollowing && waiting.length) show(); };
  const held = {
    onPointerEnter: () => hands.current.add("pointer"),
    onPointerLeave: () => leave("pointer"),
    onFocusIn: () => hands.current.add("focus"),
    onFocusOut: (event) => { if (!event.currentTarget.contains(event.relatedTarget)) leave("focus"); },
  };
  const news = waiting.length ? html`<button class="btn small" onClick=${show}>${number(waiting.length)} new, show</button>` : null;
  return { shown, setShown, show, held, news };
}
