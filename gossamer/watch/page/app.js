// The page: it listens to /events, and draws the parts that changed.

import { byId, el, fill, prose, setText, table } from "./dom.js";
import { drawCarbon } from "./carbon.js";
import { Charts } from "./charts.js";
import { ago, clock, count, grams, moment, rate, seconds, share, size, span, until, words } from "./format.js";
import { SiteMap } from "./map.js";
import { startQueries } from "./sql.js";

const STATES = {
  running: "crawling", waiting: "waiting", starting: "starting", ended: "finished", stopped: "stopped", empty: "nothing committed yet",
};
const state = {};
let charts, map;

const DRAW = {
  now: drawNow,
  problems: drawProblems,
  outcomes: drawOutcomes,
  refused: drawRefused,
  hosts: drawHosts,
  agents: drawAgents,
  sites: drawSites,
  carbon: (carbon) => drawCarbon(carbon, state.now),
  pages: drawPages,
  series: (series) => charts.replace(series),
  tail: (tail) => charts.append(tail),
};

function draw(parts) {
  Object.assign(state, parts);
  for (const [name, part] of Object.entries(parts)) DRAW[name]?.(part);
  document.documentElement.dataset.ready = "true";
}

function figure(label, value, note, key, raw) {
  return el("div", {}, el("dt", { text: label }), el("dd", {}, el("strong", { text: value, "data-figure": key, "data-value": raw ?? "" }), el("small", { text: note })));
}

function drawNow(now) {
  document.title = `${count(now.visits)} pages · ${shortName(now.name)} · Gossamer`;
  setText("name", shortName(now.name));
  byId("name").title = now.name;
  byId("state").dataset.state = now.state;
  const waits = now.state === "waiting" ? ` until ${(now.waits_until_s - Date.now() / 1000 < 43200 ? clock : moment)(now.waits_until_s)}` : "";
  setText("state-word", (STATES[now.state] ?? now.state) + waits);
  drawSince();
  const counted = (rows) => rows.reduce((sum, row) => sum + row.visits, 0);
  const bad = counted((state.outcomes ?? []).filter((row) => row.is_trouble)), tries = counted(state.outcomes ?? []);
  const shown = [
    now.rate.now == null
      ? figure("pages per second", rate(now.rate.mean), "on average, while it ran", "rate", now.rate.mean)
      : figure("pages per second", rate(now.rate.now), `${rate(now.rate.mean)} on average`, "rate", now.rate.mean),
    figure("visits", count(now.visits), `in ${count(now.rounds)} rounds`, "visits", now.visits),
    figure("frontier", count(now.frontier), now.due_hosts == null ? "pages not yet visited" : `${count(now.due_hosts)} hosts are due`, "frontier", now.frontier),
    figure("known pages", count(now.known), `of ${count(now.hosts)} hosts`, "known", now.known),
    figure("received", size(now.wire_bytes), `${span(now.busy_s)} at work`, "wire_bytes", now.wire_bytes),
    figure("trouble", share(bad, tries), `${count(bad)} of ${count(tries)} tries`, "errors", bad),
  ];
  if (now.costs.carbon_g) shown.push(figure("carbon", grams(now.costs.carbon_g), `at most; ${grams(now.costs.carbon_low_g)} at least`, "carbon_g", now.costs.carbon_g));
  fill("figures", shown);
}

function drawSince() {
  const now = state.now;
  if (now) setText("since", now.last_commit_s ? `committed ${ago(now.last_commit_s)}` : "");
}

const shortName = (name) => name.replace(/\/+$/, "").split("/").pop() || name;

function drawProblems(problems) {
  byId("notices").hidden = !problems.length;
  fill("problems", problems.map((problem) =>
    el("li", { name: problem.is_failure ? "failure" : "" }, el("strong", { text: problem.what }), el("span", {}, " ", ...prose(problem.do)))));
}

