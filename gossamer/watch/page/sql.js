// The box for SQL. Answers are text, in a table.

import { byId, setText, table } from "./dom.js";

const EXAMPLES = {
  "pages by status": "SELECT status, count(*) AS pages, count(DISTINCT host) AS hosts\nFROM pages GROUP BY status ORDER BY pages DESC",
  "a word in titles": "SELECT url, title FROM pages\nWHERE title ILIKE '%river%' ORDER BY url LIMIT 50",
  "the most linked pages": "SELECT url, hits FROM targets ORDER BY hits DESC, url LIMIT 20",
  "languages": "SELECT language, count(*) AS pages FROM pages\nWHERE status = 'fetched' GROUP BY language ORDER BY pages DESC",
  "what fails, by host": "SELECT host, outcome, count(*) AS visits FROM visits\nWHERE outcome NOT IN ('ok', 'unchanged', 'moved', 'denied', 'refused_use')\nGROUP BY host, outcome ORDER BY visits DESC LIMIT 20",
  "pages per minute": "SELECT date_trunc('minute', time) AS minute, count(*) AS pages\nFROM visits WHERE NOT is_robots GROUP BY minute ORDER BY minute",
};

export function startQueries() {
  const choice = byId("examples"), box = byId("sql"), form = byId("sql-form");
  choice.append(...Object.keys(EXAMPLES).map((name) => new Option(name, name)));
  choice.addEventListener("change", () => { box.value = EXAMPLES[choice.value]; box.focus(); });
  box.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) form.requestSubmit();
  });
  form.addEventListener("submit", (event) => { event.preventDefault(); run(box.value); });
}

async function run(sql) {
  setText("sql-note", "running …");
  try {
    const answer = await fetch("api/query", { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify({ sql }) });
    if (!answer.ok) { setText("sql-note", (await answer.text()).trim()); return; }
    show(await answer.json());
  } catch {
    setText("sql-note", "gossamer watch does not answer");
  }
}

function show(found) {
  byId("sql-region").hidden = Boolean(found.error);
  setText("sql-note", found.error ?? `${found.rows.length}${found.more ? " rows; there are more" : found.rows.length === 1 ? " row" : " rows"}`);
  if (found.error) return;
  const isNumber = (at) => found.rows.every((row) => /^-?[\d.,e+]*$/.test(row[at]));
  table("sql-result", found.columns.map((name, at) => [name, (row) => row[at], isNumber(at) ? "number" : "text"]), found.rows, "No row.");
}
