// The day board: what is published for each day, what waits beyond its cut, and what its gate said.

import { moment } from "../clock.js";
import { byId, el } from "../dom.js";
import { number, percent, plural } from "../format.js";
import { state } from "../marks.js";
import { empty, figure, note, table } from "../panel.js";

const STATES = { "up to date": "good", stale: "warn", "never computed": "idle", "definition changed": "warn", held: "bad" };
const GATES = { passed: "good", held: "bad", released: "warn" };

export function showDays(view, { days }) {
  note("days-note", days.length ? `${plural(days.length, "day")} of ${view.name}, in ${view.timezone}` : "");
  if (!days.length) {
    empty("days", view.mode === "kappa"
      ? "No day is in the base yet: the stream of a Kappa view folds its own tail into it."
      : "No day has events yet: start the source with `braid up`, then publish days with `braid batch run`.");
    return;
  }
  empty("days", null);
  const columns = ["Day", "State", ["Events", "figure"], ["Rows", "figure"], "Cut", ["Beyond it", "figure"], "Gate", ["Served right", "figure"]];
  const newestFirst = [...days].sort((one, other) => other.day.localeCompare(one.day));
  table(byId("days"), columns, newestFirst.map((day) => row(day, view.timezone)));
}

function row(day, zone) {
  return el("tr", { "data-key": day.day },
    el("th", { scope: "row" }, day.day),
    el("td", { class: "wrap" }, state(day.state, STATES[day.state] ?? "idle"), day.state === "up to date" || !day.reason ? null : el("span", { class: "reason" }, day.reason)),
    figure(number(day.events)),
    figure(number(day.rows)),
    el("td", {}, day.cut ? el("time", { datetime: day.cut }, moment(day.cut, zone)) : "–"),
    figure(day.cut ? number(day.beyond) : "–"),
    el("td", { class: "wrap" }, ...gate(day)),
    figure(percent(day.accuracy), { title: day.largest_error === null ? null : `largest error ${percent(day.largest_error)}` }));
}

function gate(day) {
  if (!day.gate) return ["–"];
  const failing = (day.failing ?? []).map((text) => el("span", { class: "reason" }, text));
  const because = day.released_because ? [el("span", { class: "reason" }, `because ${day.released_because}`)] : [];
  return [state(day.gate, GATES[day.gate] ?? "idle"), ...failing, ...because];
}
