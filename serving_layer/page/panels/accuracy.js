// How right the fresh numbers were: against each day's recompute, and by how long after a window's end.

import { drawAccuracy, drawCompleteness } from "../charts.js";
import { byId } from "../dom.js";
import { elapsed, number, percent } from "../format.js";
import { empty, note } from "../panel.js";

const NOT_COMPARED = {
  lambda: "Not measured yet: every day that `braid batch run` publishes is compared with what was served before.",
  kappa: "No recompute of a Kappa view is published: `braid kappa compare` makes one and compares.",
};
const NOT_COMPLETE = "Not measured yet: it takes windows that are final.";

export async function showAccuracy(view, { days, completeness, lateness }) {
  note("accuracy-note", "share of groups served right before their day was published");
  note("completeness-note", punctuality(lateness));
  empty("accuracy", days.length ? null : NOT_COMPARED[view.mode]);
  empty("completeness", completeness.length ? null : NOT_COMPLETE);
  if (days.length) await accuracy(days);
  if (completeness.length) await completion(completeness);
}

async function accuracy(days) {
  const [oldest, newest] = [days[0], days.at(-1)];
  const groups = `${number(newest.equal)} of ${number(newest.groups)} groups`;
  const text = `Accuracy from ${oldest.day} to ${newest.day}: lastly ${percent(newest.share)}, ${groups}.`;
  byId("accuracy-chart").setAttribute("aria-label", `${text} The day board has every value.`);
  await drawAccuracy(byId("accuracy-chart"), days);
}

async function completion(points) {
  const when = (seconds) => (seconds ? `after ${elapsed(seconds)}` : "at once");
  const words = points.map((point) => `${percent(point.share)} ${when(point.after_seconds)}`);
  const chart = byId("completeness-chart");
  chart.setAttribute("aria-label", `Share of a window’s events that were there: ${words.join(", ")}`);
  await drawCompleteness(chart, points);
}

function punctuality(lateness) {
  const known = lateness && lateness.median_seconds !== null;
  if (!known) return "share of a window’s events that were there after its end";
  const [half, most] = [elapsed(lateness.median_seconds), elapsed(lateness.p99_seconds)];
  return `half of the events come within ${half}, 99 % within ${most}; ${number(lateness.late_events)} late`;
}
