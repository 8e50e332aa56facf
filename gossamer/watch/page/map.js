// The world with its night, our sites, and what flows between them. The libraries are loaded when there is a map to draw.

import { size } from "./format.js";

const SVG = "http://www.w3.org/2000/svg";
const WIDTH = 960, HEIGHT = 490;
const BEND = 3.5; // degrees
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
      map.append(arc(flow, at, path, geoInterpolate, 1 + 3 * Math.sqrt(flow.bytes / most)));
    }
    for (const site of placed) map.append(...mark(site, projection(at.get(site.site))));
    this.place.replaceChildren(map);
    this.place.setAttribute("aria-label", `World map with ${placed.map((site) => `${site.site} (${site.state})`).join(", ")}`);
  }
}

// The shortest way over the globe, bent a little to one side: so both directions can be seen, also over the map's edge.
function arc(flow, at, path, interpolate, width) {
  const way = interpolate(at.get(flow.from), at.get(flow.to));
  const [start, end] = [way(0.45), way(0.55)];
  const [dx, dy] = [((end[0] - start[0] + 540) % 360) - 180, end[1] - start[1]];
  const far = Math.hypot(dx, dy) || 1;
  const coordinates = Array.from({ length: 49 }, (_, step) => {
    const [longitude, latitude] = way(step / 48);
    const aside = BEND * Math.sin((Math.PI * step) / 48);
    return [longitude - (aside * dy) / far, Math.max(-89, Math.min(89, latitude + (aside * dx) / far))];
  });
  const line = node("path", { d: path({ type: "LineString", coordinates }), class: "flow", "stroke-width": width });
  const title = node("title");
  title.textContent = `${flow.from} to ${flow.to}: ${size(flow.bytes)}`;
  line.append(title);
  return line;
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
