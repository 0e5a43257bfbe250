// The health of what runs: each query with its state, speed, lag and late events.

import { byId, el } from "../dom.js";
import { elapsed, number, plural } from "../format.js";
import { at, prose, reason, sparkline, state } from "../marks.js";
import { empty, figure, note, ofNumbers, problem, table } from "../panel.js";

const STATES = { running: "good", starting: "idle", retrying: "warn", stopped: "bad" };
const COLUMNS = ["Query", "State", ...["Events", "Rows/s", "Micro-batch", "Lag", "Late"].map(ofNumbers), "Epoch"];
const NOTHING = "No query runs: `braid up` starts everything, `braid stream --ingest` the streams alone.";
const KEPT = 40;
// The last micro-batch times of each query, kept by the page: the server tells the newest.
const batches = new Map();

export function showStreams({ processes, problems, healthy }, zoneOf) {
  const queries = processes.flatMap(({ process, queries: its }) => its.map((query) => ({ ...query, process })));
  for (const query of queries) remember(query);
  problem("streams", queries.length && problems.length ? problems.join(" ") : null);
  const [many, where] = [plural(queries.length, "query", "queries"), plural(processes.length, "process", "processes")];
  note("streams-note", healthy && queries.length ? `healthy: ${many} in ${where}` : "");
  empty("streams", queries.length ? null : NOTHING);
  table(byId("streams"), COLUMNS, queries.map((query) => row(query, zoneOf(query))));
}

function row(query, zone) {
  const history = batches.get(id(query)) ?? [];
  const told = (value, text) => (value === null || value === undefined ? "–" : text(value));
  const whole = (value) => number(Math.round(value));
  const why = query.error ? [reason(...prose(query.error))] : [];
  const waiting = told(query.lag_events, (events) => plural(events, "event"));
  return el("tr", { "data-key": id(query) },
    el("th", { scope: "row" }, query.name),
    el("td", { class: "wrap" }, state(query.state, STATES[query.state] ?? "idle"), ...why),
    figure(number(query.events)),
    figure(told(query.rows_per_second, whole)),
    el("td", { class: "figure" }, el("span", { class: "with-spark" },
      sparkline(history, `the last ${plural(history.length, "micro-batch", "micro-batches")}`),
      told(query.batch_ms, (ms) => `${whole(ms)} ms`))),
    figure(told(query.lag_seconds, elapsed), { title: waiting }),
    figure(number(query.late)),
    el("td", {}, at(query.epoch, zone)));
}

function remember(query) {
  if (query.batch_ms === null || query.batch_ms === undefined) return;
  batches.set(id(query), [...(batches.get(id(query)) ?? []), query.batch_ms].slice(-KEPT));
}

const id = (query) => `${query.process} ${query.kind} ${query.name} ${query.version ?? ""}`;
