// Carbon as stacked bars: one for each hour, a colour for each place.

import { byId, el, fill, setText } from "./dom.js";
import { grams, joules } from "./format.js";

const SVG = "http://www.w3.org/2000/svg";
const HOURS = 72; // that are shown

export function drawCarbon(carbon, now) {
  const places = Object.entries(carbon.places);
  byId("carbon-card").hidden = !places.length;
  if (!places.length) return;
  const first = Math.max(0, carbon.hours.length - HOURS);
  const hours = carbon.hours.slice(first);
  const sums = hours.map((_, at) => places.reduce((sum, [, row]) => sum + row[first + at], 0));
  const top = Math.max(...sums);
  const width = 100 / Math.max(hours.length, 12);
  const chart = document.createElementNS(SVG, "svg");
  chart.setAttribute("viewBox", "0 0 100 30");
  chart.setAttribute("preserveAspectRatio", "none");
  hours.forEach((hour, at) => {
    let base = 30;
    places.forEach(([place, row], index) => {
      const height = top ? (29 * row[first + at]) / top : 0;
      base -= height;
      const bar = document.createElementNS(SVG, "rect");
      for (const [key, value] of Object.entries({ x: at * width + width * 0.08, y: base, width: width * 0.84, height })) bar.setAttribute(key, value);
      bar.setAttribute("class", `place-${index}`);
      const title = document.createElementNS(SVG, "title");
      title.textContent = `${new Date(hour * 1000).toLocaleString("en-GB")}, ${place}: ${grams(row[first + at])}`;
      bar.append(title);
      chart.append(bar);
    });
  });
  byId("carbon").replaceChildren(chart);
  fill("carbon-legend", places.map(([place, row], index) =>
    el("li", {}, el("span", { name: `swatch place-${index}` }), `${place} ${grams(row.reduce((sum, each) => sum + each, 0))}`)));
  setText("carbon-note", `${grams(Math.max(...sums))} in the highest hour; all visits ${grams(now?.costs.carbon_g)}, ${joules(now?.costs.energy_j)}, at most`);
}
