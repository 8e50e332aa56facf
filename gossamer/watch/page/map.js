// The world with its night, our sites, and what flows between them. The libraries are loaded when there is a map to draw.

import { size } from "./format.js";

const SVG = "http://www.w3.org/2000/svg";
const WIDTH = 960, HEIGHT = 470;
const FILES = ["vendor/d3-array.js", "vendor/d3-geo.js", "vendor/topojson-client.js"];

export class SiteMap {
  constructor(place) {
    this.place = place;
    this.ready = null;
  }

  async draw(sites, flows) {
    const placed = sites.filter((site) => site.latitude != null);
    this.place.hidden = !placed.length;
    if (!placed.length) return;
    this.ready ??= load();
    const land = await this.ready;
    const { geoNaturalEarth1, geoPath, geoGraticule10, geoCircle, geoInterpolate } = window.d3;
    const projection = geoNaturalEarth1().fitExtent([[4, 4], [WIDTH - 4, HEIGHT - 4]], { type: "Sphere" });
    const path = geoPath(projection);
    const map = node("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}` });
    map.append(node("path", { d: path({ type: "Sphere" }), class: "sea" }), node("path", { d: path(geoGraticule10()), class: "graticule" }));
    map.append(node("path", { d: path(land), class: "land" }));
    const night = geoCircle().radius(90).center(antipode(sun(new Date())))();
    map.append(node("path", { d: path(night), class: "night" }));
    const at = new Map(placed.map((site) => [site.site, [site.longitude, site.latitude]]));
    const most = Math.max(1, ...flows.map((flow) => flow.bytes ?? 0));
    for (const flow of flows) {
      if (!at.has(flow.from) || !at.has(flow.to) || !flow.bytes) continue;
      map.append(arc(flow, at, projection, geoInterpolate, 1 + 3 * Math.sqrt(flow.bytes / most)));
    }
    for (const site of placed) map.append(...mark(site, projection(at.get(site.site))));
    this.place.replaceChildren(map);
    this.place.setAttribute("aria-label", `World map with ${placed.map((site) => `${site.site} (${site.state})`).join(", ")}`);
  }
}

// Each direction bends to its own side, so that both can be seen.
function arc(flow, at, projection, interpolate, width) {
  const way = interpolate(at.get(flow.from), at.get(flow.to));
  const [start, middle, end] = [0, 0.5, 1].map((part) => projection(way(part)));
  const [dx, dy] = [end[0] - start[0], end[1] - start[1]];
  const far = Math.hypot(dx, dy) || 1;
  const bend = Math.min(42, far * 0.12);
  const by = [2 * middle[0] - (start[0] + end[0]) / 2 - (dy / far) * bend, 2 * middle[1] - (start[1] + end[1]) / 2 + (dx / far) * bend];
  // A way over the edge of the map would cross all of it: such a flow is drawn as a short ray out of both sites.
  const d = Math.abs(dx) > WIDTH * 0.55 ? rays(start, end) : `M${start}Q${by} ${end}`;
  const line = node("path", { d, class: "flow", "stroke-width": width });
  const title = node("title");
  title.textContent = `${flow.from} to ${flow.to}: ${size(flow.bytes)}`;
  line.append(title);
  return line;
}

function rays(start, end) {
  const side = start[0] < end[0] ? -1 : 1;
  return `M${start}q${side * 30},-14 ${side * 60},-16M${end}q${-side * 30},-14 ${-side * 60},-16`;
}

function mark(site, [x, y]) {
  const dot = node("circle", { cx: x, cy: y, r: 5.5, class: `site ${site.state.replace(" ", "-")}` });
  const name = node("text", { x: x + 9, y: y + 4.5, class: "site-name" });
  name.textContent = site.site;
  return [dot, name];
}

function node(tag, attributes = {}) {
  const made = document.createElementNS(SVG, tag);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  return made;
}

async function load() {
  for (const file of FILES) await script(file);
  const atlas = await (await fetch("vendor/land-110m.json")).json();
  return window.topojson.feature(atlas, atlas.objects.land);
}

function script(file) {
  return new Promise((resolve, reject) => {
    const made = document.createElement("script");
    made.src = file;
    made.onload = resolve;
    made.onerror = reject;
    document.head.append(made);
  });
}

// Where the sun is overhead: the declination and the equation of time, to about half a degree.
export function sun(time) {
  const day = (time - Date.UTC(time.getUTCFullYear(), 0, 0)) / 864e5;
  const angle = (2 * Math.PI * (day - 81)) / 365.25;
  const declination = 23.44 * Math.sin(angle);
  const equation = 9.87 * Math.sin(2 * angle) - 7.53 * Math.cos(angle) - 1.5 * Math.sin(angle); // minutes
  const minutes = time.getUTCHours() * 60 + time.getUTCMinutes();
  return [-(minutes - 720 + equation) / 4, declination];
}

const antipode = ([longitude, latitude]) => [longitude + 180, -latitude];
