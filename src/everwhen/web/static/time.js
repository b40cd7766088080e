// Instants for people: the viewer's zone, always named, and the schedule's beside it where its clocks show another time.
// Relative and absolute together; an absolute one has the form of every other surface, so it can be typed back.
import { signal } from "./lib.js";
import { skew } from "./api.js";

export const ZONE = Intl.DateTimeFormat().resolvedOptions().timeZone || "UTC";
export const SECOND = 1000, MINUTE = 60 * SECOND, HOUR = 60 * MINUTE, DAY = 24 * HOUR;

// The server's clock, in whole seconds; it stops while the stream is lost and in a hidden tab.
export const exactNow = () => Date.now() + skew.value;
export const now = signal(Math.floor(exactNow() / SECOND) * SECOND);
export const frozen = signal(false);
export const tick = () => { if (!frozen.value && !document.hidden) now.value = Math.floor(exactNow() / SECOND) * SECOND; };

const made = new Map();
function formatter(zone, options) {
  const key = zone + JSON.stringify(options);
  if (!made.has(key)) {
    try { made.set(key, new Intl.DateTimeFormat("en-GB", { timeZone: zone, ...options })); } catch { made.set(key, new Intl.DateTimeFormat("en-GB", { timeZone: "UTC", ...options })); }
  }
  return made.get(key);
}
const part = (ms, zone, options) => formatter(zone || ZONE, options).format(ms);
export const ms = (text) => (text ? Date.parse(text) : null);
export const hm = (at, zone) => part(at, zone, { hour: "2-digit", minute: "2-digit", hourCycle: "h23" });
export const hms = (at, zone) => part(at, zone, { hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23" });
export const precise = (at, zone) => `${hms(at, zone)}.${String(((at % 1000) + 1000) % 1000).padStart(3, "0")}`;
export const day = (at, zone) => part(at, zone, { weekday: "short", day: "numeric", month: "short" }).replace(",", "");
export const fullDay = (at, zone) => part(at, zone, { weekday: "long", day: "numeric", month: "long" }).replace(",", "");
export const date = (at, zone) => part(at, zone, { day: "numeric", month: "short", year: "numeric" });
// The abbreviation of a zone: a browser knows it in the English of the places that use it, and elsewhere has "GMT+5:30".
const PLACES = ["en-GB", "en-US", "en-IN", "en-AU", "en-NZ", "en-ZA", "en-CA"];
const abbreviations = new Map();
function abbreviation(at, zone) {
  const key = `${zone} ${offsetOf(at, zone)}`;
  if (!abbreviations.has(key)) {
    const timeZone = formatter(zone, {}).resolvedOptions().timeZone, inPlace = (place) => new Intl.DateTimeFormat(place, { timeZone, timeZoneName: "short" }).formatToParts(at).find(({ type }) => type === "timeZoneName").value;
    abbreviations.set(key, PLACES.map(inPlace).find((name) => !/\d/.test(name)) || "");
  }
  return abbreviations.get(key);
}
// "CET +01:00"; UTC needs no offset.
export function zoneName(at, zone = ZONE) {
  const offset = offsetOf(at, zone), name = abbreviation(at, zone);
  return name === "UTC" ? name : `${name} ${offset < 0 ? "-" : "+"}${new Date(Math.abs(offset) * MINUTE).toISOString().slice(11, 16)}`.trim();
}
const isoDay = (at, zone) => new Intl.DateTimeFormat("en-CA", { timeZone: zone || ZONE, year: "numeric", month: "2-digit", day: "2-digit" }).format(at);
export const dayKey = isoDay;
export const isSameDay = (a, b, zone) => isoDay(a, zone) === isoDay(b, zone);

// Minutes that a zone is ahead of UTC at an instant.
export function offsetOf(at, zone) {
  const parts = Object.fromEntries(formatter(zone || ZONE, { year: "numeric", month: "numeric", day: "numeric", hour: "numeric", minute: "numeric", second: "numeric", hourCycle: "h23" }).formatToParts(at).map((p) => [p.type, +p.value]));
  return Math.round((Date.UTC(parts.year, parts.month - 1, parts.day, parts.hour, parts.minute, parts.second) - Math.floor(at / 1000) * 1000) / MINUTE);
}
// The instant at which a day of the viewer begins, so many days away from the one that `at` lies in.
export function startOfDay(at, days = 0, zone) {
  const [year, month, dayOfMonth] = isoDay(at, zone).split("-").map(Number);
  const wall = Date.UTC(year, month - 1, dayOfMonth + days);
  const guess = wall - offsetOf(wall, zone) * MINUTE;
  return wall - offsetOf(guess, zone) * MINUTE;
}

export function duration(length) {
  if (length === null || length === undefined) return "";
  if (length < SECOND) return `${Math.max(0, Math.round(length))} ms`;
  const total = Math.round(length / SECOND), days = Math.floor(total / 86400), hours = Math.floor((total % 86400) / 3600), minutes = Math.floor((total % 3600) / 60), seconds = total % 60;
  if (days) return hours ? `${days} d ${hours} h` : `${days} d`;
  if (hours) return minutes ? `${hours} h ${String(minutes).padStart(2, "0")} min` : `${hours} h`;
  if (minutes) return seconds ? `${minutes} min ${String(seconds).padStart(2, "0")} s` : `${minutes} min`;
  return length < 10 * SECOND && length % SECOND ? `${(length / SECOND).toFixed(1)} s` : `${total} s`;
}
const whole = (length) => Math.max(0, Math.round(length / SECOND) * SECOND);
// How long something has lasted, in whole seconds.
export const elapsed = (since, from) => duration(whole(from - since) || SECOND).replace(/^1 s$/, from - since < SECOND ? "0 s" : "1 s");
// Of what has happened: never in the future, however the clocks stand.
export const ago = (at, from) => `${elapsed(at, from)} ago`;
export const relative = (at, from) => (at >= from ? `in ${whole(at - from) ? duration(whole(at - from)) : "0 s"}` : `${duration(whole(from - at))} ago`);

// "09:45:18 CET +01:00", with the day where it is not today's: "Mon 2026-11-16 09:45:18 CET +01:00".
export function absolute(at, from, zone) {
  const time = `${hms(at, zone)} ${zoneName(at, zone)}`;
  return isSameDay(at, from, zone) ? time : `${part(at, zone, { weekday: "short" })} ${isoDay(at, zone)} ${time}`;
}
// The same in the schedule's own zone; empty where the viewer's clock shows the same.
export function inOwnZone(at, zone, from = now.value) {
  if (!zone || zone === ZONE || zone === "local" || offsetOf(at, zone) === offsetOf(at, ZONE)) return "";
  return absolute(at, from, zone);
}
// An instant of a schedule on one line: for the viewer, and in its own zone where that differs.
export const ofSchedule = (at, from, zone) => absolute(at, from) + inOwnZone(at, zone, from).replace(/.+/, " ($&)");
export const number = (value) => new Intl.NumberFormat("en-GB").format(value);
export const percent = (share) => `${(Math.floor(share * 1000) / 10).toLocaleString("en-GB")} %`;
