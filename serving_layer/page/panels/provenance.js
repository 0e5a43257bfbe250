// Where the shown numbers come from: a sentence, the braid bar, the cuts, and one window followed down to its cut.

import { dayOf, moment, span } from "../clock.js";
import { byId, el, patch } from "../dom.js";
import { number, percent, plural, share } from "../format.js";
import { braidBar } from "../marks.js";
import { empty } from "../panel.js";
import { status } from "./series.js";

/** `origin` is the server's account of the range, `windowOrigin` of the chosen window, if there is one. */
export function showProvenance({ view, period, totals, statuses, origin, window, windowOrigin }) {
  if (!totals.events) {
    empty("provenance", "Nothing is served in this range, so there is nothing to follow.");
    return;
  }
  empty("provenance", null);
  const zone = view.timezone;
  const chosen = window && windowOrigin ? followed(view, window, windowOrigin) : hint();
  patch(
    byId("provenance").querySelector(".body"),
    el("div", { class: "of-range", "data-key": "range" },
      el("p", { class: "sentence" }, sentence(period, totals, origin)),
      braidBar(totals.events, totals.inTail),
      ends(totals.events, totals.inTail),
      el("ul", { class: "statuses", "aria-label": "Windows by status" }, ...Object.entries(statuses).map(([word, n]) => el("li", {}, status(word), " ", el("b", {}, number(n))))),
    ),
    chosen,
    facts(zone, origin, cutsWithin(origin.base.cuts, period, zone)),
  );
}

/** The cuts of the days that a stretch of time touches; the server may tell of the days beside it. */
export function cutsWithin(cuts, { start, end }, zone) {
  const [first, last] = [dayOf(start, zone), dayOf(Math.max(start, end - 1), zone)];
  return cuts
    .filter((cut) => cut.first_day <= last && cut.last_day >= first)
    .map((cut) => ({ ...cut, first_day: later(cut.first_day, first), last_day: earlier(cut.last_day, last) }));
}

function sentence(period, { events, inTail }, origin) {
  if (origin.replaying) return "History is still being read into this version: its numbers are incomplete, and nothing is final.";
  const all = `${plural(events, "event")} in ${period.range.words}`;
  if (!inTail) return `${all}: all from the base, which covers everything that has come.`;
  if (inTail === events) return `${all}: all from the tail. No base covers them yet.`;
  return `${all}: ${number(events - inTail)} from the base up to each day’s cut, ${number(inTail)} from the tail beyond it. Each is on one side.`;
}

function ends(events, inTail) {
  return el("p", { class: "ends" },
    el("span", {}, `base ${percent(share(events - inTail, events))}`),
    el("span", {}, `tail ${percent(share(inTail, events))}`));
}

function hint() {
  return el("p", { class: "hint", "data-key": "window" }, "Choose a bar, or a row of the chart’s table, to follow one window to its cut.");
}

/** Number, side, cut: the path that each event of the window took. */
function followed(view, window, origin) {
  const zone = view.timezone;
  const cuts = cutsWithin(origin.base.cuts, window, zone);
  const inBase = window.events - window.inTail;
  return el("div", { class: "followed", id: "followed", "data-key": "followed" },
    el("div", { class: "row" },
      el("h3", {}, span(window.start, window.end, zone)),
      el("button", { type: "button", "data-window": "", class: "plain" }, "Whole range")),
    el("p", {}, status(window.status), ` · ${plural(window.events, "event")}`, origin.late_events ? `, ${number(origin.late_events)} late` : ""),
    braidBar(window.events, window.inTail),
    el("ul", { class: "path" },
      el("li", { "data-side": "base" }, el("b", {}, plural(inBase, "event")), " from the base",
        ...(cuts.length ? cuts.map((cut) => el("span", { class: "cut" }, `${days(cut)} through `, at(cut.through, zone))) : [el("span", { class: "cut" }, "no cut: this day has not been published")])),
      el("li", { "data-side": "tail" }, el("b", {}, plural(window.inTail, "event")), " from the tail",
        el("span", { class: "cut" }, cuts.length ? "epochs after that cut, newest " : "all epochs, newest ", at(origin.tail.epoch, zone)))));
}

function facts(zone, origin, cuts) {
  const fact = (name, ...value) => [el("dt", {}, name), el("dd", {}, ...value)];
  const shown = cuts.slice(-4).toReversed();
  const older = cuts.length - shown.length;
  return el("dl", { class: "facts", "data-key": "facts" },
    ...fact("Cuts", ...(shown.length ? shown.map((cut) => el("span", { class: "cut" }, `${days(cut)} through `, at(cut.through, zone))) : ["no day is published"]), older ? el("span", { class: "cut" }, `and ${plural(older, "older one")}`) : null),
    ...fact("Newest epoch", at(origin.tail.epoch, zone)),
    ...fact("Watermark", at(origin.watermark, zone)),
    ...fact("Late events", number(origin.late_events)),
    ...fact("Version", `${origin.version} (${origin.mode}), definition `, el("code", { title: origin.fingerprint }, origin.fingerprint.slice(0, 8))),
    ...fact("Tables", `base ${origin.base.table_version ?? "–"}, tail ${origin.tail.table_version}`));
}

const at = (text, zone) => (text ? el("time", { datetime: text }, moment(text, zone)) : "–");

const days = (cut) => (cut.first_day === cut.last_day ? cut.first_day : `${cut.first_day} – ${cut.last_day}`);
const later = (one, other) => (one > other ? one : other);
const earlier = (one, other) => (one < other ? one : other);
