// Puts the page together: what is chosen, what is asked again when, and which panel shows the answer.

import { get, listen } from "./api.js";
import { readChoice, usualRange, writeChoice } from "./choice.js";
import { wall } from "./clock.js";
import { showControls, wireControls } from "./controls.js";
import { byId, patch } from "./dom.js";
import { prose } from "./marks.js";
import { empty, fill } from "./panel.js";
import { showAccuracy } from "./panels/accuracy.js";
import { showAlerts } from "./panels/alerts.js";
import { showDays } from "./panels/days.js";
import { showFreshness, showNothing, showServed, showWaiting } from "./panels/headline.js";
import { showLeaders } from "./panels/leaders.js";
import { showLedger } from "./panels/ledger.js";
import { showProvenance } from "./panels/provenance.js";
import { showSeries } from "./panels/series.js";
import { showStreams } from "./panels/streams.js";
import { answered, askAlerts, askBoard, askNumbers, askWindow, seriesOf } from "./questions.js";
import { repeated } from "./repeat.js";
import { switchTheme } from "./tones.js";
import { measuresOf } from "./windows.js";

const NUMBERS_EVERY = 1_000;
const BOARD_EVERY = 5_000;
const NO_VIEW =
  "No view is defined yet: write one in a definitions file, check it with `braid check`, then run `braid stream`.";
const NO_EVENTS = "No events yet: make some with `braid produce`, and start everything with `braid up`.";

// What the page shows and what it was made of: `tables` are the versions that the server told last.
const page = {
  choice: readChoice(location.search),
  views: [], listed: false, view: null, measure: null, range: null,
  tables: {}, series: null, accuracy: null, alerts: [],
};
const views = repeated(loadViews, BOARD_EVERY);
const numbers = repeated(loadNumbers, NUMBERS_EVERY);
const board = repeated(loadBoard, BOARD_EVERY);
const alerts = repeated(loadAlerts, BOARD_EVERY);

function loadViews(signal) {
  return fill("series", async () => {
    ({ views: page.views } = await get("/views", {}, signal));
    page.listed = true;
    settle();
    numbers.soon();
    board.soon();
    alerts.soon();
  });
}

/** Brings the pickers in line with what is chosen and what there is. */
function settle() {
  const { choice } = page;
  const named = page.views.find(({ name }) => name === choice.view);
  page.view = named ?? page.views.find(({ version }) => version !== null) ?? page.views[0] ?? null;
  const measures = page.view ? measuresOf(page.view) : [];
  page.measure = measures.find(({ name }) => name === choice.measure) ?? measures[0] ?? null;
  page.range = choice.range ?? (page.view && usualRange(page.view));
  showControls(page);
  notice(page.view);
  document.title = page.view ? `${page.view.name} · Braid` : "Braid";
}

/** What to do where there is nothing to show. */
function notice(view) {
  const text = view?.version === null ? notDeployed(view) : view ? "" : NO_VIEW;
  byId("notice").hidden = !text;
  patch(byId("notice"), ...prose(text));
  document.body.classList.toggle("without-numbers", Boolean(text));
  document.body.classList.toggle("without-views", !view);
}

const notDeployed = ({ name }) =>
  `View ${name} is not deployed, so it has no numbers yet: run \`braid stream ${name}\`.`;

async function loadNumbers(signal) {
  const { view, choice } = page;
  if (!view || view.version === null) return showNothing();
  let answers = null;
  if (!(await fill("series", async () => (answers = await askNumbers(page, signal))))) return false;
  if (answers === null) {
    showNothing();
    for (const id of ["series", "provenance", "leaders"]) empty(id, NO_EVENTS);
    return true;
  }
  const { period, ranked, top, origin } = answers;
  const told = await Promise.all([
    fill("leaders", () => showLeaders({ view, measure: ranked, period, where: choice.where }, answered(top))),
    fill("series", () => {
      page.series = seriesOf(page, answers);
      showServed(page.series);
      return drawSeries();
    }),
    fill("provenance", () => follow(answered(origin), period, signal)),
  ]);
  return told.every(Boolean);
}

const selected = () => (page.choice.window ? Date.parse(page.choice.window) : null);

const select = (start) => choose({ window: new Date(start).toISOString() });

const drawSeries = () => showSeries({ ...page.series, selected: selected(), alerts: page.alerts }, select);

const redraw = () => fill("series", () => (page.series ? drawSeries() : null));

