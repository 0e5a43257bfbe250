// Draws the charts with Plotly: a quiet template, and one function for each chart.

import { span, ticks } from "./clock.js";
import { elapsed, number, percent, share } from "./format.js";
import { blend, tone } from "./tones.js";

const CONFIG = { displayModeBar: false, displaylogo: false, doubleClick: false };
const FEWEST_BARS = 12;
const fitted = new WeakSet();
let script = null;

/** The live chart: events in two shades where they are counted, any other measure as a line. */
export async function drawSeries(node, shown) {
  const { windows, counted, period, zone, choose } = shown;
  const marks = ticks(period.start, period.end, zone, node.clientWidth < 500 ? 5 : 10);
  await draw(node, counted ? bars(windows, shown) : line(windows, shown), {
    barmode: "stack",
    bargap: 0,
    xaxis: {
      type: "linear", range: [period.start, period.end], showgrid: false, ticks: "outside", ticklen: 4,
      tickvals: marks.map(({ at }) => at), ticktext: marks.map(({ label }) => label),
    },
    yaxis: { rangemode: "tozero", ...valueTicks(windows, counted) },
    ...marksIn(shown),
  });
  // Plotly keeps listeners on the node: the one of the last drawing must not stay beside this one.
  node.removeAllListeners("plotly_click");
  node.on("plotly_click", ({ points }) => choose(points[0].customdata[0]));
}

/** Day by day, the share of groups that were served right before the day was published. */
export async function drawAccuracy(node, days) {
  const shares = days.map((day) => day.share * 100);
  const missing = 100 - Math.min(...shares);
  await draw(node, [{
    ...curve(days.map(({ day }) => day), shares),
    customdata: days.map((day) => [percent(day.share), number(day.equal), number(day.groups)]),
    hovertemplate: "%{x}<br>%{customdata[0]} equal: %{customdata[1]} of %{customdata[2]} groups<extra></extra>",
  }], {
    xaxis: { type: "category", showgrid: false, nticks: node.clientWidth < 500 ? 4 : 8, tickangle: 0 },
    // From just below the lowest share: at a scale from 0, all that there is to see is a line at the top.
    yaxis: {
      range: [Math.max(0, 100 - Math.max(0.05, missing * 1.4)), 100 + Math.max(0.01, missing * 0.12)],
      ticksuffix: " %", nticks: 5,
    },
  });
}

/** How much of the final number was there so long after the window had ended. */
export async function drawCompleteness(node, points) {
  const labels = points.map(({ after_seconds: seconds }) => (seconds ? elapsed(seconds) : "at once"));
  const shares = points.map((point) => point.share * 100);
  await draw(node, [{
    ...curve(labels, shares), fill: "tozeroy", fillcolor: tone("wash"),
    customdata: points.map((point) => percent(point.share)),
    hovertemplate: "%{x} after the window’s end<br>%{customdata} of its events<extra></extra>",
  }], {
    xaxis: { type: "category", showgrid: false, tickangle: 0, range: [-0.15, points.length - 0.85] },
    yaxis: { range: [Math.max(0, Math.floor(Math.min(...shares) / 10 - 1) * 10), 102], ticksuffix: " %", nticks: 5 },
  });
}

function curve(x, y) {
  const color = tone("base");
  return { type: "scatter", mode: "lines+markers", x, y, line: { color, width: 2 }, marker: { color, size: 7 } };
}

/** Thousands are shortened; there is no half of an event, and no "500m". */
function valueTicks(windows, counted) {
  const most = Math.max(...windows.map(({ value }) => Number(value)).filter(Number.isFinite), 0);
  if (counted && most < 6) return { dtick: 1 };
  return { nticks: 6, tickformat: most < 1_000 ? ",~r" : "~s" };
}

function bars(windows, { zone, selected, period }) {
  // A few windows of a day each are bars too, and not walls.
  const widest = (period.end - period.start) / FEWEST_BARS;
  const says = ({ events, inTail }) =>
    [`<b>${number(events)} events</b>`, `base ${number(events - inTail)} | tail ${number(inTail)}`];
  const side = (name, of) => ({
    type: "bar", name,
    x: windows.map(middle),
    y: windows.map(of),
    width: windows.map(({ start, end }) => Math.min((end - start) * 0.86, widest)),
    marker: {
      color: tone(name),
      opacity: windows.map(({ start }) => (selected === null || selected === start ? 1 : 0.5)),
    },
    ...hover(windows, zone, says),
  });
  return [side("base", ({ events, inTail }) => events - inTail), side("tail", ({ inTail }) => inTail)];
}

