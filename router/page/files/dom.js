// Small helpers that all scripts of the page share. What comes from outside is only ever set as text
// or as the value of an attribute, never as HTML.

export const at = (id) => document.getElementById(id);

export function make(tag, text, parent, kind) {
  const made = document.createElement(tag);
  if (text !== null) made.textContent = text;
  if (kind) made.className = kind;
  parent.append(made);
  return made;
}

export function makeSvg(tag, attributes, parent) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  parent.append(made);
  return made;
}

export const last = (values) => values.length ? values[values.length - 1] : 0;

export const number = (value) =>
  value.toLocaleString("en", {maximumFractionDigits: Math.abs(value) < 10 ? 1 : 0});

// Of a probability: "12 %", "99.65 %", and "2e-9" where that says more.
export function chance(value) {
  if (value === null || value === undefined) return "unknown";
  if (value > 0 && value < 1e-4) return value.toExponential(0);
  const percent = 100 * value;
  return `${Number(percent.toFixed(percent >= 99 || percent < 1 ? 2 : percent >= 10 ? 0 : 1))} %`;
}

export const milliseconds = (value) =>
  value >= 10000 ? `${number(value / 1000)} s` : `${number(value)} ms`;

// How strongly a probability of an end is shaded, 0 to 6. Inside a sentence it is far below 1e-6, at
// the end of one that the answer goes on from often not above 1e-4, so steps are powers of ten.
export const SHADES = [1e-6, 1e-5, 1e-4, 1e-2, 0.1, 0.5];
export const shade = (value) => SHADES.filter((bound) => value >= bound).length;

// The key to these shades, as a row of boxes.
export function shadeKey(parent) {
  const key = make("p", "Probability of an end: ", parent, "key");
  const short = (bound) => bound < 1e-3 ? bound.toExponential() : String(bound);
  make("span", `below ${short(SHADES[0])}`, key, "shade shade0");
  SHADES.forEach((bound, i) => make("span", `from ${short(bound)}`, key, `shade shade${i + 1}`));
}
