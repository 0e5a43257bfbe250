// The strip of numbers that matter: how much is served, how fresh it is, how much of it is tail, which days wait.

import { now } from "../api.js";
import { moment } from "../clock.js";
import { byId, patch } from "../dom.js";
import { elapsed, number, percent, plural, share } from "../format.js";

const WAITING = ["held", "tail lost", "base lost", "stale", "definition changed", "never computed"];
const SPEAK_EVERY = 20_000;
const calm = matchMedia("(prefers-reduced-motion: reduce)");
let spokenAt = 0;

/** What is served in the shown range. */
export function showServed({ view, period, events, inTail }) {
  figure("served", number(events));
  patch(byId("served-note"), `${view.name}, ${period.range.words}`);
  figure("share", percent(share(inTail, events)));
  patch(byId("share-note"), `${plural(inTail, "event")} beyond their day’s cut`);
  // A screen reader would never come to anything else if it had to tell every change.
  if (Date.now() - spokenAt < SPEAK_EVERY) return;
  spokenAt = Date.now();
  patch(byId("spoken"), `${plural(events, "event")} served, ${percent(share(inTail, events))} in the tail`);
}

/** How old the newest epoch is: called every second, because age grows by itself. */
export function showFreshness(view, epoch) {
  const age = epoch ? Math.max(0, (now() - Date.parse(epoch)) / 1_000) : null;
  patch(byId("fresh"), age === null ? "–" : elapsed(Math.floor(age)));
  patch(byId("fresh-note"), epoch ? `newest epoch ${moment(epoch, view.timezone)}` : "no epoch yet");
}

export function showWaiting(days) {
  const count = (...states) => days.filter(({ state }) => states.includes(state)).length;
  const words = WAITING.map((word) => [count(word), word]).filter(([n]) => n);
  figure("waiting", number(count(...WAITING)));
  byId("waiting").dataset.tone = count("held") ? "bad" : words.length ? "warn" : "good";
  const said = words.map(([n, word]) => `${n} ${word}`).join(", ");
  patch(byId("waiting-note"), said || `all ${plural(days.length, "day")} are up to date`);
}

export function showNothing() {
  for (const id of ["served", "share", "waiting", "fresh"]) patch(byId(id), "–");
  for (const id of ["served-note", "share-note", "waiting-note", "fresh-note"]) patch(byId(id), "");
}

/** A number that moves is lit for a moment, so that the eye finds it. */
function figure(id, text) {
  const node = byId(id);
  const moved = node.textContent !== text && node.textContent !== "–";
  patch(node, text);
  if (moved && !calm.matches) node.animate([{ color: "var(--accent)" }, {}], { duration: 900, easing: "ease-out" });
}
