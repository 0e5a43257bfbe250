// How right the fresh numbers were: against each day's recompute, and by how long after a window's end.

import { drawAccuracy, drawCompleteness } from "../charts.js";
import { byId } from "../dom.js";
import { duration, elapsed, number, percent } from "../format.js";
import { empty, note } from "../panel.js";

export async function showAccuracy(view, { days, completeness, lateness }) {
  await Promise.all([curve(view, days), completion(completeness, lateness)]);
}

async function curve(view, days) {
  note("accuracy-note", "share of groups served right before their day was published");
  if (!days.length) {
    empty("accuracy", view.mode === "kappa"
      ? "A Kappa view has no recompute to be held against: `braid parity` compares its versions."
      : "Not measured yet: every day that `braid batch run` publishes is compared with what was served before.");
    return;
  }
  empty("accuracy", null);
  const newest = days.at(-1);
  byId("accuracy-chart").setAttribute("aria-label", `Accuracy by day, from ${days[0].day} to ${newest.day}: lastly ${percent(newest.share)}, ${number(newest.equal)} of ${number(newest.groups)} groups. The day board has every value.`);
  await drawAccuracy(byId("accuracy-chart"), days);
}

async function completion(points, lateness) {
  const known = lateness?.median_seconds !== null && lateness?.median_seconds !== undefined;
  note("completeness-note", known
    ? `half of the events come within ${elapsed(lateness.median_seconds)}, 99 % within ${elapsed(lateness.p99_seconds)}; ${number(lateness.late_events)} late`
    : "share of a window’s events that were there so long after its end");
  if (!points.length) {
    empty("completeness", "Not measured yet: it takes windows that are final.");
    return;
  }
  empty("completeness", null);
  const words = points.map((point) => `${percent(point.share)} ${point.after_seconds ? `after ${duration(point.after_seconds)}` : "at once"}`);
  byId("completeness-chart").setAttribute("aria-label", `Completeness of windows: ${words.join(", ")}`);
  await drawCompleteness(byId("completeness-chart"), points);
}
