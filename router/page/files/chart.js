// Line charts as SVG, drawn in the pixels of their place so that text keeps its shape.
import {makeSvg} from "./dom.js";

const LEFT = 46, RIGHT = 8, TOP = 8, BOTTOM = 18;

function scale(axis, from, to) {
  const of = axis.log ? (value) => Math.log10(Math.max(value, axis.from)) : (value) => value;
  const low = of(axis.from), high = of(axis.to);
  return (value) => {
    const share = high > low ? (of(value) - low) / (high - low) : 0;
    return from + (to - from) * Math.min(1, Math.max(0, share));
  };
}

const path = (points, x, y) =>
  points.map(([a, b]) => `${x(a).toFixed(1)},${y(b).toFixed(1)}`).join(" ");

// A round number at or above `value`, so that axes do not tremble.
export function roundUp(value) {
  if (!(value > 0)) return 1;
  const power = 10 ** Math.floor(Math.log10(value));
  return [1, 1.5, 2, 3, 5, 7.5, 10].map((step) => step * power).find((step) => step >= value * 0.999);
}

// Fills `svg`. x and y: {from, to, ticks: [[value, text]], log}; bands: [{low, high, kind}] and lines:
// [{points, kind}] with points as [x, y]; dots: [{x, y, size, kind}]; mark: a vertical line at this x.
export function drawChart(svg, {label, x: xAxis, y: yAxis, bands = [], lines = [], dots = [], mark = null}) {
  const width = Math.max(120, svg.clientWidth || 300), height = Math.max(60, svg.clientHeight || 120);
  svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
  svg.setAttribute("role", "img");
  svg.setAttribute("aria-label", label);
  svg.replaceChildren();
  const x = scale(xAxis, LEFT, width - RIGHT), y = scale(yAxis, height - BOTTOM, TOP);
  for (const [value, text] of yAxis.ticks) {
    makeSvg("line", {class: "grid", x1: LEFT, x2: width - RIGHT, y1: y(value), y2: y(value)}, svg);
    makeSvg("text", {x: LEFT - 5, y: y(value) + 4, "text-anchor": "end"}, svg).textContent = text;
  }
  for (const [value, text] of xAxis.ticks) {
    const end = x(value) > width - 60 ? "end" : x(value) < LEFT + 20 ? "start" : "middle";
    makeSvg("text", {x: x(value), y: height - 4, "text-anchor": end}, svg).textContent = text;
  }
  for (const {low, high, kind} of bands) {
    if (low.length === 0) continue;
    makeSvg("polygon", {class: `band ${kind}`, points: path([...low, ...[...high].reverse()], x, y)}, svg);
  }
  for (const {points, kind} of lines) {
    if (points.length === 0) continue;
    makeSvg("polyline", {class: kind, points: path(points, x, y)}, svg);
    if (points.length > 1) continue;
    const [[a, b]] = points;
    makeSvg("circle", {class: kind, cx: x(a), cy: y(b), r: 2}, svg);
  }
  for (const dot of dots) makeSvg("circle", {class: dot.kind, cx: x(dot.x), cy: y(dot.y), r: dot.size}, svg);
  if (mark !== null) makeSvg("line", {class: "mark", x1: x(mark), x2: x(mark), y1: TOP, y2: height - BOTTOM}, svg);
}

// The step (a whole number) that lies under a pointer on the chart.
export function stepUnder(svg, event, axis) {
  const box = svg.getBoundingClientRect();
  const share = (event.clientX - box.left - LEFT) / Math.max(1, box.width - LEFT - RIGHT);
  return Math.round(axis.from + (axis.to - axis.from) * Math.min(1, Math.max(0, share)));
}

export const topOf = (series) => roundUp(Math.max(0, ...series.flat()));
