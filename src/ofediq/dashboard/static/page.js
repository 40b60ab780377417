// The live page: follow the server, show what it says.

import { draw } from "./charts.js";
import { drawClients } from "./clients.js";
import { last, meanOfLast, movingMean, windowFor } from "./curves.js";
import { follow } from "./feed.js";
import * as format from "./format.js";
import { planFor } from "./planner.js";

const STATES = { waiting: "Waiting for clients", running: "Running", finished: "Finished" };
const CONNECTIONS = { live: "Live", reconnecting: "Reconnecting\u2026" };
const SLOW = 1000; // milliseconds between two drawings of curves and table, at least
const SHARE = 10; // and at least this many times as long as a drawing takes

let state = null;
let nextDrawing = 0;
let drawnVersion = null;
let waiting = false;
const told = { state: null, problems: "", connection: null };

follow("events", {
  onNews(news) {
    state = news;
    if (!waiting) requestAnimationFrame(show);
    waiting = true;
  },
  onConnection(what) {
    document.getElementById("connection").dataset.connection = what;
    document.body.classList.toggle("stale", what !== "live");
    put("connection", CONNECTIONS[what]);
    if (told.connection !== null) announce(what === "live" ? "Connected again." : "Connection lost, reconnecting.");
    told.connection = what;
  },
});

setInterval(() => {
  if (told.connection !== "live" || document.hidden) return; // old news do not get older on the page
  showProgress();
  showSlowly();
}, SLOW);

matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
  drawnVersion = null;
  nextDrawing = 0;
  if (state) showSlowly();
});

function show() {
  waiting = false;
  document.title = `${state.federation} \u00b7 ofediq`;
  put("federation", state.federation);
  showProgress();
  showProblems();
  showUplink(state.totals);
  showNumbers(state.totals);
  showCounts(state.totals);
  showParameters();
  planFor(state);
  showSlowly();
}

function showSlowly() {
  const start = Date.now();
  if (start < nextDrawing) return;
  drawClients(state, start / 1000 + state.offset);
  const version = `${state.started} ${state.version}`;
  if (version !== drawnVersion && draw(state)) drawnVersion = version;
  nextDrawing = start + Math.max(SLOW, SHARE * (Date.now() - start)) - 50; // timers come a little early
}

function showProgress() {
  const { round_limit: limit, totals, step } = state;
  const pill = document.getElementById("state");
  pill.dataset.state = state.state;
  put("state", STATES[state.state] ?? state.state);
  if (told.state !== null && told.state !== state.state) announce(`${STATES[state.state]}.`);
  told.state = state.state;
  const rounds = limit ? `round ${format.count(totals.rounds)} of ${format.count(limit)}` : `round ${format.count(totals.rounds)}`;
  const now = Date.now() / 1000 + state.offset;
  put("progress-text", `${rounds}, step ${format.count(step)}, up for ${format.span(now - state.started)}`);
  document.getElementById("trial").hidden = !state.trial;
  put("trial", state.trial ?? "");
  const bar = document.getElementById("progress");
  bar.hidden = !limit;
  bar.max = limit || 1;
  bar.value = totals.rounds;
}

function showProblems() {
  const text = state.problems.join("\n");
  if (text === told.problems) return;
  told.problems = text;
  document.getElementById("problems").hidden = !text;
  replace("problem-list", state.problems.map((sentence) => element("li", sentence)));
  announce(text ? `Needs attention: ${text}` : "All problems are solved.");
}

function showUplink(totals) {
  const { ccr, bits_wire: sent, bits_fedogd: full } = totals;
  put("ccr", ccr == null ? format.NOTHING : format.reduction(ccr));
  put("ccr-unit", ccr < 0 ? "more bits than FedOGD" : "fewer bits than FedOGD");
  const name = state.parameters.method;
  put("ours-name", typeof name === "string" && name.length < 10 ? name : "Sent");
  const most = Math.max(sent, full) || 1;
  document.getElementById("bar-ours").style.width = `${(100 * sent) / most}%`;
  document.getElementById("bar-fedogd").style.width = `${(100 * full) / most}%`;
  put("bar-ours-text", format.bits(sent));
  put("bar-fedogd-text", format.bits(full));
  put("ccr-text", `${format.bits(sent)} sent; FedOGD would have sent ${format.bits(full)}.`);
  const { dim } = state.parameters;
  const turns = full / (32 * dim); // clients times steps
  put("ccr-note", turns > 0 ? `${format.bits(sent / turns)} per client and step, instead of ${format.bytes(4 * dim)}` : "");
}

