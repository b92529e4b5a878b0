// An answer that comes in: its tokens, shaded by the probability of an end, and what was foreseen.
import {drawChart, roundUp, stepUnder} from "./chart.js";
import {at, chance, last, make, milliseconds, number, shade} from "./dom.js";

const LOWEST = 1e-8;  // of the curve
const SPANS = 4000;   // tokens behind so many are text only
const LONGEST = 20000;  // points that the curves keep

// What completions say of logprobs, in the form that chats have.
function listed(logprobs) {
  return (logprobs?.tokens ?? []).map((token, i) => ({
    token, logprob: logprobs.token_logprobs[i],
    top_logprobs: Object.entries(logprobs.top_logprobs?.[i] ?? {}).map(([other, value]) => ({token: other, logprob: value})),
  }));
}

// The tokens of one event. Each has the text that it brought; where an event brought several at
// once, the first has all of it.
function tokensOf(event) {
  const [choice] = event.choices;
  const {token_ids: ids = [], eos = []} = event.baton ?? {};
  const text = choice.delta?.content ?? choice.text ?? "";
  const logprobs = choice.logprobs?.content ?? listed(choice.logprobs);
  return ids.map((id, i) => ({id, text: i === 0 ? text : "", eos: eos[i], logprob: logprobs[i]}));
}

export class Answer {
  constructor() {
    this.tokens = [];
    this.count = 0;  // of these, those that are not only text
    this.predictions = [];
    this.spans = [];
    this.shown = 0;
    this.chosen = null;  // index of the token whose figures are shown
    this.end = null;     // the extension of the last event
    this.drawing = false;
    at("answer").replaceChildren();
    at("token").textContent = "";
    at("timeline").replaceChildren();
    at("answer").onpointerover = ({target}) => this.chooseSpan(target);
    at("answer").onclick = ({target}) => this.chooseSpan(target);
    at("answer").onkeydown = (event) => this.onKey(event);
    for (const id of ["curve", "remaining"]) {
      at(id).onpointermove = (event) => this.choose(stepUnder(at(id), event, this.steps()) - 1);
    }
    this.draw();
  }

  take(event) {
    if (event.choices.length === 0) return;
    const text = event.choices[0].delta?.content ?? event.choices[0].text ?? "";
    const tokens = tokensOf(event);
    if (tokens.length > 0) {
      this.tokens.push(...tokens);
      this.count += tokens.length;
    } else if (text !== "" && this.tokens.length > 0) {
      // Text that was held back until it was clear that no stop string begins there.
      this.tokens.push({id: null, text});
    }
    if (event.baton?.prediction) this.predictions.push(event.baton.prediction);
    if (event.choices[0].finish_reason) this.end = event.baton;
    this.drawSoon();
  }

  drawSoon() {
    if (this.drawing) return;
    this.drawing = true;
    setTimeout(() => {
      this.drawing = false;
      this.draw();
    }, 60);
  }

  draw() {
    for (; this.shown < this.tokens.length; ++this.shown) this.showToken(this.shown);
    this.drawCurves();
    if (this.end) this.showEnd();
  }

  showToken(index) {
    const token = this.tokens[index];
    if (index >= SPANS) return at("answer").append(token.text);
    const bare = token.text === "" && token.id !== null;
    const span = make("span", bare ? token.eos?.eos_prob > 0.1 ? "∎" : "·" : token.text, at("answer"), "token");
    if (bare) span.classList.add("bare");
    if (token.eos?.eos_prob >= 0) span.classList.add(`shade${shade(token.eos.eos_prob)}`);
    span.dataset.index = index;
    this.spans[index] = span;
  }

  chooseSpan(target) {
    if (target.dataset?.index !== undefined) this.choose(Number(target.dataset.index));
  }

  onKey(event) {
    const to = {ArrowRight: 1, ArrowLeft: -1, Home: -Infinity, End: Infinity}[event.key];
    if (to === undefined || this.tokens.length === 0) return;
    event.preventDefault();
    this.choose((this.chosen ?? -1) + to);
  }

  choose(index) {
    if (this.tokens.length === 0) return;
    this.spans[this.chosen]?.classList.remove("chosen");
    this.chosen = Math.min(this.tokens.length - 1, Math.max(0, index));
    this.spans[this.chosen]?.classList.add("chosen");
    this.showFigures(this.tokens[this.chosen]);
    this.drawCurves();
  }

