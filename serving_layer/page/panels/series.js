// The live chart of a view and the same numbers as a table; a window is chosen in either.

import { drawSeries } from "../charts.js";
import { moment, momentBeside, span, zoneName } from "../clock.js";
import { byId, el, patch } from "../dom.js";
import { number, percent, plural, share } from "../format.js";
import { state } from "../marks.js";
import { empty, figure, note, ofNumbers, table } from "../panel.js";
import { isCounted } from "../windows.js";

const TONES = { final: "good", provisional: "idle", revised: "warn" };

/** `shown` is the answer to a question and the start of the window that is selected. */
export async function showSeries(shown, choose) {
  const { view, measure, period, windows } = shown;
  const zone = view.timezone;
  const label = measure.kind === "events" ? "events" : measure.name;
  const counted = isCounted(windows);
  patch(byId("series-title"), `${view.name}: ${label}`);
  note("series-note", description(shown));
  byId("series-note").title = measure.bound;
  legend(counted);
  if (!windows.length) {
    empty("series", "No events in this range: choose a longer one, or `All`.");
    return;
  }
  empty("series", null);
  byId("series-chart").setAttribute("aria-label", alternative(shown, label));
  // The table is long: it is made when somebody looks at it.
  if (byId("series-details").open) rows(shown, label);
  await drawSeries(byId("series-chart"), { ...shown, counted, label, zone, choose });
}

/** The status of a window, as a sign and a word. */
export const status = (word) => state(word, TONES[word]);

function description({ view, measure, period, rows, total }) {
  const session = view.window.kind === "session";
  const more = rows < total ? ` (the newest ${number(rows)} of ${number(total)})` : "";
  const each = session ? `sessions by their start${more}, ${period.grainText} a bar` : `${period.grainText} a bar`;
  // A kind is called as in a definition: sum_, because Python has a sum of its own.
  const kind = measure.kind.replace(/_$/, "").replace("_", " ");
  return `${kind}, ${each}, times in ${zoneName(view.timezone, period.end)}`;
}

function legend(counted) {
  const entry = (kind, text) => el("li", { "data-side": kind }, text);
  patch(
    byId("series-legend"),
    entry("base", counted ? "base: up to its day’s cut" : "from the base"),
    entry("tail", counted ? "tail: beyond it" : "from the tail"),
  );
}

function alternative({ view, period, windows, events, inTail }, label) {
  const values = windows.filter(({ value }) => value !== null);
  const larger = (one, other) => (Number(other.value) > Number(one.value) ? other : one);
  const most = values.reduce(larger, values[0] ?? windows[0]);
  const when = (instant) => moment(instant, view.timezone);
  return [
    `Chart of ${label} in ${view.name} from ${when(period.start)} to ${when(period.end)}, ${view.timezone}.`,
    `${plural(windows.length, "window")} of ${period.grainText} with ${plural(events, "event")},`,
    `${percent(share(inTail, events))} of them in the tail.`,
    `The largest value is ${number(most.value)}, at ${when(most.start)}. The table below has every value.`,
  ].join(" ");
}

function rows({ view, windows, selected }, label) {
  const zone = view.timezone;
  const counted = isCounted(windows);
  const named = counted ? [] : [label];
  const columns = ["Window", ...[...named, "Events", "Base", "Tail"].map(ofNumbers), "Status"];
  const newestFirst = windows.toReversed();
  table(byId("series-table"), columns, newestFirst.map((window, i) => {
    const before = newestFirst[i - 1];
    const text = before ? momentBeside(window.start, before.start, zone) : moment(window.start, zone);
    return el(
      "tr", { "data-key": window.id, class: window.start === selected ? "chosen" : null },
      el("th", { scope: "row" }, el("button", {
        type: "button", class: "pick", "data-window": window.start, "aria-pressed": String(window.start === selected),
        "aria-label": `Follow ${span(window.start, window.end, zone)}`,
      }, text)),
      ...(counted ? [] : [figure(number(window.value))]),
      figure(number(window.events)),
      figure(number(window.events - window.inTail)),
      figure(number(window.inTail)),
      el("td", {}, status(window.status)),
    );
  }));
}
