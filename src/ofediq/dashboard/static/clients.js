// The table of clients: sorted, filtered, and touched only where something changed.

import * as format from "./format.js";

const MOST = 500; // rows in the page; the filter finds the others

const table = document.getElementById("clients");
const body = table.tBodies[0];
const find = document.getElementById("find");
const show = document.getElementById("show");
const lines = new Map();
let order = { by: "number", down: false };
let redraw = () => {};

const KEEP = {
  all: () => true,
  present: (client) => client.present,
  absent: (client) => !client.present,
  noticed: (client) => client.rejected + client.clipped > 0,
  quarantined: (client) => client.quarantined,
  odd: (client) => client.odd,
};

for (const header of table.tHead.rows[0].cells) {
  header.firstElementChild.addEventListener("click", () => sortBy(header));
}
find.addEventListener("input", () => redraw());
show.addEventListener("change", () => redraw());

function sortBy(header) {
  const { by } = header.dataset;
  // Numbers are most telling from the top, names from the start.
  order = { by, down: order.by === by ? !order.down : header.classList.contains("number") };
  for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
  header.setAttribute("aria-sort", order.down ? "descending" : "ascending");
  redraw();
}

export function drawClients(state, now) {
  redraw = () => drawClients(state, now);
  const isAccuracy = state.task === "classification";
  const clients = [...state.clients.values()];
  const wanted = find.value.trim().toLowerCase();
  const kept = clients.filter((client) => KEEP[show.value](client) && client.name.toLowerCase().includes(wanted));
  kept.sort(compare(isAccuracy));
  const shown = kept.slice(0, MOST);
  shown.forEach((client, index) => {
    const line = lineOf(client.name);
    fill(line, client, now, isAccuracy);
    if (body.rows[index] !== line) body.insertBefore(line, body.rows[index] ?? null);
  });
  while (body.rows.length > shown.length) body.lastElementChild.remove();

  const present = clients.filter((client) => client.present).length;
  put("clients-count", `${format.count(clients.length)} registered, ${format.count(present)} present`);
  put("client-score", isAccuracy ? "Accuracy" : "MSE");
  const more = document.getElementById("clients-more");
  more.hidden = kept.length === shown.length && (kept.length > 0 || clients.length === 0);
  put("clients-more", kept.length ? `${format.count(kept.length - shown.length)} more: find them by name.` : "No client fits.");
}

function compare(isAccuracy) {
  const sign = order.down ? -1 : 1;
  const key = (client) => {
    if (order.by !== "score") return client[order.by] ?? -Infinity;
    const score = scoreOf(client, isAccuracy);
    return score ?? -Infinity;
  };
  return (one, other) => sign * (key(one) - key(other)) || one.number - other.number;
}

function scoreOf(client, isAccuracy) {
  if (!client.samples) return null;
  const error = client.error / client.samples;
  return isAccuracy ? 1 - error : error;
}

function lineOf(name) {
  if (lines.has(name)) return lines.get(name);
  const line = document.createElement("tr");
  const head = document.createElement("th");
  head.scope = "row";
  head.textContent = head.title = name;
  line.append(head);
  for (let column = 1; column < 7; column++) {
    const cell = line.insertCell();
    if (column > 1) cell.className = "number";
  }
  line.cells[1].append(document.createElement("span"));
  lines.set(name, line);
  return line;
}

function fill(line, client, now, isAccuracy) {
  const mark = line.cells[1].firstElementChild;
  write(mark, client.quarantined ? "quarantined" : client.present ? "present" : "absent");
  mark.className = `mark ${client.present && !client.quarantined ? "yes" : "no"}`;
  const score = scoreOf(client, isAccuracy);
  write(line.cells[2], format.ago(client.last_seen, now));
  write(line.cells[3], format.count(client.sent));
  write(line.cells[4], format.count(client.rejected));
  write(line.cells[5], format.count(client.clipped));
  write(line.cells[6], isAccuracy ? format.percent(score) : format.number(score));
  line.cells[4].classList.toggle("noticed", client.rejected > 0);
  line.cells[5].classList.toggle("noticed", client.clipped > 0);
  line.cells[6].classList.toggle("noticed", client.odd);
  line.cells[6].title = client.odd ? "What this client says of its predictions is out of line." : "";
}

function put(id, text) {
  write(document.getElementById(id), text);
}

function write(node, text) {
  if (node.textContent !== text) node.textContent = text;
}