/** Shows the provenance of the range, and of the window that is chosen in it. */
async function follow(origin, period, signal) {
  // Without the numbers of this range there is nothing to tell the origin of; the chart says why there are none.
  if (page.series?.period !== period) return;
  const { view, windows } = page.series;
  const window = windows.find(({ start }) => start === selected()) ?? null;
  const windowOrigin = window && (await askWindow(page.series, window, page.choice.where, signal));
  page.tables[view.name] ??= { epoch: origin.tail.epoch };
  showProvenance(page.series, origin, window, windowOrigin);
}

function loadAlerts(signal) {
  const { view } = page;
  if (!view) return true;
  return fill("alerts", async () => {
    const before = JSON.stringify(page.alerts);
    ({ alerts: page.alerts } = await askAlerts(view, signal));
    showAlerts(view, page.alerts);
    // Their marks are in the chart.
    if (page.series && JSON.stringify(page.alerts) !== before) drawSeries();
  });
}

async function loadBoard(signal) {
  const { view } = page;
  if (!view) return true;
  const { days, ledger, accuracy } = await askBoard(view, signal);
  const told = await Promise.all([
    fill("days", () => {
      showDays(view, answered(days));
      showWaiting(days.value.days);
    }),
    fill("ledger", () => showLedger(view, answered(ledger))),
    fill("accuracy", () => {
      page.accuracy = [view, answered(accuracy)];
      return showAccuracy(...page.accuracy);
    }),
  ]);
  linkDataDocs(days.value?.days ?? []);
  return told.every(Boolean);
}

/** Gates write their site when they first run: until then the address answers that it is not there. */
async function linkDataDocs(days) {
  if (!byId("data-docs").hidden || !days.some(({ gate }) => gate)) return;
  const answer = await fetch("/data-docs/", { method: "HEAD" }).catch(() => null);
  byId("data-docs").hidden = !answer?.ok;
}

function choose(changes) {
  const first = changes.range === "custom" && !page.choice.from && !changes.from && page.series;
  page.choice = { ...page.choice, ...changes, ...(first ? shownBounds(page.series) : {}) };
  history.pushState(null, "", `${location.pathname}${writeChoice(page.choice)}`);
  chosen();
}

/** A range of one's own begins as the one that is shown. */
function shownBounds({ view, period }) {
  const local = (instant) => new Date(wall(instant, view.timezone)).toISOString().slice(0, 16);
  return { from: local(period.start), to: local(period.end) };
}

function chosen() {
  const before = page.view;
  settle();
  numbers.anew();
  if (page.view !== before) for (const panels of [board, alerts]) panels.anew();
  // The chosen window is seen at once, before the server has told where it comes from.
  else if (page.series?.measure === page.measure) redraw();
}

/** The server tells the versions of all tables: only what shows a table that moved is asked for again. */
function tablesMoved(tables) {
  const [before, now] = [page.tables, tables].map((each) => page.view && each[page.view.name]);
  page.tables = tables;
  const known = new Map(page.views.map(({ name, version }) => [name, version]));
  if (page.listed && Object.entries(tables).some(([name, { version }]) => known.get(name) !== version)) views.soon();
  const moved = (...fields) => now && fields.some((field) => before?.[field] !== now[field]);
  if (moved("version", "tail_version", "base_version")) numbers.soon();
  if (moved("version", "base_version", "epoch")) board.soon();
}

function connection(word) {
  const node = byId("connection");
  const returned = word === "live" && node.dataset.state === "reconnecting";
  node.dataset.state = word;
  patch(node, word);
  if (returned) views.soon();
}

const zoneOf = ({ view, source }) =>
  page.views.find((each) => each.name === view || each.source === source)?.timezone ?? "UTC";

// A token came with the address and is a cookie now: it must not stay where people copy links from.
history.replaceState(null, "", `${location.pathname}${writeChoice(page.choice)}`);
wireControls(choose);
switchTheme(() => {
  redraw();
  if (page.accuracy) fill("accuracy", () => showAccuracy(...page.accuracy));
});
byId("series-details").addEventListener("toggle", redraw);
addEventListener("popstate", () => {
  page.choice = readChoice(location.search);
  chosen();
});
// An alert is judged by another process, after the number that it is about: no table of the view moves then.
setInterval(alerts.soon, BOARD_EVERY);
setInterval(() => {
  if (!document.hidden && page.view?.version) showFreshness(page.view, page.tables[page.view.name]?.epoch);
}, 1_000);
views.soon();
listen({ on: { views: tablesMoved, status: (report) => showStreams(report, zoneOf) }, state: connection });
