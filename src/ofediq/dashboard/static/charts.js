// The four curves, drawn by plotly, each with a sentence that says the same.

import { last, movingMean, picked, runningMean, thinned, windowFor } from "./curves.js";
import * as format from "./format.js";

const CONFIG = { displayModeBar: false, responsive: true, scrollZoom: false, doubleClick: false, showTips: false };
const HOVER = "%{text}<extra></extra>";

export function draw(state) {
  if (!window.Plotly) return false; // the script is large, and comes after the numbers
  const look = colours();
  const { history } = state;
  drawScore(state, history, look);
  drawBits(history, look);
  drawSenders(history, look);
  drawSeconds(history, look);
  return true;
}

function drawScore(state, history, look) {
  const points = picked((history.step ?? []).length);
  const steps = points.map((index) => history.step[index]);
  const isAccuracy = state.task === "classification";
  const window = windowFor(history);
  const shown = (error) => (error == null || !isAccuracy ? error : 1 - error);
  const text = (value) => (isAccuracy ? format.percent(value) : format.number(value));
  const curves = [movingMean(history, "error", window), runningMean(history, "error"), movingMean(history, "naive", window)];
  const [moving, running, naive] = curves.map((curve) => points.map((index) => shown(curve[index])));
  const name = isAccuracy ? "Accuracy" : "MSE";
  plot("score-chart", [
    line(steps, naive, naive.map((y) => `${text(y)} by the last value`), { color: look.fedogd, width: 1.5 }),
    line(steps, running, running.map((y) => `${text(y)} since the start`), { color: look.soft, width: 1.5, dash: "dash" }),
    line(steps, moving, moving.map((y) => `${text(y)} of the last ${format.count(window)}`), { color: look.ours, width: 2.5 }),
  ], isAccuracy ? accuracyAxis(moving, running, naive) : errorAxis(moving, running, naive), look, marks(state.drift, look));
  document.getElementById("score-key").textContent = `last ${format.count(window)} predictions`;
  const best = moving.filter((value) => value != null);
  describe("score-text", steps, () =>
    `${name} over the last ${format.count(window)} predictions: ${text(best[0])} at first, ${text(last(best))} at step ` +
    `${format.count(last(steps))}; ${text(last(running))} over all of them; ${text(last(naive))} by the last value.${rises(state.drift)}`);
}

function drawBits(history, look) {
  const points = picked((history.step ?? []).length);
  const steps = points.map((index) => history.step[index]);
  const ours = points.map((index) => history.bits_wire[index] / 8 || null);
  const theirs = points.map((index) => history.bits_fedogd[index] / 8 || null);
  plot("bits-chart", [
    line(steps, theirs, theirs.map((y) => `${format.bytes(y)} by FedOGD`), { color: look.fedogd, width: 2 }),
    line(steps, ours, ours.map((y) => `${format.bytes(y)} sent`), { color: look.ours, width: 2.5 }),
  ], byteAxis([...ours, ...theirs]), look);
  describe("bits-text", steps, () =>
    `Uplink up to step ${format.count(last(steps))}: ${format.bytes(last(ours))} sent, ` +
    `${format.bytes(last(theirs))} by FedOGD. Logarithmic axis.`);
}

function drawSenders(history, look) {
  const arrived = thinned(history.step ?? [], history.senders ?? []);
  const due = (history.expected ?? []).map((expected, index) => Math.max(0, expected - history.senders[index]));
  const missed = thinned(history.step ?? [], due);
  plot("senders-chart", [
    bars(arrived, (y) => `${format.number(y)} arrived`, look.ours),
    bars(missed, (y) => `${format.number(y)} missed`, look.missed),
  ], { rangemode: "tozero", nticks: 5 }, look);
  describe("senders-text", arrived.x, () =>
    `Senders per round: ${format.number(last(arrived.y))} at last, and ${format.number(last(missed.y))} that did not come.`);
}

