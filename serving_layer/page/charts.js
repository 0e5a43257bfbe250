// Draws the charts with Plotly: a quiet template, and one function for each chart.

import { duration, number, percent, share } from "./format.js";
import { span, ticks } from "./clock.js";
import { tone, blend } from "./tones.js";

const CONFIG = { displayModeBar: false, displaylogo: false, responsive: true, doubleClick: false };
let script = null;

/** The live chart: events in two shades where they are counted, any other measure as a line. */
export async function drawSeries(node, { windows, counted, label, period, zone, selected, watermark, choose }) {
  const traces = counted ? bars(windows, zone, selected) : line(windows, label, zone, selected, period.grain * 1_000);
  const marks = ticks(period.start, period.end, zone, node.clientWidth < 500 ? 5 : 10);
  await draw(node, traces, {
    barmode: "stack",
    bargap: 0,
    xaxis: {
      type: "linear", range: [period.start, period.end], tickvals: marks.map(({ at }) => at), ticktext: marks.map((mark) => mark.label),
      showgrid: false, ticks: "outside", ticklen: 4,
    },
    yaxis: { rangemode: "tozero", nticks: 6, tickformat: "~s" },
    shapes: watermarkLine(watermark, period),
    annotations: watermarkWord(watermark, period),
  });
  // Plotly keeps listeners on the node: the one of the last drawing must not stay beside this one.
  node.removeAllListeners?.("plotly_click");
  node.on?.("plotly_click", ({ points }) => choose(points[0].customdata[0]));
}

/** Day by day, the share of groups that were served right before the day was published. */
export async function drawAccuracy(node, days) {
  const shares = days.map((day) => day.share * 100);
  const lowest = Math.min(...shares);
  await draw(node, [{
    type: "scatter", mode: "lines+markers", x: days.map(({ day }) => day), y: shares,
    line: { color: tone("base"), width: 2 }, marker: { color: tone("base"), size: 7 },
    customdata: days.map((day) => [percent(day.share), number(day.equal), number(day.groups)]),
    hovertemplate: "%{x}<br>%{customdata[0]} equal: %{customdata[1]} of %{customdata[2]} groups<extra></extra>",
  }], {
    xaxis: { type: "category", showgrid: false, nticks: 8 },
    // From just below the lowest share: at a scale from 0, all that there is to see is a line at the top.
    yaxis: { range: [Math.max(0, lowest - Math.max(0.05, (100 - lowest) * 0.4)), 100 + Math.max(0.01, (100 - lowest) * 0.12)], ticksuffix: " %", nticks: 5 },
  });
}

/** How much of the final number was there so long after the window had ended. */
export async function drawCompleteness(node, points) {
  const labels = points.map(({ after_seconds: seconds }) => (seconds ? duration(seconds) : "at once"));
  const shares = points.map((point) => point.share * 100);
  await draw(node, [{
    type: "scatter", mode: "lines+markers", x: labels, y: shares, fill: "tozeroy", fillcolor: tone("wash"),
    line: { color: tone("base"), width: 2, shape: "hv" }, marker: { color: tone("base"), size: 7 },
    customdata: points.map((point) => percent(point.share)),
    hovertemplate: "%{x} after the window's end<br>%{customdata} of its events<extra></extra>",
  }], {
    xaxis: { type: "category", showgrid: false },
    yaxis: { range: [Math.max(0, Math.floor((Math.min(...shares) - 5) / 10) * 10), 102], ticksuffix: " %", nticks: 5 },
  });
}

function bars(windows, zone, selected) {
  const side = (name, color, of) => ({
    type: "bar", name,
    x: windows.map(({ start, end }) => (start + end) / 2),
    y: windows.map(of),
    width: windows.map(({ start, end }) => (end - start) * 0.86),
    marker: { color, opacity: opacities(windows, selected), line: { width: 0 } },
    ...hover(windows, zone, (window) => [`<b>${number(window.events)} events</b>`, `base ${number(window.events - window.inTail)} | tail ${number(window.inTail)}`]),
  });
  return [
    side("base", tone("base"), ({ events, inTail }) => events - inTail),
    side("tail", tone("tail"), ({ inTail }) => inTail),
  ];
}

