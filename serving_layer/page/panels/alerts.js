// The alerts of a view: what fires, what is over, and what was taken back.

import { byId, el } from "../dom.js";
import { number, plural } from "../format.js";
import { at, reason, state } from "../marks.js";
import { empty, note, table } from "../panel.js";

const TONES = { critical: "bad", warning: "warn", info: "idle" };

export function showAlerts(view, alerts) {
  const firing = alerts.filter((alert) => alert.state === "firing").length;
  note("alerts-note", alerts.length ? `${number(firing)} firing of ${plural(alerts.length, "alert")}` : "");
  if (!alerts.length) {
    empty("alerts", `No alert has fired for ${view.name}: \`Alert(...)\` in the definitions makes one.`);
    return;
  }
  empty("alerts", null);
  // What fires first, and of each the newest first, as they come.
  const sorted = alerts.toSorted((one, other) => (other.state === "firing") - (one.state === "firing"));
  const rows = sorted.map((alert) => row(alert, view.timezone));
  table(byId("alerts").querySelector("table"), ["Alert", "State", "Keys", "Window", "Numbers", "Since"], rows);
}

function row(alert, zone) {
  const tone = alert.state === "firing" ? TONES[alert.severity] : "good";
  const why = [alert.corrected ? "corrected" : "", alert.reason].filter(Boolean).join(": ");
  return el("tr", { "data-key": alert.id },
    el("th", { scope: "row" }, alert.alert, reason(alert.severity)),
    el("td", {}, state(alert.state, tone), why ? reason(why) : null),
    el("td", { class: "wrap" }, pairs(alert.keys)),
    el("td", {}, at(alert.window_start, zone)),
    el("td", { class: "wrap" }, pairs(alert.numbers)),
    el("td", {}, at(alert.fired, zone)));
}

const pairs = (values) => Object.entries(values).map(([name, value]) => `${name} ${value ?? "–"}`).join(", ");
