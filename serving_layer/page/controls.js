// The pickers: view, measure, range and filters, as they are chosen.

import { RANGES } from "./choice.js";
import { byId, el, patch } from "./dom.js";
import { measuresOf } from "./windows.js";

/** `choose(changes)` is called with what a person changed. */
export function wireControls(choose) {
  const radio = (id) => el("input", { type: "radio", name: "range", value: id });
  const ranges = RANGES.map(({ id, label }) => el("label", {}, radio(id), el("span", {}, label)));
  patch(byId("ranges"), el("legend", {}, "Range"), ...ranges);

  const changed = (id, changes) => byId(id).addEventListener("change", ({ target }) => choose(changes(target)));
  changed("view", ({ value }) => ({ view: value, measure: null, where: [], window: null }));
  changed("measure", ({ value }) => ({ measure: value }));
  changed("ranges", ({ value }) => ({ range: value, window: null }));
  changed("custom", ({ id, value }) => ({ [id]: value || null, range: "custom", window: null }));
  byId("controls").addEventListener("submit", (event) => event.preventDefault());

  // One listener for all buttons that tables and filters have: rows come and go.
  document.addEventListener("click", ({ target }) => {
    const { window: start, where } = target.closest("button[data-window], button[data-where]")?.dataset ?? {};
    if (where !== undefined) choose({ where: JSON.parse(where), window: null });
    else if (start !== undefined) choose({ window: start === "" ? null : new Date(Number(start)).toISOString() });
  });
}

export function showControls({ views, view, measure, range, choice }) {
  const viewName = ({ name, version }) => (version === null ? `${name} (not deployed)` : name);
  options(byId("view"), views, view, viewName);
  const measureName = ({ name, kind }) => (kind === "events" ? kind : name);
  options(byId("measure"), view ? measuresOf(view) : [], measure, measureName);
  for (const input of byId("ranges").querySelectorAll("input")) input.checked = input.value === range;
  byId("custom").hidden = range !== "custom";
  for (const name of ["from", "to"]) {
    // Not under the hands of somebody who is typing.
    if (document.activeElement !== byId(name)) byId(name).value = choice[name] ?? "";
  }
  patch(byId("filters"), ...choice.where.map((condition) => filter(condition, choice.where)));
}

function options(select, values, chosen, text) {
  patch(select, ...values.map((value) => el("option", { value: value.name }, text(value))));
  select.value = chosen?.name ?? "";
}

function filter(condition, all) {
  const rest = JSON.stringify(all.filter((each) => each !== condition));
  const attributes = { "data-key": condition, "data-where": rest, "aria-label": `Remove the filter ${condition}` };
  return el("button", { type: "button", class: "chip", ...attributes }, condition, el("span", {}, " ×"));
}
