// Small tools for the page. Text from the web becomes text nodes and nothing else: no function here takes markup.

export const byId = (id) => document.getElementById(id);

export function el(tag, options = {}, ...children) {
  const made = document.createElement(tag);
  const { text, name, ...attributes } = options;
  if (name) made.className = name;
  for (const [key, value] of Object.entries(attributes)) if (value != null) made.setAttribute(key, value);
  if (text != null) made.textContent = text;
  made.append(...children.filter((child) => child != null));
  return made;
}

// Words between backquotes are commands or names: they become code, and still nothing but text.
export const prose = (text) => text.split("`").map((part, at) => (at % 2 ? el("code", { text: part }) : part));

// Changes only what differs, so that a selection or a scroll position stays, and a screen reader is not disturbed.
export function setText(target, text) {
  const node = typeof target === "string" ? byId(target) : target;
  if (node.textContent !== text) node.textContent = text;
}

export function fill(target, children) {
  byId(target).replaceChildren(...children);
}

// A table of columns [title, value of a row, "number" or class]; a row that is missing says so in words.
export function table(id, columns, rows, empty, rowClass = () => "") {
  const node = byId(id);
  if (!rows.length) {
    node.replaceChildren(el("tbody", {}, el("tr", {}, el("td", { name: "empty", text: empty }))));
    return;
  }
  const head = el("thead", {}, el("tr", {}, ...columns.map(([title, , kind]) => el("th", { text: title, scope: "col", name: kind ?? "" }))));
  const body = el("tbody", {}, ...rows.map((row) =>
    el("tr", { name: rowClass(row) }, ...columns.map(([, value, kind]) => {
      const found = value(row);
      return found instanceof Node ? el("td", { name: kind ?? "" }, found) : el("td", { text: found, name: kind ?? "", title: kind === "host" ? found : null, dir: kind === "text" ? "auto" : null });
    }))));
  node.replaceChildren(head, body);
}
