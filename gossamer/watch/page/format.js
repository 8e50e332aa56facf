// Numbers as people read them, as gossamer/watch/figures.py writes them. What is unknown is a dash.

const UNKNOWN = "–";
const whole = new Intl.NumberFormat("en-US", { maximumFractionDigits: 0 });

export const count = (number) => (number == null ? UNKNOWN : whole.format(number));

function scaled(number, units) {
  let value = number, unit = 0;
  while (value >= 999.5 && unit < units.length - 1) { value /= 1000; unit += 1; }
  const digits = value < 9.995 ? 2 : value < 99.95 ? 1 : 0;
  return `${value.toFixed(digits)} ${units[unit]}`;
}

export const size = (number) =>
  number == null ? UNKNOWN : number < 999.5 ? `${Math.round(number)} B` : scaled(number, ["B", "kB", "MB", "GB", "TB", "PB"]);
export const grams = (number) => (number == null ? UNKNOWN : scaled(number * 1e6, ["µg", "mg", "g", "kg", "t", "kt"]));
export const joules = (number) => (number == null ? UNKNOWN : scaled(number * 1e3, ["mJ", "J", "kJ", "MJ", "GJ", "TJ"]));
export const rate = (number) => (number == null ? UNKNOWN : number >= 9.95 ? whole.format(number) : number.toFixed(1));
export const seconds = (number) => (number == null ? UNKNOWN : number < 1 ? `${Math.round(number * 1000)} ms` : `${number.toFixed(1)} s`);
export const words = (name) => name.replaceAll("_", " ");

export function share(part, all) {
  if (!all) return UNKNOWN;
  const per = (100 * part) / all;
  if (per > 0 && per < 1) return "<1 %";
  return per > 99 && per < 100 ? ">99 %" : `${Math.round(per)} %`;
}

export function span(number) {
  if (number == null) return UNKNOWN;
  const all = Math.max(0, Math.floor(number));
  const two = (value) => String(value).padStart(2, "0");
  const [days, hours, minutes, rest] = [Math.floor(all / 86400), Math.floor(all / 3600) % 24, Math.floor(all / 60) % 60, all % 60];
  if (days) return `${days} d ${two(hours)}:${two(minutes)}`;
  return hours ? `${hours}:${two(minutes)}:${two(rest)}` : `${minutes}:${two(rest)}`;
}

export const clock = (time_s) => (time_s == null ? UNKNOWN : new Date(time_s * 1000).toLocaleTimeString("en-GB"));
export const moment = (time_s) => (time_s == null ? UNKNOWN : new Date(time_s * 1000).toLocaleString("en-GB", { dateStyle: "medium", timeStyle: "short" }));

export function ago(time_s) {
  const passed = Date.now() / 1000 - time_s;
  if (passed < 5) return "just now";
  return passed < 120 ? `${Math.round(passed)} s ago` : passed < 7200 ? `${Math.round(passed / 60)} min ago` : moment(time_s);
}

export function until(time_s) {
  const left = time_s - Date.now() / 1000;
  return left < 120 ? `${Math.max(0, Math.round(left))} s` : left < 7200 ? `${Math.round(left / 60)} min` : moment(time_s);
}