function line(windows, label, zone, selected, grain) {
  const drawn = withBreaks(windows, grain);
  const of = (window) => (window.value === null ? null : Number(window.value));
  return [{
    type: "scatter", mode: windows.length > 300 ? "markers" : "lines+markers", name: label,
    x: drawn.map(({ start, end }) => (start + end) / 2),
    y: drawn.map(of),
    line: { color: tone("line"), width: 1.5 },
    marker: {
      size: drawn.map(({ start }) => (start === selected ? 11 : 7)),
      color: drawn.map((window) => blend(tone("base"), tone("tail"), share(window.inTail, window.events))),
      line: { width: 1, color: tone("surface") },
    },
    ...hover(drawn, zone, (window) => [`<b>${label} ${number(window.value)}</b>`, `${number(window.events)} events, ${percent(share(window.inTail, window.events))} in the tail`]),
  }];
}

/** A line over windows without events would say that there was something. */
function withBreaks(windows, grain) {
  return windows.flatMap((window, i) => {
    const next = windows[i + 1];
    const gap = next && next.start - window.start > grain * 1.5 && next.start > window.end;
    return gap ? [window, { start: window.end, end: window.end, value: null, events: 0, inTail: 0, status: "final" }] : [window];
  });
}

function hover(windows, zone, says) {
  return {
    customdata: windows.map((window) => [window.start, [span(window.start, window.end, zone), ...says(window), window.status].join("<br>")]),
    hovertemplate: "%{customdata[1]}<extra></extra>",
  };
}

const opacities = (windows, selected) => windows.map(({ start }) => (selected === null || selected === start ? 1 : 0.35));

const within = (watermark, { start, end }) => watermark !== null && watermark > start && watermark < end;

function watermarkLine(watermark, period) {
  if (!within(watermark, period)) return [];
  const style = { color: tone("quiet"), width: 1, dash: "dot" };
  return [{ type: "line", x0: watermark, x1: watermark, yref: "paper", y0: 0, y1: 1, line: style }];
}

function watermarkWord(watermark, period) {
  if (!within(watermark, period)) return [];
  const late = (watermark - period.start) / (period.end - period.start) > 0.5;
  return [{
    x: watermark, yref: "paper", y: 1, yanchor: "bottom", xanchor: late ? "right" : "left", showarrow: false,
    text: late ? "final until the watermark" : "watermark: provisional from here", font: { color: tone("quiet"), size: 11 },
  }];
}

async function draw(node, traces, layout) {
  const Plotly = await plotly();
  const axis = { color: tone("quiet"), gridcolor: tone("rule"), linecolor: tone("rule"), zeroline: false, fixedrange: true, automargin: true };
  await Plotly.react(node, traces, {
    ...layout,
    xaxis: { ...axis, ...layout.xaxis },
    yaxis: { ...axis, ...layout.yaxis },
    autosize: true, showlegend: false, dragmode: false, hovermode: "closest",
    margin: { l: 44, r: 12, t: 20, b: 34 },
    paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
    font: { family: getComputedStyle(document.body).fontFamily, size: 12, color: tone("ink") },
    hoverlabel: { bgcolor: tone("raised"), bordercolor: tone("rule"), font: { color: tone("ink"), size: 12 }, align: "left" },
  }, CONFIG);
}

/** The script is large: it is fetched when the first chart is drawn, and the words of the page do not wait for it. */
function plotly() {
  script ??= new Promise((done, failed) => {
    const tag = document.createElement("script");
    tag.src = "/assets/plotly.min.js";
    tag.onload = () => done(window.Plotly);
    tag.onerror = () => {
      script = null;
      failed(new Error("The charts' script could not be loaded: reload the page to try again."));
    };
    document.head.append(tag);
  });
  return script;
}
