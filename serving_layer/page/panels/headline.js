// The strip of numbers that matter: how much is served, how fresh it is, how much of it is tail, which days wait.

import { now } from "../api.js";
import { moment } from "../clock.js";
import { byId, patch } from "../dom.js";
import { elapsed, number, percent, plural, share } from "../format.js";

const SPEAK_EVERY = 20_000;
const calm = matchMedia("(prefers-reduced-motion: reduce)");
let spokenAt = 0;

/** What is served in the shown range. */
export function showServed(view, period, { events, inTail }) {
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
  patch(byId("fresh-note"), epoch ? `since the newest epoch began, ${moment(epoch, view.timezone)}` : "no epoch yet");
}

export function showWaiting(days) {
  const count = (...states) => days.filter(({ state }) => states.includes(state)).length;
  const [stale, held, never] = [count("stale", "definition changed"), count("held"), count("never computed")];
  figure("waiting", number(stale + held + never));
  byId("waiting").dataset.tone = held ? "bad" : stale ? "warn" : "good";
  const parts = [[stale, "stale"], [held, "held"], [never, "never computed"]].filter(([n]) => n);
  patch(byId("waiting-note"), parts.map(([n, word]) => `${n} ${word}`).join(", ") || `of ${plural(days.length, "day")}: all up to date`);
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
