// Tables sorted by a click or a key on a column's button: up, down, as reported. Unknown figures stay last.
const words = new Intl.Collator("en", { numeric: true });
const sortedTables = new Map();

// Rows in their reported order, each with the rows of details that belong to it.
function rowGroups(body) {
  const groups = [];
  for (const row of body.rows) {
    if (row.classList.contains("detail") && groups.length) groups[groups.length - 1].push(row);
    else groups.push([row]);
  }
  return groups;
}

// Columns are counted through both rows of a head with column groups: names first, then the grouped columns.
function columnHeads(table) {
  return [...table.tHead.querySelectorAll("th[aria-sort]")];
}

function keyOf(group, column, numeric) {
  const cell = group[0].cells[column];
  const text = "sort" in cell.dataset ? cell.dataset.sort : cell.textContent.trim();
  if (!numeric) return text === "–" ? "" : text;
  const number = text === "" ? NaN : Number(text);
  return Number.isNaN(number) ? "" : number;
}

function inOrder(groups, column, numeric, direction) {
  const keyed = groups.map((group, index) => ({ group: group, index: index, key: keyOf(group, column, numeric) }));
  keyed.sort((one, other) => {
    if ((one.key === "") !== (other.key === "")) return one.key === "" ? 1 : -1;
    const order = numeric ? one.key - other.key : words.compare(one.key, other.key);
    return direction * order || one.index - other.index;
  });
  return keyed.map((item) => item.group);
}

function place(state) {
  let groups = state.groups;
  if (state.head) groups = inOrder(groups, state.column, state.numeric, state.direction);
  else if (state.worstFirst !== null) groups = inOrder(groups, state.worstFirst, true, 1);
  state.body.append(...groups.flat());
}

function sortBy(state, head) {
  if (state.head !== head) {
    if (state.head) state.head.setAttribute("aria-sort", "none");
    Object.assign(state, { head: head, direction: 1 });
  } else if (state.direction === 1) {
    state.direction = -1;
  } else {
    head.setAttribute("aria-sort", "none");
    state.head = null;
  }
  if (state.head) {
    const button = head.querySelector("button");
    state.column = Number(head.dataset.column);
    state.numeric = button.dataset.numeric === "yes";
    head.setAttribute("aria-sort", state.direction === 1 ? "ascending" : "descending");
  }
  place(state);
}

function makeSortable(table) {
  const heads = columnHeads(table);
  if (!heads.length || !table.tBodies.length) return;
  const single = table.tHead.rows.length === 1;
  heads.forEach((head, index) => (head.dataset.column = single ? head.cellIndex : index));
  const state = { body: table.tBodies[0], groups: rowGroups(table.tBodies[0]), head: null, worstFirst: null };
  for (const head of heads) head.querySelector("button").addEventListener("click", () => sortBy(state, head));
  sortedTables.set(table, state);
}

for (const table of document.querySelectorAll("main table")) if (table.tHead) makeSortable(table);