function drawOutcomes(rows) {
  const all = rows.reduce((sum, row) => sum + row.visits, 0);
  const most = Math.max(1, ...rows.map((row) => row.visits));
  fill("outcomes", rows.length ? rows.map((row) => {
    const bar = el("span", { name: "bar", "aria-hidden": "true" });
    bar.style.width = `${(100 * row.visits) / most}%`;
    return el("li", { name: row.is_trouble ? "bad" : row.outcome === "ok" ? "good" : "" },
      el("span", { text: words(row.outcome), name: "label" }),
      el("span", { text: count(row.visits), name: "number", "data-outcome": row.outcome, "data-value": row.visits }),
      el("span", { text: share(row.visits, all), name: "number quiet" }),
      el("span", { name: "track", "aria-hidden": "true" }, bar));
  }) : [el("li", { text: "No page has been visited yet.", name: "empty" })]);
  const bad = rows.filter((row) => row.is_trouble);
  fill("trouble", bad.length ? bad.map((row) => el("li", {},
    el("p", {}, el("strong", { text: words(row.outcome) }), el("span", { text: count(row.visits), name: "number" })),
    el("p", {}, ...prose(row.advice)),
    ...row.reasons.filter((each) => each.reason || each.url).slice(0, 2).map((each) =>
      el("p", { name: "quiet cut", title: each.url }, `${each.reason || "no reason given"}${each.times > 1 ? ` (${count(each.times)})` : ""}: ${each.url}`)),
  )) : [el("li", { text: "No visit was in trouble.", name: "empty" })]);
  if (state.now) drawNow(state.now);
}

function drawRefused(rows) {
  fill("refused", rows.length ? rows.map((row) => el("li", {},
    el("p", {}, el("strong", { text: row.setting }), el("span", { text: count(row.links), name: "number" })),
    el("p", { text: row.remedy }))) : [el("li", { text: "No setting kept a link from being followed.", name: "empty" })]);
}

function drawHosts(hosts) {
  const name = ["host", (row) => row.host, "host"];
  table("slowest", [name, ["answers in", (row) => seconds(row.mean_s), "number"], ["visits", (row) => count(row.visits), "number"]],
    hosts.slowest, "No host has answered often enough to tell.");
  table("biggest", [name, ["bytes", (row) => size(row.bytes), "number"], ["visits", (row) => count(row.visits), "number"]],
    hosts.biggest, "No host has sent anything yet.");
  table("resting", [name, ["for", (row) => until(row.until_s), "number"], ["failures", (row) => count(row.failures), "number"]],
    hosts.resting, "Nothing is resting.");
  setText("resting-note", hosts.resting_in_all > hosts.resting.length ? `${count(hosts.resting_in_all)} in all, the soonest first` : "");
}

function drawAgents(agents) {
  const has = (key) => agents.some((row) => row[key] != null && row[key] !== 0);
  const columns = [
    ["agent", (row) => row.agent], ["state", (row) => el("span", { text: row.state, name: `word ${row.state}` })],
    ["pages/s", (row) => rate(row.pages_per_s), "number"],
    ["received/s", (row) => size(row.bytes_per_s), "number"],
    ["CPU", (row) => (row.cpu == null ? "–" : `${Math.round(100 * row.cpu)} %`), "number"],
    ["memory", (row) => size(row.memory_bytes), "number"],
    ["visits", (row) => count(row.visits), "number"], ["frontier", (row) => count(row.frontier), "number"],
    ["zones", (row) => count(row.zones), "number"],
  ];
  if (has("connections")) columns.push(["connections", (row) => count(row.connections), "number"]);
  if (has("active_hosts")) columns.push(["hosts at work", (row) => count(row.active_hosts), "number"]);
  if (has("due_hosts")) columns.push(["hosts due", (row) => count(row.due_hosts), "number"]);
  if (has("backlog_bytes")) columns.push(["unsent", (row) => size(row.backlog_bytes), "number"]);
  columns.push(["committed", (row) => clock(row.committed_s), "number"]);
  if (agents.some((row) => row.site)) columns.splice(1, 0, ["site", (row) => row.site]);
  table("agents", columns, agents, "No agent has begun.", (row) => (row.state === "ended" ? "dim" : ""));
  const running = agents.filter((row) => row.process || !["ended", "stopped"].includes(row.state)).length;
  setText("agents-note", agents.length ? `${running} running, ${agents.length} in all` : "");
}

