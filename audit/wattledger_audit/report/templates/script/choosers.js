// One tenant's walk at a time, and two rows of joules per token side by side.
const walkTenant = document.getElementById("walk-tenant");
const compare = document.getElementById("compare");

function showWalk() {
  for (const walk of document.querySelectorAll("[data-walk]")) {
    walk.classList.toggle("chosen", walk.dataset.walk === walkTenant.value);
  }
}

function showComparison() {
  const first = report.tokens[document.getElementById("compare-a").value];
  const second = report.tokens[document.getElementById("compare-b").value];
  for (const row of compare.querySelectorAll("[data-compare]")) {
    const name = row.dataset.compare;
    const ratio = quotient(first[name], second[name]);
    const texts = [shown(first[name], 2), shown(second[name], 2), ratio === null ? "–" : ratio + " ×"];
    texts.forEach((text, index) => (row.cells[index + 1].textContent = text));
    row.cells[1].title = first[name] === null ? "not known" : first[name];
    row.cells[2].title = second[name] === null ? "not known" : second[name];
  }
}

if (walkTenant) {
  document.documentElement.classList.add("choosing");
  walkTenant.closest(".chooser").hidden = false;
  walkTenant.addEventListener("change", showWalk);
  showWalk();
}
if (compare) {
  compare.hidden = false;
  compare.addEventListener("change", showComparison);
  compare.addEventListener("submit", (event) => event.preventDefault());
  showComparison();
}
