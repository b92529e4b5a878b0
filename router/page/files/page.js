"use strict";
// Everything that comes from outside is set as text, never as HTML.
const at = (id) => document.getElementById(id);
const make = (tag, text, parent) => {
  const made = document.createElement(tag);
  made.textContent = text;
  parent.append(made);
  return made;
};
const number = (value) => value.toLocaleString("en", {maximumFractionDigits: value < 10 ? 1 : 0});
const last = (values) => values.length ? values[values.length - 1] : 0;

function showTiles(status) {
  const {requests, recent, foreseen} = status;
  const tiles = [
    ["Queued or reserving", requests.queued], ["Prefilling", requests.prefilling],
    ["Decoding", requests.decoding], ["Requests per s", last(recent.requests_per_s)],
    ["Prompt tokens per s", last(recent.prompt_tokens_per_s)],
    ["Output tokens per s", last(recent.output_tokens_per_s)],
    ["Answered", requests.answered], ["Failed", requests.failed],
  ].map(([name, value]) => [name, number(value)]);
  tiles.push(["Tokens foreseen to come", foreseen.sequences > 0 ? number(foreseen.tokens) :
    requests.decoding > 0 ? "unknown: workers need --predictor auto and 8 ended answers" : "0"]);
  at("tiles").replaceChildren();
  for (const [name, value] of tiles) {
    const tile = make("div", "", at("tiles"));
    make("dt", name, tile);
    make("dd", value, tile);
  }
}

function showWorkers(status) {
  const shown = status.workers.length;
  at("workers-note").textContent = status.workers_total === 0 ? "No workers are listed; name them with --decode-workers." :
    shown < status.workers_total ? `${shown} of ${status.workers_total}, those that get no requests first` : "";
  at("workers").replaceChildren();
  for (const worker of status.workers) {
    const row = make("tr", "", at("workers"));
    const share = worker.blocks_total > 0 ? ` (${Math.round(100 * worker.blocks_in_use / worker.blocks_total)} %)` : "";
    for (const text of [worker.address, worker.role, worker.state, worker.running, worker.waiting,
      `${worker.blocks_in_use} of ${worker.blocks_total}${share}`]) make("td", text, row);
  }
}

function showChart(title, lines) {
  const figure = make("figure", "", at("charts"));
  const caption = make("figcaption", `${title}: `, figure);
  const most = Math.max(1e-9, ...lines.flatMap(([, values]) => values));
  const space = "http://www.w3.org/2000/svg";
  const svg = document.createElementNS(space, "svg");
  svg.setAttribute("viewBox", "0 0 149 100");
  svg.setAttribute("preserveAspectRatio", "none");
  svg.setAttribute("role", "img");
  lines.forEach(([name, values], index) => {
    const kind = "abc"[index];
    make("span", `${name} ${number(last(values))} `, caption).className = kind;
    const line = document.createElementNS(space, "polyline");
    line.setAttribute("class", kind);
    line.setAttribute("points", values.map((value, i) =>
      `${150 - values.length + i},${98 - 94 * value / most}`).join(" "));
    svg.append(line);
  });
  make("span", `(top ${number(most)})`, caption);
  svg.setAttribute("aria-label", caption.textContent);
  figure.append(svg);
}

function show(status) {
  at("model").textContent = status.model;
  at("state").textContent = status.state;
  showTiles(status);
  showWorkers(status);
  const {recent} = status;
  at("charts").replaceChildren();
  showChart("Requests per s", [["", recent.requests_per_s]]);
  showChart("Tokens per s", [["out", recent.output_tokens_per_s], ["in", recent.prompt_tokens_per_s]]);
  for (const [title, name] of [["Time to first token, ms", "ttft"], ["Gap between tokens, ms", "gap"]]) {
    showChart(title, ["p50", "p95", "p99"].map((q) => [q, recent[`${name}_ms_${q}`]]));
  }
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
