// The page of what goes on now, refreshed every two seconds.
import {drawChart, topOf} from "./chart.js";
import {at, last, make, makeSvg, number} from "./dom.js";
import {showCalibration, showHeatMap} from "./eos.js";

const POINTS = 150;  // of the series, at most
const charts = [];   // {caption, svg}

function showTiles(status) {
  const {requests, recent, foreseen} = status;
  const tiles = [
    ["Queued", requests.queued], ["Reserving", requests.reserving], ["Prefilling", requests.prefilling],
    ["Decoding", requests.decoding], ["Requests per s", last(recent.requests_per_s)],
    ["Prompt tokens per s", last(recent.prompt_tokens_per_s)],
    ["Output tokens per s", last(recent.output_tokens_per_s)],
    ["Answered", requests.answered], ["Failed", requests.failed],
  ].map(([name, value]) => [name, number(value)]);
  const unknown = foreseen.sequences === 0 && requests.decoding > 0;
  tiles.push(["Tokens foreseen to come", unknown ? "unknown" : number(foreseen.tokens),
    unknown ? "Workers need --predictor auto; without a predictor file of the model they first learn from 8 ended answers." : ""]);
  at("tiles").replaceChildren();
  for (const [name, value, note] of tiles) {
    const tile = make("div", "", at("tiles"));
    make("dt", name, tile);
    make("dd", value, tile);
    if (note) make("dd", note, tile, "note");
  }
}

function fill(body, rows) {
  body.replaceChildren();
  for (const texts of rows) {
    const row = make("tr", null, body);
    for (const text of texts) make("td", text, row);
  }
}

function showOldest({oldest, requests}) {
  const all = requests.queued + requests.reserving + requests.prefilling + requests.decoding;
  at("oldest-note").textContent = all === 0 ? "No requests are on their way." :
    all > oldest.length ? `The ${oldest.length} oldest of ${number(all)}` : "";
  at("oldest-table").hidden = oldest.length === 0;
  fill(at("oldest"), oldest.map(({id, stage, age_s: age, prompt_tokens: prompt, tokens, foreseen}) =>
    [id, stage, `${number(age)} s`, number(prompt), number(tokens), foreseen ?
      `${number(foreseen.expected_remaining)} (${number(foreseen.p50)} to ${number(foreseen.p90)})` : "unknown"]));
}

function showWorkers(status) {
  const shown = status.workers.length;
  at("workers-note").textContent = status.workers_total === 0 ? "No workers are listed; name them with --decode-workers." :
    shown < status.workers_total ? `${shown} of ${status.workers_total}, those that get no requests first` : "";
  fill(at("workers"), status.workers.map((worker) => {
    const share = worker.blocks_total > 0 ? ` (${Math.round(100 * worker.blocks_in_use / worker.blocks_total)} %)` : "";
    return [worker.address, worker.role, worker.state, worker.running, worker.waiting,
      `${worker.blocks_in_use} of ${worker.blocks_total}${share}`];
  }));
}

function showChart(place, title, {values: lines, interval, unit}) {
  const top = topOf(lines.map(([, values]) => values));
  const count = Math.max(1, ...lines.map(([, values]) => values.length));
  const minutes = (points) => `${number(points * interval / 60)} min ago`;
  place.caption.textContent = `${title}: `;
  lines.forEach(([name, values], index) =>
    make("span", `${name} ${number(last(values))} `, place.caption, "abc"[index]));
  drawChart(place.svg, {
    label: `${place.caption.textContent}${unit}`,
    x: {from: 1 - POINTS, to: 0, ticks: [[1 - POINTS, minutes(POINTS)], [0, "now"]]},
    y: {from: 0, to: top, ticks: [[0, "0"], [top / 2, number(top / 2)], [top, number(top)]]},
    lines: lines.map(([, values], index) =>
      ({kind: "abc"[index], points: values.map((value, i) => [i + 1 - count, value])})),
  });
}

// The figures stay where they are, so that a reader or a selection is not lost every two seconds.
function places(count) {
  while (charts.length < count) {
    const figure = make("figure", null, at("charts"));
    charts.push({caption: make("figcaption", "", figure), svg: makeSvg("svg", {}, figure)});
  }
  return charts;
}

function show(status) {
  at("model").textContent = status.model;
  at("state").textContent = status.state;
  showTiles(status);
  showWorkers(status);
  showOldest(status);
  showHeatMap(status.eos);
  showCalibration(status.eos);
  const {recent} = status;
  const quantiles = (name) => ["p50", "p95", "p99"].map((q) => [q, recent[`${name}_ms_${q}`]]);
  const shown = [
    ["Requests per s", [["", recent.requests_per_s]], ""],
    ["Tokens per s", [["out", recent.output_tokens_per_s], ["in", recent.prompt_tokens_per_s]], ""],
    ["Time to first token", quantiles("ttft"), "ms"], ["Gap between tokens", quantiles("gap"), "ms"],
  ];
  places(shown.length).forEach((place, i) => {
    const [title, values, unit] = shown[i];
    showChart(place, unit ? `${title}, ${unit}` : title, {values, interval: recent.interval_s, unit});
  });
}

async function refresh() {
  try {
    const answer = await fetch("/api/status", {signal: AbortSignal.timeout(5000)});
    show(await answer.json());
  } catch (error) {
    at("state").textContent = `no answer from the router: ${error.message}`;
  }
  setTimeout(refresh, 2000);
}
refresh();
