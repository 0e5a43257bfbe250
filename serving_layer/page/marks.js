// Small drawings inside of text: the braid bar, sparklines, and the signs of states.

import { moment } from "./clock.js";
import { el, svg } from "./dom.js";
import { percent, share } from "./format.js";

const SPARK = { width: 72, height: 18 };

/** Base and tail as two lengths of one bar. */
export function braidBar(events, inTail) {
  const tail = share(inTail, events);
  const label = events ? `base ${percent(1 - tail)}, tail ${percent(tail)}` : "no events";
  return el(
    "div", { class: "braid", role: "img", "aria-label": label },
    tail < 1 && events ? el("span", { class: "of-base", style: { "flex-grow": String(1 - tail) } }) : null,
    tail > 0 ? el("span", { class: "of-tail", style: { "flex-grow": String(tail) } }) : null,
  );
}

/** Values over time, the newest last, from 0 to their largest. */
export function sparkline(values, label) {
  const top = Math.max(...values, 1);
  const x = (i) => 1 + (i / Math.max(1, values.length - 1)) * (SPARK.width - 2);
  const y = (value) => SPARK.height - 2 - (value / top) * (SPARK.height - 4);
  const points = values.map((value, i) => `${x(i).toFixed(1)},${y(value).toFixed(1)}`);
  const box = { ...SPARK, viewBox: `0 0 ${SPARK.width} ${SPARK.height}` };
  return svg(
    "svg", { ...box, class: "spark", role: "img", "aria-label": label },
    values.length > 1 ? svg("polyline", { points: points.join(" ") }) : null,
    values.length ? svg("circle", { cx: x(values.length - 1), cy: y(values.at(-1)), r: 1.8 }) : null,
  );
}

/** A state as a sign and a word; how good it is decides the sign's shape as well as its colour. */
export function state(word, tone) {
  const shapes = {
    good: svg("circle", { cx: 6, cy: 6, r: 4 }),
    warn: svg("path", { d: "M6 1.500 11 10.500H1Z" }),
    bad: svg("path", { d: "M2 2h8v8H2Z" }),
    idle: svg("circle", { cx: 6, cy: 6, r: 3.4, class: "hollow" }),
  };
  const sign = svg("svg", { viewBox: "0 0 12 12", width: 10, height: 10, "aria-hidden": "true" }, shapes[tone]);
  return el("span", { class: "state", "data-tone": tone }, sign, ...prose(word));
}

/** Why something is as it is, below it and quieter. */
export const reason = (...text) => el("span", { class: "reason" }, ...text);

/** A moment as people read it and as it was told. */
export const at = (text, zone) => (text ? el("time", { datetime: text }, moment(text, zone)) : "–");

/** Text in which commands stand between backquotes, as the server writes them. */
export function prose(text) {
  return text.split("`").map((part, i) => (i % 2 ? el("code", {}, part) : part));
}
