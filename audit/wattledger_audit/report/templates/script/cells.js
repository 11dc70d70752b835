// Cells whose figures the switches change: written as figures.html.j2 writes them.
const report = JSON.parse(document.getElementById("report-data").textContent);
const page = JSON.parse(document.getElementById("page-data").textContent);

function element(name, className, text) {
  const made = document.createElement(name);
  if (className) made.className = className;
  if (text) made.textContent = text;
  return made;
}

function figureText(value, kind) {
  if (kind === "ratio") return percent(value);
  return shown(value, kind === "price" ? page.price_places : 2);
}

function writeNumber(cell, value, reason) {
  cell.replaceChildren(figureText(value, cell.dataset.kind));
  cell.classList.toggle("none", value === null);
  cell.classList.toggle("neg", value !== null && value.startsWith("-"));
  cell.dataset.sort = value === null ? "" : value;
  cell.title = value === null ? reason : value;
  if (value === null && reason) {
    const seen = "seen" in cell.dataset;
    cell.append(element(seen ? "small" : "span", seen ? "why" : "vh", (seen ? "" : " ") + reason));
  }
}

function writeVerdict(cell, verdict, reason) {
  const [name, sign, rank] = page.marks[verdict] || ["none", "–", 5];
  const badge = element("span", "badge v-" + name);
  const mark = element("span", "mark", sign);
  mark.setAttribute("aria-hidden", "true");
  badge.append(mark, " ", element("span", "", verdict));
  cell.replaceChildren(badge);
  cell.dataset.sort = String(rank);
  if (reason) cell.append(element("small", "why", reason));
}

function writeCell(cell, figures) {
  const name = cell.dataset.figure;
  if (name === "verdict") writeVerdict(cell, figures.verdict, figures.reason);
  else if (cell.dataset.kind === "text") cell.textContent = figures[name] || "–";
  else writeNumber(cell, figures[name], figures.reasons[name] || "");
}
