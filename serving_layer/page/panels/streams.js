// The health of what runs: each query with its state, speed, lag and late events.

import { moment } from "../clock.js";
import { byId, el } from "../dom.js";
import { elapsed, number, plural } from "../format.js";
import { prose, sparkline, state } from "../marks.js";
import { empty, figure, note, problem, table } from "../panel.js";

const STATES = { running: "good", starting: "idle", waiting: "idle", retrying: "warn", stopped: "bad" };
const KEPT = 40;
// The last micro-batch times of each query, kept by the page: the server tells the newest.
const batches = new Map();

export function showStreams(report, zoneOf) {
  const queries = report.processes.flatMap((process) => process.queries.map((query) => ({ ...query, process })));
  for (const query of queries) remember(query);
  problem("streams", report.problems.length ? report.problems.join(" ") : null);
  note("streams-note", report.healthy ? `healthy: ${plural(queries.length, "query", "queries")} in ${plural(report.processes.length, "process", "processes")}` : "");
  if (!queries.length) {
    empty("streams", "No query runs: `braid up` starts everything, `braid stream --ingest` the streams alone.");
    return;
  }
  empty("streams", null);
  const columns = ["Query", "State", ["Events", "figure"], ["Rows/s", "figure"], ["Micro-batch", "figure"], ["Lag", "figure"], ["Late", "figure"], "Epoch"];
  table(byId("streams"), columns, queries.map((query) => row(query, zoneOf(query))));
}

function row(query, zone) {
  const history = batches.get(id(query)) ?? [];
  return el("tr", { "data-key": id(query) },
    el("th", { scope: "row" }, query.name, el("span", { class: "kind" }, query.kind)),
    el("td", { class: "wrap" }, state(query.state, STATES[query.state] ?? "idle"), query.error ? el("span", { class: "reason" }, ...prose(query.error)) : null),
    figure(number(query.events)),
    figure(query.rows_per_second === null ? "–" : number(Math.round(query.rows_per_second))),
    el("td", { class: "figure" },
      el("span", { class: "with-spark" },
        sparkline(history, `the last ${history.length} micro-batches`),
        query.batch_ms === null ? "–" : `${number(Math.round(query.batch_ms))} ms`)),
    figure(query.lag_seconds === null ? "–" : elapsed(query.lag_seconds), { title: query.lag_events === null ? null : plural(query.lag_events, "event") }),
    figure(number(query.late)),
    el("td", {}, query.epoch ? el("time", { datetime: query.epoch }, moment(query.epoch, zone)) : "–"));
}

function remember(query) {
  if (query.batch_ms === null || query.batch_ms === undefined) return;
  const history = batches.get(id(query)) ?? [];
  batches.set(id(query), [...history, query.batch_ms].slice(-KEPT));
}

const id = (query) => `${query.process.process} ${query.kind} ${query.name} ${query.version ?? ""}`;
