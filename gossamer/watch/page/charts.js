// Pages and bytes over time. The series comes whole once, then its last points; points of the same time replace each other.

import { rate, size } from "./format.js";

const NAMES = ["t", "pages", "trouble", "bytes"];
const MINUTE = 60, HOUR = 3600, DAY = 86400;
const STEPS_S = [
  1, 2, 5, 10, 15, 30, MINUTE, 2 * MINUTE, 5 * MINUTE, 10 * MINUTE, 15 * MINUTE, 30 * MINUTE, HOUR, 2 * HOUR, 3 * HOUR, 6 * HOUR, 12 * HOUR,
  DAY, 2 * DAY, 7 * DAY, 14 * DAY, 30 * DAY, 90 * DAY, 365 * DAY,
];
const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const perSecond = (text) => `${text}/s`;

export class Charts {
  constructor(pages, bytes, note, isPartial) {
    this.places = { pages, bytes };
    this.note = note;
    this.isPartial = isPartial;
    this.span = "whole";
    this.series = { whole: empty(), recent: empty() };
    this.plots = {};
    for (const button of document.querySelectorAll("[data-span]")) {
      button.addEventListener("click", () => this.choose(button.dataset.span));
    }
    new ResizeObserver(() => this.resize()).observe(pages);
  }

  choose(span) {
    this.span = span;
    for (const button of document.querySelectorAll("[data-span]")) button.setAttribute("aria-pressed", String(button.dataset.span === span));
    this.draw();
  }

  replace(series) {
    this.series = series;
    this.draw();
  }

  append(tail) {
    for (const [name, last] of Object.entries(tail)) {
      const series = this.series[name];
      const first = last.t[0] ?? Infinity;
      const kept = series.t.findIndex((time) => time >= first);
      const until = kept < 0 ? series.t.length : kept;
      for (const key of NAMES) series[key] = series[key].slice(0, until).concat(last[key]);
      // A pause longer than the tail leaves a gap of time without points: nothing happened then.
      if (name === "recent") while (series.t.length > 1 && series.t[0] < series.t.at(-1) - 900) for (const key of NAMES) series[key].shift();
    }
    this.draw();
  }

  restyle() {
    for (const plot of Object.values(this.plots)) plot.destroy();
    this.plots = {};
    this.draw();
  }

  resize() {
    for (const [name, plot] of Object.entries(this.plots)) plot.setSize(measure(this.places[name]));
  }

  draw() {
    const { t, pages, trouble, bytes, width_s } = this.series[this.span];
    if (!t.length) {
      this.note("Nothing has been fetched yet.");
      return;
    }
    // The first and the last span of time are not over: their rates would be too small. A lone point is shown as it is.
    const [from, to] = t.length > 3 ? [1, t.length - 1] : [0, t.length];
    const cut = (column) => column.slice(from, to);
    this.set("pages", [cut(t), cut(pages), cut(trouble)], [["pages", "--pages", true], ["trouble", "--trouble", false]], rate);
    this.set("bytes", [cut(t), cut(bytes)], [["received", "--bytes", true]], size);
    const since = this.isPartial() ? "older visits are left out; " : "";
    this.note(`${since}each point is ${width_s === 1 ? "a second" : `${width_s} s`}, by when requests began`);
    this.places.pages.setAttribute("aria-label", `Pages per second over time: at most ${rate(Math.max(...pages))}`);
  }

  set(name, data, lines, write) {
    if (this.plots[name]) {
      this.plots[name].setData(data);
      return;
    }
    // Whole pixels: uPlot multiplies them by the screen's density, and misreads decimals.
    const axis = { stroke: colour("--muted"), grid: { stroke: colour("--line"), width: 1 }, ticks: { show: false }, font: `${Math.round(0.78 * rem())}px ${colour("--font")}` };
    const options = {
      ...measure(this.places[name]),
      padding: [null, 2.2 * rem(), null, null], // for half of the last label
      cursor: { y: false, points: { size: 6 }, sync: { key: "time" } },
      legend: { live: true },
      scales: { y: { range: (_plot, _low, high) => [0, Math.max(high * 1.08, 1)] } },
      axes: [
        { ...axis, grid: { show: false }, size: 2 * rem(), space: 5.5 * rem(), incrs: STEPS_S, values: (_plot, times, _axis, _space, step) => times.map((time) => label(time, step)) },
        { ...axis, size: 4.4 * rem(), values: (_plot, values) => values.map((value) => (value ? write(value) : "0")), space: 2 * rem() },
      ],
      series: [
        { label: "time", value: (_plot, value) => (value == null ? "–" : new Date(value * 1000).toLocaleTimeString("en-GB")) },
        ...lines.map(([label, hue, filled]) => ({
          label, stroke: colour(hue), width: 1.6, points: { show: false }, value: (_plot, value) => perSecond(write(value)),
          fill: filled ? `color-mix(in srgb, ${colour(hue)} 14%, transparent)` : undefined,
        })),
      ],
    };
    this.places[name].replaceChildren();
    this.plots[name] = new window.uPlot(options, data, this.places[name]);
  }
}

function label(time, step) {
  const date = new Date(time * 1000);
  if (step >= DAY) return date.toLocaleDateString("en-GB", { day: "numeric", month: "short" });
  const clock = date.toLocaleTimeString("en-GB", { hour: "2-digit", minute: "2-digit", second: step < 60 ? "2-digit" : undefined });
  return date.getHours() === 0 && date.getMinutes() === 0 && step >= 60 ? date.toLocaleDateString("en-GB", { day: "numeric", month: "short" }) : clock;
}

const empty = () => ({ width_s: 1, t: [], pages: [], trouble: [], bytes: [] });
const rem = () => parseFloat(getComputedStyle(document.documentElement).fontSize);
const measure = (place) => ({ width: Math.max(220, place.clientWidth), height: rem() * (place.classList.contains("low") ? 8.5 : 15) });
