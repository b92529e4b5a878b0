// The playground: a form whose request goes to the HTTP port of the same router.
import {Answer} from "./answer.js";
import {at, number, shadeKey} from "./dom.js";
import {Refusal, ask} from "./stream.js";

const NUMBERS = ["temperature", "top_p", "top_k", "min_p", "max_tokens", "min_tokens", "seed",
  "repetition_penalty", "presence_penalty", "frequency_penalty", "no_repeat_ngram_size"];
let port = null;     // of the router, as /api/status says
let running = null;  // the AbortController of the request under way

const httpAddress = () => `${port.tls ? "https" : "http"}://${location.hostname}:${port.port}`;
const isChat = () => at("api").value === "chat";
const path = () => isChat() ? "/v1/chat/completions" : "/v1/completions";

// What is left empty is left out, so that the model's own defaults count.
function requestOf() {
  const request = {stream: true, baton: {eos_steps: true, predict: true}};
  if (isChat()) {
    const system = at("system").value;
    request.messages = [...(system ? [{role: "system", content: system}] : []),
      {role: "user", content: at("prompt").value}];
    Object.assign(request, {logprobs: true, top_logprobs: 4});
  } else {
    Object.assign(request, {prompt: at("prompt").value, logprobs: 4});
  }
  if (at("preset").value !== "") request.preset = at("preset").value;
  for (const name of NUMBERS) if (at(name).value !== "") request[name] = Number(at(name).value);
  const stops = at("stop").value.split("\n").filter((line) => line !== "");
  if (stops.length > 0) request.stop = stops;
  if (at("eos").value !== "honor") request.baton.eos = at("eos").value;
  return request;
}

const quoted = (text) => `'${text.replaceAll("'", "'\\''")}'`;

function showCurl() {
  if (port === null) return;
  const key = port.keys ? ' -H "Authorization: Bearer $BATON_API_KEY"' : "";
  at("curl").textContent = `curl -N ${httpAddress()}${path()} -H 'Content-Type: application/json'${key} ` +
    `-d ${quoted(JSON.stringify(requestOf()))}`;
}

function showState(text, failed = false) {
  at("progress").textContent = text;
  at("progress").classList.toggle("bad", failed);
}

function showRefusal(error) {
  showState(error.message, true);
  const parts = [];
  if (error.retryAfter) parts.push(`Retry-After: ${error.retryAfter}`);
  if (error.body) parts.push(error.body);
  if (error.status === 401) parts.push("Give a key above; --api-keys says which there are.");
  if (error.status === 0 && !error.body) {
    parts.push(port.tls ? `Open ${httpAddress()}/health once, so that the browser knows the certificate.` :
      "Is the port open for this machine? A page of another host name needs --http-allow-origins.");
  }
  at("error").textContent = parts.join("\n");
  at("error").hidden = parts.length === 0;
}

function setRunning(controller) {
  running = controller;
  at("send").disabled = controller !== null || port === null;
  at("cancel").disabled = controller === null;
}

async function send(event) {
  event.preventDefault();
  if (running || port === null) return;
  setRunning(new AbortController());
  at("error").hidden = true;
  at("result").hidden = false;
  showState("Sent; waiting for the first token");
  const answer = new Answer();
  const count = () => number(answer.count);
  try {
    for await (const part of ask(httpAddress(), path(), requestOf(), at("key").value, running.signal)) {
      answer.take(part);
      showState(`${count()} tokens`);
    }
    showState(`Done: ${count()} tokens`);
  } catch (error) {
    if (running.signal.aborted) showState(`Stopped by you after ${count()} tokens`);
    else showRefusal(error instanceof Refusal ? error : new Refusal(`the page failed: ${error.message}`));
  } finally {
    setRunning(null);
    answer.draw();
    at("result").hidden = answer.count === 0;
  }
}

async function start() {
  shadeKey(at("shades"));
  at("form").onsubmit = send;
  at("cancel").onclick = () => running?.abort();
  at("form").oninput = () => {
    at("system-field").hidden = !isChat();
    showCurl();
  };
  setRunning(null);
  let status;
  try {
    status = await (await fetch("/api/status", {signal: AbortSignal.timeout(5000)})).json();
  } catch (error) {
    showState(`No answer from the router: ${error.message}. Load this page again.`, true);
    return;
  }
  at("model").textContent = status.model;
  port = status.http;
  at("key-field").hidden = !port?.keys;
  for (const name of port?.presets ?? []) at("preset").append(new Option(name, name));
  if (port === null) {
    showState("This router has no HTTP port. Start it with --http-port 8000 (baton serve has one without asking).", true);
  }
  setRunning(null);
  showCurl();
}
start();