function drawSeconds(history, look) {
  const { x, y } = thinned(history.step ?? [], history.seconds ?? []);
  const unit = Math.max(0, ...y) < 1 ? { factor: 1000, name: " ms" } : { factor: 1, name: " s" };
  const traces = [line(x, y.map((value) => unit.factor * value), y.map(format.seconds), { color: look.ours, width: 2 })];
  plot("seconds-chart", traces, { rangemode: "tozero", nticks: 5, ticksuffix: unit.name }, look);
  describe("seconds-text", x, () => `A round takes ${format.seconds(last(y))} at last, at most ${format.seconds(Math.max(...y))}.`);
}

function line(x, y, text, pen) {
  return { type: "scatter", mode: x.length < 2 ? "markers" : "lines", x, y, text, line: pen, marker: { color: pen.color }, hovertemplate: HOVER };
}

function bars({ x, y }, label, color) {
  return { type: "bar", x, y, text: y.map(label), textposition: "none", marker: { color, line: { width: 0 } }, hovertemplate: HOVER };
}

// Upright lines where errors had risen.
function marks(steps, look) {
  const pen = { color: look.missed, width: 1.5, dash: "dot" };
  return steps.map((step) => ({ type: "line", x0: step, x1: step, yref: "paper", y0: 0, y1: 1, line: pen }));
}

function rises(steps) {
  return steps.length ? ` Errors rose at step ${steps.slice(-5).map(format.count).join(", ")}.` : "";
}

function plot(id, traces, yaxis, look, shapes = []) {
  const axis = { color: look.soft, gridcolor: look.grid, linecolor: look.line, zeroline: false, fixedrange: true, automargin: true };
  const layout = {
    margin: { l: 48, r: 8, t: 12, b: 36 },
    paper_bgcolor: "rgba(0,0,0,0)",
    plot_bgcolor: "rgba(0,0,0,0)",
    font: { family: look.font, size: 12, color: look.soft },
    hoverlabel: { bgcolor: look.card, bordercolor: look.line, font: { family: look.font, size: 12, color: look.text } },
    shapes,
    showlegend: false,
    barmode: "stack",
    bargap: 0.25,
    hovermode: "x",
    dragmode: false, // a finger on a chart scrolls the page
    xaxis: { ...axis, showgrid: false, showline: true, nticks: 6, title: { text: "step", standoff: 4 }, tickformat: ",d", hoverformat: ",d" },
    yaxis: { ...axis, ...yaxis },
  };
  window.Plotly.react(id, traces, layout, CONFIG);
}

function accuracyAxis(...curves) {
  const lowest = Math.min(1, ...curves.flat().filter((value) => value != null));
  const floor = lowest >= 0.8 ? 0.8 : lowest >= 0.5 ? 0.5 : 0;
  return { range: [floor, 1], tickformat: ".0%", nticks: 6 };
}

function errorAxis(...curves) {
  const values = curves.flat().filter((value) => value > 0);
  const [low, high] = [Math.min(...values), Math.max(...values)];
  // Beyond its prefixes Plotly raises exponents by inline styles, which the Content-Security-Policy refuses.
  const written = { nticks: 5, exponentformat: high >= 1e14 || low < 1e-14 ? "e" : "B" };
  return high > 30 * low ? { ...written, type: "log" } : { ...written, rangemode: "tozero" };
}

function byteAxis(values) {
  const powers = values.filter((value) => value > 0).map(Math.log10);
  if (!powers.length) return { type: "log", range: [3, 6], tickvals: [] };
  const low = Math.floor(Math.min(...powers));
  const high = Math.max(low + 1, Math.max(...powers) + 0.15);
  const stride = Math.ceil((high - low) / 6);
  const ticks = [];
  for (let power = low; power <= high; power += stride) ticks.push(10 ** power);
  return { type: "log", range: [low, high], tickvals: ticks, ticktext: ticks.map(format.bytes) };
}

function describe(id, steps, sentence) {
  document.getElementById(id).textContent = steps.length ? sentence() : "No rounds yet.";
}

function colours() {
  const style = getComputedStyle(document.documentElement);
  const look = { font: getComputedStyle(document.body).fontFamily };
  for (const name of ["ours", "fedogd", "missed", "text", "soft", "line", "grid", "card"]) {
    look[name] = style.getPropertyValue(`--${name}`).trim();
  }
  return look;
}
