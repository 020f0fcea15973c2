"use strict";

const collator = new Intl.Collator(undefined, { numeric: true });

function sortKey(cell) {
  const number = cell.dataset.value;
  return number === undefined ? cell.textContent : Number(number);
}

function compare(left, right) {
  const numbers = typeof left === "number" && typeof right === "number";
  return numbers ? left - right : collator.compare(String(left), String(right));
}

// Missing values stay at the end whichever way the column is sorted.
function sortRows(table, column, ascending) {
  const body = table.tBodies[0];
  const rows = Array.from(body.rows, (row) => ({ row, cell: row.cells[column] }));
  rows.sort((a, b) => {
    const missing = a.cell.classList.contains("missing") - b.cell.classList.contains("missing");
    if (missing !== 0) return missing;
    const order = compare(sortKey(a.cell), sortKey(b.cell));
    return ascending ? order : -order;
  });
  body.append(...rows.map(({ row }) => row));
}

function onSort(button) {
  const header = button.closest("th");
  const table = button.closest("table");
  const ascending = header.getAttribute("aria-sort") !== "ascending";
  for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
  header.setAttribute("aria-sort", ascending ? "ascending" : "descending");
  sortRows(table, header.cellIndex, ascending);
}

function onSearch(input) {
  const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
  const table = document.getElementById(input.dataset.table);
  let shown = 0;
  for (const row of table.tBodies[0].rows) {
    const text = row.textContent.toLowerCase();
    row.hidden = !words.every((word) => text.includes(word));
    shown += row.hidden ? 0 : 1;
  }
  input.parentElement.querySelector("output").textContent =
    `${shown} of ${table.tBodies[0].rows.length} rows`;
}

function embedded(id) {
  const element = document.getElementById(id);
  return element === null ? null : JSON.parse(element.textContent);
}

const explanations = embedded("explanations");

function explain(key) {
  const lines = explanations === null ? undefined : explanations.texts[key];
  if (lines === undefined) return;
  const dialog = document.getElementById("explanation");
  dialog.querySelector("pre").textContent = lines.map((line) => explanations.lines[line]).join("\n");
  if (!dialog.open) dialog.showModal();
}

function explainAddress() {
  const prefix = "#explain:";
  if (location.hash.startsWith(prefix)) explain(decodeURIComponent(location.hash.slice(prefix.length)));
}

for (const button of document.querySelectorAll("th button")) {
  button.addEventListener("click", () => onSort(button));
}
for (const input of document.querySelectorAll("input[type=search]")) {
  input.addEventListener("input", () => onSearch(input));
}
for (const box of document.querySelectorAll("input[data-all-columns]")) {
  const table = document.getElementById(box.dataset.allColumns);
  box.addEventListener("change", () => table.classList.toggle("all-columns", box.checked));
}
for (const button of document.querySelectorAll("button[data-save]")) {
  button.addEventListener("click", () => {
    const text = document.getElementById(button.dataset.save).textContent;
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([text], { type: "application/json" }));
    link.download = `${button.dataset.save}.json`;
    link.click();
  });
}
const explanation = document.getElementById("explanation");
if (explanation !== null) {
  // The address goes back to the page itself, so that the same number can be asked for again.
  explanation.addEventListener("close", () => history.replaceState(null, "", location.pathname + location.search));
}
window.addEventListener("hashchange", explainAddress);
explainAddress();
