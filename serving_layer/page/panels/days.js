// The day board: what is published for each day, what waits beyond its cut, and what its gate said.

import { moment } from "../clock.js";
import { byId, el } from "../dom.js";
import { number, percent, plural } from "../format.js";
import { at, reason, state } from "../marks.js";
import { empty, figure, note, ofNumbers, table } from "../panel.js";

const STATES = {
  "up to date": "good", stale: "warn", "definition changed": "warn", held: "bad", "tail lost": "bad", "base lost": "bad", "never computed": "idle",
};
const GATES = { passed: "good", held: "bad", released: "warn" };
const COLUMNS = [
  "Day", "State", ofNumbers("Events"), ofNumbers("Rows"), "Cut", ofNumbers("Beyond it"), "Gate",
  ofNumbers("Served right"),
];
const NOTHING = {
  lambda: "No day has events yet: start everything with `braid up`, then publish days with `braid batch run`.",
  kappa: "No day is in the base yet: the stream of a Kappa view folds its own tail into it.",
};

export function showDays(view, { days }) {
  note("days-note", days.length ? `${plural(days.length, "day")} of ${view.name}, in ${view.timezone}` : "");
  if (!days.length) {
    empty("days", NOTHING[view.mode]);
    return;
  }
  empty("days", null);
  const newestFirst = days.toSorted((one, other) => other.day.localeCompare(one.day));
  table(byId("days"), COLUMNS, newestFirst.map((day) => row(day, view.timezone)));
}

function row(day, zone) {
  // How many events wait is a column of its own.
  const told = day.state === "stale" && day.since ? `since ${moment(day.since, zone)}` : day.reason;
  const why = day.state === "up to date" || !told ? [] : [reason(told)];
  const error = day.largest_error === null ? null : `largest error ${percent(day.largest_error)}`;
  return el("tr", { "data-key": day.day },
    el("th", { scope: "row" }, day.day),
    el("td", { class: "wrap" }, state(day.state, STATES[day.state] ?? "idle"), ...why),
    figure(number(day.events)),
    figure(number(day.rows)),
    el("td", {}, at(day.cut, zone)),
    figure(day.cut ? number(day.beyond) : "–"),
    el("td", { class: "wrap" }, ...gate(day)),
    figure(percent(day.accuracy), { title: error }));
}

function gate(day) {
  if (!day.gate) return ["–"];
  const because = day.released_because ? [`because ${day.released_because}`] : [];
  return [state(day.gate, GATES[day.gate] ?? "idle"), ...[...day.failing, ...because].map((text) => reason(text))];
}
