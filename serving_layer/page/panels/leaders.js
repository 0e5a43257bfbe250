// The ten largest keys of the shown range, as a table with a bar in each row; choosing one narrows the chart to it.

import { byId, el } from "../dom.js";
import { keyText, number, percent, share } from "../format.js";
import { empty, figure, note, table } from "../panel.js";

/** The condition by which the server finds a key's value again. */
export const condition = (key, value) => (value === null ? `${key} is null` : `${key}=${value}`);

export function showLeaders({ view, measure, period, where }, answer) {
  note("leaders-note", `by ${measure.name}, ${period.range.words}`);
  if (!view.keys.length) {
    empty("leaders", "This view has no keys: it is one number for each window.");
    return;
  }
  if (!answer.rows.length) {
    empty("leaders", "No events in this range.");
    return;
  }
  empty("leaders", null);
  const largest = Math.max(...answer.rows.map((row) => Math.abs(Number(row[measure.name])) || 0));
  const columns = [["#", "figure"], view.keys.join(", "), [measure.name, "figure"], ["In the tail", "figure"]];
  table(byId("leaders"), columns, answer.rows.map((row) => {
    const conditions = view.keys.map((key) => condition(key, row[key]));
    const chosen = where.length > 0 && conditions.every((each) => where.includes(each));
    const width = largest ? (Math.abs(Number(row[measure.name])) || 0) / largest : 0;
    return el(
      "tr", { "data-key": JSON.stringify(conditions), class: chosen ? "chosen" : null },
      figure(row._rank),
      el("th", { scope: "row", class: "key" },
        el("button", { type: "button", class: "pick", "aria-pressed": String(chosen), "data-where": JSON.stringify(chosen ? [] : conditions), title: view.keys.map((key) => keyText(row[key])).join(", ") },
          view.keys.map((key) => keyText(row[key])).join(", ")),
        bar(width, share(row._in_tail, row._events))),
      figure(number(row[measure.name])),
      figure(percent(share(row._in_tail, row._events))),
    );
  }));
}

function bar(width, tail) {
  return el("span", { class: "cell-bar", "aria-hidden": "true" },
    el("span", { class: "of-base", style: { width: `${width * (1 - tail) * 100}%` } }),
    el("span", { class: "of-tail", style: { width: `${width * tail * 100}%` } }));
}
