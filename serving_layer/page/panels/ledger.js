// The ledger of a source: consumed = accepted + rejected + duplicates, and why records were rejected.

import { moment } from "../clock.js";
import { byId, el, patch } from "../dom.js";
import { number, plural } from "../format.js";
import { state } from "../marks.js";
import { empty, figure, note, ofNumbers, table } from "../panel.js";

const MOST_PARTITIONS = 8;

export function showLedger(view, ledger) {
  note("ledger-note", ledger.epoch ? `${ledger.source}, epoch ${moment(ledger.epoch, view.timezone)}` : ledger.source);
  if (!ledger.rows) {
    empty("ledger", `Nothing has been consumed from ${ledger.source}: \`braid stream --ingest\` reads it.`);
    return;
  }
  empty("ledger", null);
  const parts = [equation(ledger), verdict(ledger), quarantine(ledger.quarantine), partitions(ledger.partitions)];
  patch(byId("ledger").querySelector(".body"), ...parts);
}

/** What was consumed from files is known to `braid ledger`, which counts their lines. */
function equation({ consumed, accepted, rejected, duplicates }) {
  // A sign stays with what it stands before where the line is too short for all.
  const term = (sign, n, word) => el("span", { class: "term" },
    sign ? el("span", { class: "sign" }, sign) : null,
    el("span", {}, el("b", {}, number(n)), el("span", { class: "word" }, word)));
  return el("div", { class: "equation", role: "group", "aria-label": "Conservation" },
    term("", consumed, "consumed"), term("=", accepted, "accepted"),
    term("+", rejected, "rejected"), term("+", duplicates, "duplicates"));
}

function verdict(ledger) {
  const requeued = ledger.requeued ? `, ${number(ledger.requeued)} of them requeued` : "";
  return el("p", { class: "verdict", "data-balanced": String(ledger.balanced) },
    balance(ledger), el("span", { class: "note" }, `${plural(ledger.rows, "row")} in the log${requeued}`));
}

function balance({ balanced, consumed, accepted, rejected, duplicates }) {
  if (balanced === null) return state("not proven here: `braid ledger` can", "idle");
  if (balanced) return state("it balances", "good");
  const missing = consumed - accepted - rejected - duplicates;
  if (!missing) return state("it does not balance in every partition: see `braid ledger`", "bad");
  return state(`it does not balance: ${number(Math.abs(missing))} ${missing > 0 ? "missing" : "too many"}`, "bad");
}

function quarantine(reasons) {
  if (!reasons.length) return el("p", { class: "note", "data-key": "quarantine" }, "The quarantine is empty.");
  const rows = reasons.map(({ reason, events }) =>
    el("tr", { "data-key": reason }, el("th", { scope: "row", class: "wrap" }, reason), figure(number(events))));
  const drawn = el("table", {}, el("thead"), el("tbody"));
  table(drawn, ["In quarantine because", ofNumbers("Records")], rows);
  const region = { tabindex: "0", role: "region", "aria-label": "Quarantine" };
  return el("div", { class: "scroll", "data-key": "reasons", ...region }, drawn);
}

function partitions(places) {
  if (!places.length) return null;
  const words = places.map(({ partition, start, end }) => `${partition}: ${number(start)} – ${number(end)}`);
  const more = words.length > MOST_PARTITIONS ? ` and ${words.length - MOST_PARTITIONS} more` : "";
  const text = `Places by partition: ${words.slice(0, MOST_PARTITIONS).join(" · ")}${more}`;
  return el("p", { class: "note", "data-key": "partitions" }, text);
}
