// The planner: a budget on a logarithmic slider, the plan from the server.

import * as format from "./format.js";

const slider = document.getElementById("budget");
const PAUSE = 120; // milliseconds without a move before the server is asked
let asked = 0;
let timer = null;
let size = "";

slider.addEventListener("input", () => {
  showBudget();
  clearTimeout(timer);
  timer = setTimeout(() => ask(true), PAUSE);
});

// Ask again when the federation became another one: its model or its number of clients changed.
export function planFor(state) {
  const { dim, budget } = state.parameters;
  const now = `${dim} ${state.clients.size}`;
  if (now === size) return;
  if (size === "" && budget > 0 && budget <= 1) slider.value = Math.log10(budget);
  size = now;
  const parts = [];
  if (dim) parts.push(`${format.count(dim)} parameters`);
  if (state.clients.size) parts.push(`${format.count(state.clients.size)} clients`);
  document.getElementById("planner-size").textContent = parts.join(" and ") || "this federation";
  showBudget();
  ask(false);
}

function budgetNow() {
  return Number((10 ** Number(slider.value)).toPrecision(2));
}

function showBudget() {
  const text = `${format.budgetShare(budgetNow())} of FedOGD\u2019s bits`;
  document.getElementById("budget-text").textContent = text;
  slider.setAttribute("aria-valuetext", text);
}

async function ask(aloud) {
  const number = ++asked;
  const answer = await fetch(`plan.json?budget=${budgetNow()}`).then((one) => one.json()).catch(() => null);
  if (answer === null || number !== asked) return; // the server is away, or a later question is on its way
  const plan = answer.error ? {} : answer;
  put("plan-levels", format.count(plan.levels));
  put("plan-blocks", format.count(plan.blocks));
  put("plan-rate", format.number(plan.rate));
  put("plan-alpha", format.number(plan.regret_constant, 4));
  put("plan-note", answer.error ?? [cost(plan), ...plan.notes].join(" "));
  if (aloud && !answer.error) {
    const [levels, blocks] = [plan.levels, plan.blocks].map(format.count);
    const [rate, alpha] = [format.number(plan.rate), format.number(plan.regret_constant, 4)];
    put("plan-status", `Levels ${levels}, blocks ${blocks}, rate ${rate}, regret constant ${alpha}.`);
  }
}

function cost(plan) {
  const senders = format.number(plan.rate * plan.clients);
  return (
    `On average ${senders} of ${format.count(plan.clients)} clients send per step, ` +
    `${format.bits(plan.bits_per_message)} each. OFedAvg\u2019s \u03b1 at this budget is ${format.number(plan.ofedavg_constant, 4)}.`
  );
}

function put(id, text) {
  document.getElementById(id).textContent = text;
}
