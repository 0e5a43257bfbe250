// The ledger of a source: consumed = accepted + rejected + duplicates, and why records were rejected.

import { moment } from "../clock.js";
import { byId, el, patch } from "../dom.js";
import { number, plural } from "../format.js";
import { state } from "../marks.js";
import { empty, note } from "../panel.js";

export function showLedger(view, ledger) {
  note("ledger-note", ledger.epoch ? `${ledger.source}, epoch ${moment(ledger.epoch, view.timezone)}` : ledger.source);
  if (!ledger.consumed && !ledger.rows) {
    empty("ledger", `Nothing has been consumed from ${ledger.source}: \`braid stream --ingest\` reads it.`);
    return;
  }
  empty("ledger", null);
  patch(byId("ledger").querySelector(".body"), equation(ledger), verdict(ledger), quarantine(ledger), partitions(ledger));
}

function equation({ consumed, accepted, rejected, duplicates }) {
  const term = (n, word) => el("span", { class: "term" }, el("b", {}, number(n)), el("span", {}, word));
  const sign = (text) => el("span", { class: "sign" }, text);
  return el("div", { class: "equation", role: "group", "aria-label": "Conservation" },
    term(consumed, "consumed"), sign("="), term(accepted, "accepted"), sign("+"),
    term(rejected, "rejected"), sign("+"), term(duplicates, "duplicates"));
}

function verdict({ balanced, consumed, accepted, rejected, duplicates, rows }) {
  const difference = consumed - accepted - rejected - duplicates;
  const words = balanced === null
    ? state("not proven yet", "idle")
    : balanced ? state("it balances", "good") : state(`it does not balance: ${number(Math.abs(difference))} ${difference > 0 ? "missing" : "too many"}`, "bad");
  return el("p", { class: "verdict", "data-balanced": String(balanced) }, words, el("span", { class: "note" }, `${plural(rows, "row")} in the log`));
}

function quarantine({ quarantine: reasons }) {
  if (!reasons.length) return el("p", { class: "note", "data-key": "quarantine" }, "The quarantine is empty.");
  const rows = reasons.map(({ reason, events }) => el("tr", { "data-key": reason }, el("th", { scope: "row", class: "wrap" }, reason), el("td", { class: "figure" }, number(events))));
  return el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Quarantine", "data-key": "reasons" },
    el("table", {}, el("thead", {}, el("tr", {}, el("th", { scope: "col" }, "In quarantine because"), el("th", { scope: "col", class: "figure" }, "Records"))), el("tbody", {}, ...rows)));
}

function partitions({ partitions: places }) {
  if (!places.length) return null;
  const words = places.map(({ partition, start, end }) => `${partition}: ${number(start)} – ${number(end)}`);
  return el("p", { class: "note", "data-key": "partitions" }, `Places by partition: ${words.slice(0, 8).join(" · ")}${words.length > 8 ? ` and ${words.length - 8} more` : ""}`);
}
