// The page's colours for what is not drawn by the style sheet, and the choice between light and dark.

import { byId } from "./dom.js";

const PARTS = /[\d.]+/g;
const KEPT = "braid-theme";
let probe = null;

/** A colour of the style sheet as it is in the present theme: "rgb(…)". */
export function tone(name) {
  if (!probe) {
    probe = document.createElement("span");
    probe.hidden = true;
    document.body.append(probe);
  }
  probe.style.color = `var(--${name})`;
  return getComputedStyle(probe).color;
}

/** The colour between two: at 0 the first, at 1 the second. */
export function blend(one, other, at) {
  const [from, to] = [one, other].map((color) => color.match(PARTS).map(Number));
  return `rgb(${[0, 1, 2].map((i) => Math.round(from[i] + (to[i] - from[i]) * at)).join(", ")})`;
}

/** The switch; charts are drawn anew by `changed`, because they do not follow the style sheet. */
export function switchTheme(changed) {
  const system = matchMedia("(prefers-color-scheme: dark)");
  const root = document.documentElement;
  const isDark = () => (root.dataset.theme ?? (system.matches ? "dark" : "light")) === "dark";
  const show = () => byId("theme").setAttribute("aria-pressed", String(isDark()));
  byId("theme").addEventListener("click", () => {
    root.dataset.theme = isDark() ? "light" : "dark";
    try {
      localStorage.setItem(KEPT, root.dataset.theme);
    } catch {
      // A browser may refuse to store anything: the choice then lasts as long as the page.
    }
    show();
    changed();
  });
  system.addEventListener("change", () => {
    show();
    changed();
  });
  show();
}
