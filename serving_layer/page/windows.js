// The windows that a chart shows, made from a view's rows: pure functions.

import { instantOf, wall } from "./clock.js";

const EVENTS = { name: "_events", kind: "events", bound: "exact" };

/** The measures that can be chosen; a view that does not count its events can be looked at by their number too. */
export function measuresOf(view) {
  return view.measures.some(({ kind }) => kind === "count") ? view.measures : [...view.measures, EVENTS];
}

/** start, end, value, events, inTail, status of each window, oldest first. */
export function windowsOf(view, measure, rows, period) {
  const seen = new Map();
  const windows = rows.map((row) => ({
    id: distinct(`${row.window_start} ${row.window_end}`, seen),
    start: Date.parse(row.window_start),
    end: Date.parse(row.window_end),
    value: row[measure.name],
    events: row._events,
    inTail: row._in_tail,
    status: row._status,
  }));
  const ordered = windows.sort((one, other) => one.start - other.start);
  const join = view.window.kind === "session" && joins(measure);
  return join ? byStart(ordered, join, period.grain, view.timezone) : ordered;
}

/** Whether the value of every window is its number of events, which base and tail share between them. */
export const isCounted = (windows) => windows.every(({ value, events }) => Number(value) === events);

/** Two sessions of different keys may begin and end at the same instants. */
function distinct(name, seen) {
  seen.set(name, (seen.get(name) ?? 0) + 1);
  return `${name} ${seen.get(name)}`;
}

/** How values of several sessions make one; a quantile or a distinct count of several cannot be told from theirs. */
function joins({ kind }) {
  const add = (one, other) => Number(one ?? 0) + Number(other ?? 0);
  return { count: add, events: add, sum_: add, min_: Math.min, max_: Math.max }[kind] ?? null;
}

/** Sessions have a length of their own: they are counted where they begin. */
function byStart(sessions, join, grain, zone) {
  const step = grain * 1_000;
  const found = new Map();
  for (const session of sessions) {
    const start = instantOf(Math.floor(wall(session.start, zone) / step) * step, zone);
    const there = found.get(start);
    const first = { ...session, id: String(start), start, end: start + step };
    found.set(start, there ? joined(there, session, join) : first);
  }
  return [...found.values()];
}

function joined(one, other, join) {
  const worst = ["provisional", "revised", "final"].find((status) => [one.status, other.status].includes(status));
  return {
    ...one,
    value: join(one.value, other.value),
    events: one.events + other.events,
    inTail: one.inTail + other.inTail,
    status: worst,
  };
}