function showNumbers(totals) {
  const { history, task } = state;
  const isAccuracy = task === "classification";
  const text = (error) => (error == null ? format.NOTHING : isAccuracy ? format.percent(1 - error) : format.number(error));
  const name = isAccuracy ? "Accuracy" : "Mean squared error";
  put("score-name", name);
  put("score-title", `${name} over time`);
  const window = windowFor(history);
  put("score", text(last(movingMean(history, "error", window))));
  const skill = totals.skill == null ? "" : `; skill ${format.skill(totals.skill)} against the last value`;
  const rose = state.drift.length ? `; errors rose at step ${format.count(last(state.drift))}` : "";
  document.getElementById("drift-key").hidden = !state.drift.length;
  put("score-note", `last ${format.count(window)} predictions; ${text(totals.error)} since the start${skill}${rose}`);

  const present = [...state.clients.values()].filter((client) => client.present).length;
  put("present", `${format.count(present)} of ${format.count(state.clients.size)}`);
  const senders = meanOfLast(history.senders);
  put("present-note", senders == null ? "no rounds yet" : `${format.number(senders, 2)} sent per round lately`);

  put("round-time", format.seconds(meanOfLast(history.seconds)));
  const mean = totals.rounds ? totals.seconds / totals.rounds : null;
  put("round-time-note", mean == null ? "no rounds yet" : `lately; ${format.seconds(mean)} since the start`);

  const rejected = Object.values(totals.rejected).reduce((sum, more) => sum + more, 0);
  put("updates", format.count(totals.updates));
  put("updates-note", `${format.count(totals.left_out)} left out, ${format.count(totals.missed)} missed, ${format.count(rejected)} rejected, ${format.count(totals.clipped)} clipped`);
}

function showCounts(totals) {
  for (const kind of ["wire", "formula", "fedogd", "downlink"]) put(`count-${kind}`, format.bits(totals[`bits_${kind}`]));
  put("count-in", format.bytes(totals.bytes_socket.in));
  put("count-out", format.bytes(totals.bytes_socket.out));
  const reasons = Object.entries(totals.rejected).sort((one, other) => other[1] - one[1]);
  const rows = reasons.map(([reason, number]) => row(reason, format.count(number)));
  replace("rejections", rows.length ? rows : [row("none", "0")]);
}

function showParameters() {
  const entries = Object.entries(state.parameters).filter(([, value]) => value != null);
  replace("parameters", entries.map(([name, value]) => {
    const pair = document.createElement("div");
    pair.append(element("dt", name.replaceAll("_", " ")), element("dd", plain(value)));
    return pair;
  }));
}

function plain(value) {
  if (typeof value === "number") return Number.isInteger(value) ? format.count(value) : format.number(value, 4);
  return typeof value === "object" ? JSON.stringify(value) : String(value);
}

function row(name, value) {
  const line = document.createElement("tr");
  const head = element("th", name);
  head.scope = "row";
  line.append(head, element("td", value));
  return line;
}

function element(tag, text) {
  const node = document.createElement(tag);
  node.textContent = text;
  return node;
}

// Touch the page only where the text changed, so that selections and screen readers are left alone.
function put(id, text) {
  const node = document.getElementById(id);
  if (node.textContent !== text) node.textContent = text;
}

function replace(id, nodes) {
  const holder = document.getElementById(id);
  const text = (list) => [...list].map((node) => node.textContent).join("\n");
  if (text(holder.children) !== text(nodes)) holder.replaceChildren(...nodes);
}

function announce(sentence) {
  put("announcer", sentence);
}
