// The ten largest keys of the shown range, as a table with a bar in each row; choosing one narrows the chart to it.

import { byId, el } from "../dom.js";
import { keyText, number, percent, share } from "../format.js";
import { empty, figure, note, ofNumbers, table } from "../panel.js";

export function showLeaders({ view, measure, period, where }, { rows }) {
  note("leaders-note", `by ${measure.name}, ${period.range.words}`);
  if (!view.keys.length) {
    empty("leaders", "This view has no keys: it is one number for each window.");
    return;
  }
  if (!rows.length) {
    empty("leaders", "No events in this range.");
    return;
  }
  empty("leaders", null);
  const size = (row) => Math.abs(Number(row[measure.name])) || 0;
  const largest = Math.max(...rows.map(size), Number.MIN_VALUE);
  const columns = [ofNumbers("#"), view.keys.join(", "), ofNumbers(measure.name), ofNumbers("In the tail")];
  table(byId("leaders"), columns, rows.map((row) => {
    const conditions = view.keys.map((key) => condition(key, row[key]));
    const chosen = where.length > 0 && conditions.every((each) => where.includes(each));
    const inTail = share(row._in_tail, row._events);
    return el("tr", { "data-key": JSON.stringify(conditions), class: chosen ? "chosen" : null },
      figure(row._rank),
      el("th", { scope: "row", class: "key" }, pick(view, row, conditions, chosen), bar(size(row) / largest, inTail)),
      figure(number(row[measure.name])),
      figure(percent(inTail)));
  }));
}

/** The words by which the server finds a key's value again. */
const condition = (key, value) => (value === null ? `${key} is null` : `${key}=${value}`);

function pick(view, row, conditions, chosen) {
  const text = view.keys.map((key) => keyText(row[key])).join(", ");
  const says = { "aria-pressed": String(chosen), "data-where": JSON.stringify(chosen ? [] : conditions) };
  return el("button", { type: "button", class: "pick", title: text, ...says }, text);
}

function bar(width, tail) {
  return el("span", { class: "cell-bar", "aria-hidden": "true" },
    el("span", { class: "of-base", style: { width: `${width * (1 - tail) * 100}%` } }),
    el("span", { class: "of-tail", style: { width: `${width * tail * 100}%` } }));
}
