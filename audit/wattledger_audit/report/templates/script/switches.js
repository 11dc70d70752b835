// The switch between energy only and true cost, and the choice of idle policy: figures change in place.
// The page comes with the report's own choice written; the form does not remember another one (autocomplete is off).
const switches = document.getElementById("switches");

function energyFigures(rows, index) {
  const found = page.energy_only[rows][index];
  const unknown = report[rows][index].cost_energy === null ? "energy is not known" : "nothing billed was found for it";
  return {
    ...found,
    idle_share: null,
    verdict: page.not_a_verdict,
    reason: "",
    break_even_per_gpu_hour: null,
    suggested_price_per_gpu_hour: null,
    action: "",
    below_cost: false,
    reasons: {
      cost_total: unknown,
      margin: unknown,
      margin_ratio: unknown,
      idle_share: "energy only: no idle in it",
      break_even_per_gpu_hour: page.not_a_price,
      suggested_price_per_gpu_hour: page.not_a_price,
    },
  };
}

function costFigures(rows, index, policy) {
  const row = report[rows][index];
  const found = row.by_policy[policy] || (policy === report.idle_policy ? row : null);
  if (!found) return missingFigures();
  return {
    ...found,
    reasons: {
      cost_total: "no cost is known for it",
      idle_share: "no cost is known for it",
      margin: "nothing billed was found for it",
      margin_ratio: "nothing billed was found for it",
      break_even_per_gpu_hour: found.break_even_reason,
      suggested_price_per_gpu_hour: found.suggested_price_reason,
    },
  };
}

function missingFigures() {
  const names = ["cost_total", "idle_share", "margin", "margin_ratio", "break_even_per_gpu_hour", "suggested_price_per_gpu_hour"];
  const reason = "no figures under this idle policy";
  return {
    ...Object.fromEntries(names.map((name) => [name, null])),
    verdict: "insufficient data",
    reason: reason,
    action: "",
    below_cost: false,
    reasons: Object.fromEntries(names.map((name) => [name, reason])),
  };
}

function chosen() {
  const energy = switches.querySelector("input[value=energy]");
  const policy = document.getElementById("idle-policy");
  return { energy: Boolean(energy && energy.checked), policy: policy.value, label: policy.selectedOptions[0].text };
}

function writeRows(choice) {
  for (const row of document.querySelectorAll("tr[data-rows]")) {
    const { rows, index } = row.dataset;
    const figures = choice.energy ? energyFigures(rows, index) : costFigures(rows, index, choice.policy);
    for (const cell of row.querySelectorAll("[data-figure]")) writeCell(cell, figures);
    if ("list" in row.dataset) {
      const reported = choice.policy === report.idle_policy;
      row.hidden = choice.energy || !(reported ? "listed" in row.dataset : figures.below_cost);
    }
  }
}

function writeList(choice) {
  const table = document.getElementById("repricing-table");
  const listed = table ? table.querySelectorAll("tr[data-list]:not([hidden])").length : 0;
  if (table) table.closest(".box").hidden = listed === 0;
  document.getElementById("repricing-energy").hidden = !choice.energy;
  document.getElementById("repricing-none").hidden = choice.energy || listed > 0;
}

// Worst first holds under every choice; the reported order is kept for the report's own.
function orderTables(choice) {
  const own = !choice.energy && choice.policy === report.idle_policy;
  for (const [table, state] of sortedTables) {
    const margin = table.querySelector("tr[data-rows] [data-figure=margin]");
    if (!margin) continue;
    state.worstFirst = own ? null : margin.cellIndex;
    place(state);
  }
}

function apply() {
  const choice = chosen();
  const own = !choice.energy && choice.policy === report.idle_policy;
  writeRows(choice);
  writeList(choice);
  orderTables(choice);
  document.getElementById("idle-policy").disabled = choice.energy;
  for (const head of document.querySelectorAll("th[data-key=cost_total] button")) {
    head.textContent = choice.energy ? "Cost, energy only" : "Cost, full floor";
  }
  const what = choice.energy ? "energy only: no compute, no pools, no idle; not a verdict" : "true cost, idle " + choice.label;
  const now = document.getElementById("shown-now");
  now.textContent = "Shown: " + what + (own ? "; as reported." : ". The verdict, the walk and the charts are as reported: idle " + report.idle_policy + ".");
  now.classList.toggle("changed", !own);
}

if (switches) {
  switches.hidden = false;
  switches.addEventListener("change", apply);
  switches.addEventListener("submit", (event) => event.preventDefault());
  switches.addEventListener("reset", () => setTimeout(apply, 0));
}