function line(windows, { label, zone, selected, period }) {
  const drawn = withBreaks(windows, period.grain * 1_000);
  const inTail = (window) => share(window.inTail, window.events);
  const says = (window) => [
    `<b>${label} ${number(window.value)}</b>`,
    `${number(window.events)} events, ${percent(inTail(window))} in the tail`,
  ];
  return [{
    type: "scatter", mode: windows.length > 300 ? "markers" : "lines+markers", name: label,
    x: drawn.map(middle),
    y: drawn.map(({ value }) => (value === null ? null : Number(value))),
    line: { color: tone("line"), width: 1.5 },
    marker: {
      size: drawn.map(({ start }) => (start === selected ? 12 : 7)), opacity: 1,
      color: drawn.map((window) => blend(tone("base"), tone("tail"), inTail(window))),
      line: { width: 1, color: tone("surface") },
    },
    ...hover(drawn, zone, says),
  }];
}

const middle = ({ start, end }) => (start + end) / 2;

/** A line over windows without events would say that there was something. */
function withBreaks(windows, grain) {
  return windows.flatMap((window, i) => {
    const next = windows[i + 1];
    const gap = next && next.start - window.start > grain * 1.5 && next.start > window.end;
    return gap ? [window, { ...window, start: window.end, value: null }] : [window];
  });
}

function hover(windows, zone, says) {
  const text = (window) => [span(window.start, window.end, zone), ...says(window), window.status].join("<br>");
  return {
    customdata: windows.map((window) => [window.start, text(window)]),
    hovertemplate: "%{customdata[1]}<extra></extra>",
  };
}

/** The watermark, and below the bars the windows in which an alert fires or has fired. */
function marksIn({ watermark, period, alerts }) {
  const { shapes, annotations } = watermarkIn(watermark, period);
  // The worst last, which is drawn over the others.
  const spots = alerts.filter((alert) => alert.state !== "withdrawn" && alert.window_start)
    .toSorted((one, other) => (one.severity === "critical") - (other.severity === "critical"));
  const fired = spots.map((alert) => ({
    type: "rect", name: alert.alert, x0: Date.parse(alert.window_start), x1: Date.parse(alert.window_end),
    yref: "paper", y0: 0, y1: 0.02, line: { width: 0 }, fillcolor: tone(alert.severity === "critical" ? "bad" : "warn"),
  }));
  return { shapes: [...shapes, ...fired.filter(({ x0, x1 }) => x1 > period.start && x0 < period.end)], annotations };
}

/** Where the watermark is, when it is in the picture: windows that end before it are final. */
function watermarkIn(watermark, { start, end }) {
  if (watermark === null || watermark <= start || watermark >= end) return { shapes: [], annotations: [] };
  const late = (watermark - start) / (end - start) > 0.5;
  const color = tone("quiet");
  return {
    shapes: [{
      type: "line", x0: watermark, x1: watermark, yref: "paper", y0: 0, y1: 1,
      line: { color, width: 1, dash: "dot" },
    }],
    annotations: [{
      x: watermark, yref: "paper", y: 1, yanchor: "bottom", xanchor: late ? "right" : "left", showarrow: false,
      text: late ? "final until the watermark" : "provisional after the watermark", font: { color, size: 11 },
    }],
  };
}

async function draw(node, traces, layout) {
  const Plotly = await plotly();
  keepFitting(node, Plotly);
  const clear = "rgba(0, 0, 0, 0)";
  const axis = {
    color: tone("quiet"), gridcolor: tone("rule"), linecolor: tone("rule"),
    zeroline: false, fixedrange: true, automargin: true,
  };
  await Plotly.react(node, traces, {
    ...layout,
    xaxis: { ...axis, ...layout.xaxis },
    yaxis: { ...axis, ...layout.yaxis },
    autosize: true, showlegend: false, dragmode: false, hovermode: "closest",
    margin: { l: 44, r: 12, t: 20, b: 34 },
    paper_bgcolor: clear, plot_bgcolor: clear,
    font: { family: getComputedStyle(document.body).fontFamily, size: 12, color: tone("ink") },
    hoverlabel: { bgcolor: tone("raised"), bordercolor: tone("rule"), font: { color: tone("ink") }, align: "left" },
  }, CONFIG);
}

/** A chart's room changes also when the window does not: a panel beside it may grow. */
function keepFitting(node, Plotly) {
  if (fitted.has(node)) return;
  fitted.add(node);
  new ResizeObserver(() => node.clientHeight && Plotly.Plots.resize(node)).observe(node);
}

/** The script is large: it is fetched when the first chart is drawn, and the words of the page do not wait for it. */
function plotly() {
  script ??= new Promise((done, failed) => {
    const tag = document.createElement("script");
    tag.src = "/assets/plotly.min.js";
    tag.onload = () => done(window.Plotly);
    tag.onerror = () => {
      script = null;
      failed(new Error("The charts’ script could not be loaded: reload the page to try again."));
    };
    document.head.append(tag);
  });
  return script;
}
