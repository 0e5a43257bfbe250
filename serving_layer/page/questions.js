// What the page asks of the server for a choice, in as few questions as tell it.

import { get } from "./api.js";
import { paneSeconds, periodOf } from "./choice.js";
import { duration } from "./format.js";
import { windowsOf } from "./windows.js";

const MOST_SESSIONS = 5_000;
const MOST_ALERTS = 200;

const pathOf = (view) => `/views/${encodeURIComponent(view.name)}`;
const isSession = (view) => view.window.kind === "session";

/** Each answer by itself, so that one that fails leaves the others; null when the view has no data. */
export async function askNumbers({ view, measure, choice }, signal) {
  const newest = await endOfData(view, signal);
  if (newest === null) return null;
  const period = periodOf(choice, view, newest);
  const asked = { ...period.asked, ...shape(view, period), where: choice.where };
  const ranked = measure.kind === "events" ? view.measures[0] : measure;
  const leading = { ...period.asked, grain: asked.grain, by: ranked.name, n: 10, per: "range" };
  const [series, top, origin] = await Promise.allSettled([
    get(pathOf(view), { ...asked, ...page(view), parts: true }, signal),
    view.keys.length ? get(`${pathOf(view)}/top`, leading, signal) : { rows: [] },
    get(`${pathOf(view)}/provenance`, asked, signal),
  ]);
  signal.throwIfAborted();
  return { period, ranked, series, top, origin };
}

/** What the chart shows of the server's answer. */
export function seriesOf({ view, measure }, { period, series, origin }) {
  const { rows, total, provenance } = answered(series);
  return {
    view, measure, period, total,
    windows: windowsOf(view, measure, rows, period),
    rows: rows.length,
    // Of all rows, also of those that are too many to be drawn.
    events: provenance.base_events + provenance.tail_events,
    inTail: provenance.tail_events,
    watermark: Date.parse(origin.value?.watermark ?? "") || null,
  };
}

export function askWindow({ view, period }, { start, end }, where, signal) {
  const bounds = { start: new Date(start).toISOString(), end: new Date(end).toISOString() };
  return get(`${pathOf(view)}/provenance`, { ...bounds, ...shape(view, period), where }, signal);
}

export async function askBoard(view, signal) {
  const [days, ledger, accuracy] = await Promise.allSettled([
    get(`/days/${encodeURIComponent(view.name)}`, {}, signal),
    get(`/ledger/${encodeURIComponent(view.source)}`, {}, signal),
    get(`/accuracy/${encodeURIComponent(view.name)}`, {}, signal),
  ]);
  signal.throwIfAborted();
  return { days, ledger, accuracy };
}

export const askAlerts = (view, signal) => get("/alerts", { view: view.name, limit: MOST_ALERTS }, signal);

/** The value of a settled question, or its problem. */
export function answered({ status, value, reason }) {
  if (status === "rejected") throw reason;
  return value;
}

/** The end of the newest data, by which ranges are counted back; null when there is none. */
async function endOfData(view, signal) {
  const pane = isSession(view) ? {} : { group: "", grain: duration(paneSeconds(view)) };
  // The last day that is known has it nearly always, and is a small part of the table.
  for (const start of view.last_day ? [view.last_day, null] : [null]) {
    const { rows } = await get(pathOf(view), { ...pane, start, order: "-window_start", limit: 1 }, signal);
    if (rows.length) return Date.parse(isSession(view) ? rows[0].window_start : rows[0].window_end);
  }
  return null;
}

/** Windows of the grain over all keys; sessions have no grain, and are of one key each. */
const shape = (view, period) => (isSession(view) ? {} : { group: "", grain: period.grainText });

const page = (view) => (isSession(view) ? { order: "-window_start", limit: MOST_SESSIONS } : { order: "window_start" });
