// What all panels do alike: show a problem and take it away again, say why they are empty, and fill a table.

import { byId, el, patch } from "./dom.js";
import { prose } from "./marks.js";

/** Fills a panel, or shows what went wrong in it and returns false; what it showed before stays: it was true then. */
export async function fill(id, work) {
  try {
    await work();
    problem(id, null);
    return true;
  } catch (error) {
    if (error.name === "AbortError") throw error;
    problem(id, error.message);
    return false;
  }
}

export function problem(id, text) {
  const node = byId(id).querySelector(".problem");
  node.hidden = text === null;
  patch(node, ...prose(text ?? ""));
}

/** The panel has nothing to show, and this is what to do about it; null: it has. */
export function empty(id, text) {
  const section = byId(id);
  const node = section.querySelector(".empty");
  node.hidden = text === null;
  section.querySelector(".body").hidden = text !== null;
  patch(node, ...prose(text ?? ""));
}

export function note(id, text) {
  patch(byId(id), text);
}

/** Columns are texts, or [text, class]; rows are elements. */
export function table(node, columns, rows) {
  const heads = columns.map((column) => {
    const [text, kind] = [column].flat();
    return el("th", { scope: "col", class: kind }, text);
  });
  patch(node.querySelector("thead"), el("tr", {}, ...heads));
  patch(node.querySelector("tbody"), ...rows);
}

/** A heading, or a cell, of numbers. */
export const ofNumbers = (text) => [text, "figure"];
export const figure = (text, attributes = {}) => el("td", { ...attributes, class: "figure" }, text);
