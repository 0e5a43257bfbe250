// What a person chose to look at: a value that the address of the page carries, so that a link shows the same.

import { duration } from "./format.js";
import { instantOf } from "./clock.js";

const DAY = 86_400;
export const RANGES = [
  { id: "15m", label: "15 min", words: "the last 15 minutes", seconds: 900 },
  { id: "1h", label: "1 h", words: "the last hour", seconds: 3_600 },
  { id: "6h", label: "6 h", words: "the last 6 hours", seconds: 21_600 },
  { id: "1d", label: "1 day", words: "the last day", seconds: DAY },
  { id: "7d", label: "7 days", words: "the last 7 days", seconds: 7 * DAY },
  { id: "all", label: "All", words: "all days" },
  { id: "custom", label: "Custom", words: "the chosen range" },
];
const NICE = [
  1, 2, 5, 10, 15, 30, 60, 120, 180, 300, 600, 900, 1_200, 1_800, 3_600, 7_200, 10_800, 14_400, 21_600, 28_800,
  43_200, DAY, 2 * DAY, 7 * DAY, 14 * DAY, 28 * DAY, 91 * DAY, 364 * DAY,
];
const MOST_BARS = 120;
const NEAR = 4;
// A range that is picked for people has about this many panes, so that there is something to see.
const ENOUGH = 48;

export function readChoice(search) {
  const query = new URLSearchParams(search);
  const chosen = (name) => query.get(name) || null;
  return {
    view: chosen("view"), range: chosen("range"), measure: chosen("measure"), from: chosen("from"), to: chosen("to"),
    where: query.getAll("where"), window: chosen("window"),
  };
}

/** The address of a choice: what is left to the page is not in it, nor is a token, because people pass links on. */
export function writeChoice(choice) {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(choice)) {
    for (const each of [value ?? []].flat()) query.append(name, each);
  }
  return query.size ? `?${query}` : "";
}

/** The pieces in which a view's numbers can be put together, in seconds; sessions have none. */
export function paneSeconds({ window }) {
  if (window.kind === "session") return 1;
  return Math.min(window.every_seconds ?? DAY, DAY);
}

export function usualRange(view) {
  const pane = view.window.kind === "session" ? 60 : paneSeconds(view);
  return RANGES.find(({ seconds }) => seconds && seconds / pane >= ENOUGH)?.id ?? "all";
}

/** A length that panes add up to and that gives no more bars than can be told apart: a round one, if one is near. */
export function grainFor(seconds, pane) {
  const fits = (length) => length % pane === 0 && (length < DAY ? DAY % length === 0 : length % DAY === 0);
  const wanted = Math.max(pane, seconds / MOST_BARS);
  let shortest = Math.ceil(wanted / pane) * pane;
  while (!fits(shortest)) shortest += pane;
  const round = NICE.find((length) => length >= wanted && fits(length));
  return round && round <= shortest * NEAR ? round : shortest;
}

/** What is shown: instants for the chart, texts for the server, and the length of a bar. `newest` ends the data. */
export function periodOf(choice, view, newest) {
  const zone = view.timezone;
  const known = RANGES.find(({ id }) => id === choice.range) ?? RANGES.find(({ id }) => id === usualRange(view));
  const local = (text, otherwise) => (text ? instantOf(Date.parse(`${text.slice(0, 16)}Z`), zone) : otherwise);
  const first = instantOf(Date.parse(`${view.first_day}T00:00Z`), zone);
  let [start, end] = [first, newest];
  let asked = {};
  if (known.id === "custom") {
    [start, end] = [local(choice.from, first), local(choice.to, newest)];
    asked = { start: choice.from, end: choice.to };
  } else if (known.seconds) {
    start = newest - known.seconds * 1_000;
    asked = { start: new Date(start).toISOString() };
  }
  const seconds = Math.max(1, (end - start) / 1_000);
  const grain = grainFor(seconds, view.window.kind === "session" ? 60 : paneSeconds(view));
  return { range: known, start, end: Math.max(end, start + 1_000), asked, grain, grainText: duration(grain) };
}
