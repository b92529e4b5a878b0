// How recent answers came to their ends, and whether what was foreseen of them came true.
import {drawChart} from "./chart.js";
import {at, chance, make, makeSvg, number, shade, shadeKey} from "./dom.js";

const ROW = 8, LEFT = 46, COLUMNS = 64;

// Cells of one answer as runs of equal shade: [first step, steps, shade].
function runs({eos_prob: cells, steps_per_cell: size, tokens}) {
  const found = [];
  cells.forEach((value, i) => {
    const from = i * size, steps = Math.min(size, tokens - from), kind = shade(value);
    const before = found[found.length - 1];
    if (before && before[2] === kind) before[1] += steps;
    else found.push([from, steps, kind]);
  });
  return found;
}

function tellAnswer({id, tokens, finish_reason: reason, eos_prob: cells}) {
  at("heat-answer").textContent = `${id}: ${number(tokens)} tokens, ended by ${reason}; ` +
    `highest probability of an end ${chance(Math.max(...cells))}, at last ${chance(cells[cells.length - 1])}`;
}

// A row for each answer, the newest on top, and a column for each step.
export function showHeatMap({answers, sample}) {
  if (at("shades").childElementCount === 0) shadeKey(at("shades"));
  const none = answers.every(({eos_prob: cells}) => cells.every((value) => value === 0));
  at("heat-note").textContent = answers.length === 0 ?
    "No answer has ended yet. Send one from the playground, or with baton generate." :
    none ? "No probabilities: the model has no EOS id, or it was never likelier than nothing." :
      `The last ${answers.length} answers of a sample (${sample} at a time), the newest on top, from their first token to the right.`;
  const svg = at("heat");
  svg.toggleAttribute("hidden", answers.length === 0);
  svg.replaceChildren();
  const width = Math.max(120, svg.clientWidth), longest = Math.max(COLUMNS, ...answers.map(({tokens}) => tokens));
  const height = answers.length * ROW + 18, unit = (width - LEFT - 8) / longest;
  svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
  svg.style.height = `${height}px`;
  svg.setAttribute("role", "img");
  svg.setAttribute("aria-label", `Probability of an end over the steps of ${answers.length} answers`);
  answers.forEach((answer, i) => {
    const row = makeSvg("g", {}, svg);
    row.onpointerenter = () => tellAnswer(answer);
    for (const [from, steps, kind] of runs(answer)) {
      makeSvg("rect", {class: `cell shade${kind}`, x: LEFT + from * unit, y: i * ROW, width: Math.max(1, steps * unit), height: ROW - 1}, row);
    }
  });
  for (const [step, anchor] of [[1, "start"], [longest, "end"]]) {
    makeSvg("text", {x: LEFT + (step - (anchor === "start" ? 1 : 0)) * unit, y: height - 4, "text-anchor": anchor}, svg)
      .textContent = step === 1 ? "step 1" : number(step);
  }
}

let latest = null;

// Said against come: what lies on the diagonal was right.
export function showCalibration(eos) {
  latest = eos;
  const choice = at("horizon");
  if (choice.childElementCount === 0) {
    for (const {within} of eos.calibration) make("option", String(within), choice).value = within;
    choice.value = "16";
    choice.onchange = () => showCalibration(latest);
  }
  const {bins} = eos.calibration.find(({within}) => String(within) === choice.value);
  const used = bins.filter(({estimates}) => estimates >= 1);
  const all = bins.reduce((sum, {estimates}) => sum + estimates, 0);
  const svg = at("calibration");
  svg.toggleAttribute("hidden", used.length === 0);
  at("calibration-note").textContent = used.length > 0 ?
    `Of ${number(all)} predictions: what was said, to the right, and how often it came true, upwards. Right ones lie on the dashed line. ` +
      "A band is what is possible where something other than the model or max_tokens ended answers." :
    eos.answers.length === 0 ? "No answer has ended yet." :
      "Nothing was foreseen of these answers. Workers need --predictor auto; without a predictor file of the model they first learn from 8 ended answers.";
  if (used.length === 0) return;
  const ticks = [0, 0.25, 0.5, 0.75, 1].map((value) => [value, `${100 * value} %`]);
  const low = used.map(({said, ended}) => [said, ended]);
  const high = used.map(({said, ended, unknown}) => [said, ended + unknown]);
  drawChart(svg, {
    label: used.map(({said, ended, unknown}) => `said ${chance(said)}, came true ${chance(ended)} to ${chance(ended + unknown)}`).join("; "),
    x: {from: 0, to: 1, ticks}, y: {from: 0, to: 1, ticks},
    bands: [{low, high, kind: "a"}],
    lines: [{points: [[0, 0], [1, 1]], kind: "truth"}, {points: low, kind: "a"}, {points: high, kind: "a"}],
    dots: used.flatMap(({estimates}, place) => [low[place], high[place]].map(([x, y]) =>
      ({x, y, size: 3 + 5 * Math.sqrt(estimates / all), kind: "a"}))),
  });
}