function drawSites({ sites, flows }) {
  byId("map-card").hidden = !sites.length;
  if (!sites.length) return;
  table("sites", [
    ["site", (row) => row.site], ["state", (row) => el("span", { text: row.state, name: `word ${row.state}` })], ["agents", (row) => count(row.agents), "number"],
    ["pages/s", (row) => rate(row.pages_per_s), "number"], ["visits", (row) => count(row.visits), "number"],
    ["frontier", (row) => count(row.frontier), "number"],
  ], sites, "");
  table("flows", [
    ["from", (row) => row.from], ["to", (row) => row.to], ["links", (row) => count(row.links ?? 0), "number"], ["bytes", (row) => size(row.bytes ?? 0), "number"],
  ], flows, "Nothing has crossed between sites yet.");
  const crossed = flows.reduce((sum, flow) => sum + (flow.bytes ?? 0), 0);
  const stayed = sites.reduce((sum, site) => sum + (site.wire_bytes ?? 0), 0);
  setText("map-note", stayed ? `${size(crossed)} crossed between sites; the ${size(stayed)} of pages stayed where they were fetched` : "");
  map ??= new SiteMap(byId("map"));
  map.draw(sites, flows);
}

function drawPages(pages) {
  const shown = pages.slice(0, 16);
  const pictured = shown.some((page) => page.image);
  fill("pages", shown.length ? shown.map((page) => el("li", { name: pictured ? "pictured" : "" },
    pictured ? picture(page) : null,
    el("time", { text: clock(page.time_s), datetime: new Date(page.time_s * 1000).toISOString() }),
    el("span", { text: page.outcome === "ok" ? "ok" : words(page.outcome), name: `word ${page.outcome}` }),
    el("span", { text: page.title || "untitled", name: page.title ? "title cut" : "title cut quiet", title: page.title, dir: "auto" }),
    el("span", { text: page.url, name: "url cut quiet", title: page.url }),
    el("span", { text: size(page.bytes), name: "number quiet" }),
  )) : [el("li", { text: "No page has been visited yet.", name: "empty" })]);
}

// An image that the crawl has stored. The address is ours; its alternative text would only repeat the title.
function picture(page) {
  if (!page.image) return el("span", { name: "picture" });
  return el("img", { name: "picture", src: `images/${page.image}`, alt: "", loading: "lazy", decoding: "async", referrerpolicy: "no-referrer" });
}

function connect() {
  const source = new EventSource("events");
  source.addEventListener("state", (event) => draw(JSON.parse(event.data)));
  source.addEventListener("change", (event) => draw(JSON.parse(event.data)));
  source.addEventListener("open", () => delete byId("state").dataset.lost);
  source.addEventListener("error", () => {
    byId("state").dataset.lost = "true";
    setText("state-word", "gossamer watch does not answer");
    setText("since", state.now ? `figures of ${moment(state.now.last_commit_s)}` : "");
  });
}

function startTheme() {
  const order = ["auto", "light", "dark"];
  const button = byId("theme");
  const show = () => setText(button, `Theme: ${document.documentElement.dataset.theme ?? "auto"}`);
  button.addEventListener("click", () => {
    const next = order[(order.indexOf(document.documentElement.dataset.theme ?? "auto") + 1) % order.length];
    if (next === "auto") delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = next;
    try { localStorage.setItem("theme", next); } catch { /* it holds for this visit */ }
    show();
    charts.restyle();
    if (state.sites) drawSites(state.sites);
    if (state.carbon) drawCarbon(state.carbon, state.now);
  });
  show();
}

charts = new Charts(byId("chart-pages"), byId("chart-bytes"), (text) => setText("chart-note", text), () => state.now?.is_partial);
startTheme();
startQueries();
connect();
setInterval(() => {
  drawSince();
  if (state.hosts?.resting.length) drawHosts(state.hosts);
}, 5000);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => charts.restyle());
