// Where the shown numbers come from: a sentence, the braid bar, the cuts, and one window followed down to its cut.

import { dayOf, span } from "../clock.js";
import { byId, el, patch } from "../dom.js";
import { number, percent, plural, share } from "../format.js";
import { at, braidBar } from "../marks.js";
import { empty } from "../panel.js";
import { status } from "./series.js";

const REPLAYING = "History is still being read into this version: its numbers are incomplete, and nothing is final.";
const HINT = "Choose a bar, or a row of the chart’s table, to follow one window to its cut.";
const STATUSES = ["final", "provisional", "revised"];
const MOST_CUTS = 4;

/** `origin` is the server's account of the shown range, `windowOrigin` of the chosen window, if there is one. */
export function showProvenance({ view, period, events, inTail }, origin, window, windowOrigin) {
  if (!events) {
    empty("provenance", "Nothing is served in this range, so there is nothing to follow.");
    return;
  }
  empty("provenance", null);
  const zone = view.timezone;
  patch(
    byId("provenance").querySelector(".body"),
    el("div", { "data-key": "range" },
      el("p", { class: "sentence" }, sentence(period, events, inTail, origin)),
      braidBar(events, inTail),
      ends(events, inTail),
      el("ul", { class: "statuses", "aria-label": "Windows by status" }, ...STATUSES.map(counted(origin.windows)))),
    window ? followed(zone, window, windowOrigin) : el("p", { class: "hint", "data-key": "hint" }, HINT),
    facts(zone, origin, cutsWithin(origin.base.cuts, period, zone)),
  );
}

/** The cuts of the days that a stretch of time touches; the server may tell of the days beside it. */
function cutsWithin(cuts, { start, end }, zone) {
  const [first, last] = [dayOf(start, zone), dayOf(Math.max(start, end - 1), zone)];
  return cuts
    .filter((cut) => cut.first_day <= last && cut.last_day >= first)
    .map((cut) => ({ ...cut, first_day: later(cut.first_day, first), last_day: earlier(cut.last_day, last) }));
}

function sentence(period, events, inTail, origin) {
  if (origin.replaying) return REPLAYING;
  const all = `${plural(events, "event")} in ${period.range.words}`;
  const why = origin.base.cuts.length ? "they came after their day’s cut" : "no day is published yet";
  if (!inTail) return `${all}: all from the base, which covers everything that has come.`;
  if (inTail === events) return `${all}: all from the tail, because ${why}.`;
  const [base, tail] = [number(events - inTail), number(inTail)];
  return `${all}: ${base} from the base up to each day’s cut, ${tail} from the tail beyond it. Each is on one side.`;
}

function ends(events, inTail) {
  return el("p", { class: "ends" },
    el("span", {}, `base ${percent(share(events - inTail, events))}`),
    el("span", {}, `tail ${percent(share(inTail, events))}`));
}

const counted = (windows) => (word) => el("li", {}, status(word), " ", el("b", {}, number(windows[word])));

/** Number, side, cut: the path that each event of the window took. */
function followed(zone, window, origin) {
  const cuts = cutsWithin(origin.base.cuts, window, zone);
  const late = origin.late_events ? `, ${number(origin.late_events)} late` : "";
  const side = (name, events, ...lines) =>
    el("li", { "data-side": name }, el("b", {}, plural(events, "event")), ` from the ${name}`, ...lines);
  const unpublished = el("span", { class: "cut" }, "no cut: its day has not been published");
  const covered = cuts.length ? cuts.map((cut) => cutLine(cut, zone)) : [unpublished];
  const beyond = cuts.length ? "epochs after the cut, newest " : "all epochs, newest ";
  return el("div", { class: "followed", id: "followed", "data-key": "followed" },
    el("div", { class: "row" },
      el("h3", {}, span(window.start, window.end, zone)),
      el("button", { type: "button", "data-window": "", class: "plain" }, "Whole range")),
    el("p", {}, status(window.status), ` · ${plural(window.events, "event")}${late}`),
    braidBar(window.events, window.inTail),
    el("ul", { class: "path" },
      side("base", window.events - window.inTail, ...covered),
      side("tail", window.inTail, el("span", { class: "cut" }, beyond, at(origin.tail.epoch, zone)))));
}

function facts(zone, origin, cuts) {
  const fact = (name, ...value) => [el("dt", {}, name), el("dd", {}, ...value)];
  const newest = cuts.slice(-MOST_CUTS).toReversed().map((cut) => cutLine(cut, zone));
  const older = cuts.length - newest.length;
  const more = older ? [el("span", { class: "cut" }, `and ${plural(older, "older one")}`)] : [];
  const definition = el("code", { title: origin.fingerprint }, origin.fingerprint.slice(0, 8));
  return el("dl", { class: "facts", "data-key": "facts" },
    fact("Cuts", ...(newest.length ? newest : ["no day is published"]), ...more),
    fact("Newest epoch", at(origin.tail.epoch, zone)),
    fact("Watermark", at(origin.watermark, zone)),
    fact("Late events", number(origin.late_events)),
    fact("Version", `${origin.version} (${origin.mode}), definition `, definition),
    fact("Tables", `base ${origin.base.table_version ?? "–"}, tail ${origin.tail.table_version}`));
}

function cutLine(cut, zone) {
  const days = cut.first_day === cut.last_day ? cut.first_day : `${cut.first_day} – ${cut.last_day}`;
  return el("span", { class: "cut" }, `${days} through `, at(cut.through, zone));
}

const later = (one, other) => (one > other ? one : other);
const earlier = (one, other) => (one < other ? one : other);