  showFigures(token) {
    const place = at("token");
    place.replaceChildren();
    const add = (name, value) => {
      const pair = make("span", `${name} `, place, "pair");
      make("b", value, pair);
    };
    const {eos, logprob, id} = token;
    add("Token", logprob ? JSON.stringify(logprob.token) : JSON.stringify(token.text));
    if (id !== null) add("id", id);
    if (logprob) add("its probability", chance(Math.exp(logprob.logprob)));
    if (!eos) return;
    add("step", eos.step);
    add("chance of the end", chance(eos.eos_prob));
    add("as sampled", chance(eos.eos_prob_sampling));
    add("rank of the end", number(eos.eos_rank));
    add("entropy", `${eos.entropy.toFixed(2)} nats`);
    const foreseen = this.predictions.find((prediction) => prediction.at_step === eos.step);
    if (foreseen) {
      add("tokens to come", `${number(foreseen.expected_remaining)} (half the time at most ${number(foreseen.p50)}, ` +
        `9 times in 10 at most ${number(foreseen.p90)})`);
    }
    const others = logprob?.top_logprobs?.map((one) => `${JSON.stringify(one.token)} ${chance(Math.exp(one.logprob))}`);
    if (others?.length) add("most likely were", others.join(", "));
  }

  steps() {
    const count = Math.max(10, this.tokens.length);
    return {from: 1, to: count, ticks: [[1, "step 1"], [count, number(count)]]};
  }

  drawCurves() {
    const rows = this.tokens.filter((token) => token.eos).map((token) => token.eos).slice(0, LONGEST);
    const mark = this.chosen === null ? null : this.chosen + 1;
    const of = (value) => rows.filter((row) => row[value] !== null).map((row) => [row.step, row[value]]);
    const latest = last(rows);
    drawChart(at("curve"), {
      label: latest ? `Probability of an end after ${rows.length} tokens: ${chance(latest.eos_prob)}` : "No tokens yet",
      x: this.steps(), mark,
      y: {from: LOWEST, to: 1, log: true, ticks: [[1, "1"], [1e-2, "0.01"], [1e-4, "1e-4"], [1e-6, "1e-6"], [LOWEST, "1e-8"]]},
      lines: [{points: of("eos_prob_sampling"), kind: "b thin"}, {points: of("eos_prob"), kind: "a"}],
    });
    this.drawRemaining(mark);
  }

  drawRemaining(mark) {
    const seen = this.predictions.slice(0, LONGEST);
    const of = (value) => seen.map((prediction) => [prediction.at_step, prediction[value]]);
    // The end that the model wanted; what was cut off before has none.
    const end = this.end?.natural_end_step ?? (this.end?.finish_reason === "stop_eos" ? this.count : null);
    const top = roundUp(Math.max(10, ...seen.map((prediction) => prediction.p90)));
    const latest = last(seen);
    drawChart(at("remaining"), {
      label: latest ? `Expected to come after step ${latest.at_step}: ${number(latest.expected_remaining)} tokens` :
        "No predictions yet",
      x: this.steps(), mark, y: {from: 0, to: top, ticks: [[0, "0"], [top / 2, number(top / 2)], [top, number(top)]]},
      bands: [{low: of("p50"), high: of("p90"), kind: "c"}],
      lines: [{points: of("expected_remaining"), kind: "c"},
        {points: end === null ? [] : [[1, end - 1], [end, 0]], kind: "truth"}],
    });
    at("remaining-note").textContent = this.end && seen.length === 0 ?
      "Nothing was foreseen. Workers need --predictor auto, and a model without a predictor file 8 ended answers first." : "";
  }

  showEnd() {
    const {timings_ms: times, finish_reason: reason, workers, attempts} = this.end;
    const place = at("timeline");
    place.replaceChildren();
    const before = Math.max(0, times.ttft - times.queue - times.prefill);
    const stages = [["waiting", times.queue], ["between", before], ["prefill", times.prefill],
      ["transfer", times.kv_transfer], ["decode", Math.max(0, times.total - times.ttft - times.kv_transfer)]];
    make("p", `Ended by ${reason} after ${number(this.count)} tokens and ` +
      `${milliseconds(times.total)}, the first after ${milliseconds(times.ttft)}` +
      (attempts > 1 ? `, in ${attempts} attempts` : ""), place);
    const bar = make("div", null, place, "bar");
    const list = make("ul", null, place, "key");
    for (const [name, took] of stages) {
      const part = make("span", null, bar, `stage ${name}`);
      part.style.flexGrow = took;
      const entry = make("li", null, list);
      make("span", null, entry, `box ${name}`);
      entry.append(`${STAGES[name]} ${milliseconds(took)}`);
    }
    const by = [["prefill", workers.prefill], ["decode", workers.decode]].filter(([, address]) => address);
    make("p", by.map(([role, address]) => `${role} at ${address}`).join(", "), place, "soft");
  }
}

const STAGES = {
  waiting: "Waiting", between: "Finding room", prefill: "Prefill", transfer: "Transfer of the KV cache", decode: "Decode",
};
