// What the page asks of the server for a choice, in as few questions as tell it.

import { get } from "./api.js";
import { paneSeconds, periodOf } from "./choice.js";
import { duration } from "./format.js";
import { windowsOf } from "./windows.js";

const MOST_SESSIONS = 2_000;

const pathOf = (view) => `/views/${encodeURIComponent(view.name)}`;
const isSession = (view) => view.window.kind === "session";

/** Each answer by itself, so that one that fails leaves the others; null when the view has no data. */
export async function askNumbers({ view, measure, choice }, signal) {
  const newest = await endOfData(view, signal);
  if (newest === null) return null;
  const period = periodOf(choice, view, newest);
  const grain = isSession(view) ? null : period.grainText;
  const asked = { ...period.asked, where: choice.where, grain };
  const ranked = measure.kind === "events" ? view.measures[0] : measure;
  const leading = { ...period.asked, grain, by: ranked.name, n: 10, per: "range" };
  const [series, top, origin] = await Promise.allSettled([
    get(pathOf(view), { ...asked, ...shape(view), parts: true }, signal),
    view.keys.length ? get(`${pathOf(view)}/top`, leading, signal) : { rows: [] },
    get(`${pathOf(view)}/provenance`, asked, signal),
  ]);
  signal.throwIfAborted();
  return { period, ranked, series, top, origin };
}

/** What the chart shows of the server's answer. */
export function seriesOf({ view, measure }, { period, series, origin }) {
  const { rows, total } = answered(series);
  return {
    view, measure, period,
    windows: windowsOf(view, measure, rows, period),
    left: total - rows.length,
    watermark: Date.parse(origin.value?.watermark ?? "") || null,
  };
}

export function askWindow({ view, period }, { start, end }, where, signal) {
  const bounds = { start: new Date(start).toISOString(), end: new Date(end).toISOString() };
  const grain = isSession(view) ? null : period.grainText;
  return get(`${pathOf(view)}/provenance`, { ...bounds, where, grain }, signal);
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

/** What the chart needs: windows over all keys, or the newest sessions, which are of one key each. */
function shape(view) {
  return isSession(view) ? { order: "-window_start", limit: MOST_SESSIONS } : { group: "", order: "window_start" };
}
