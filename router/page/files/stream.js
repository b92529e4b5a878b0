// Asks the HTTP port and reads the events of its answer.

// What went wrong, with what came: `status` and `body` of an answer that is no stream.
export class Refusal extends Error {
  constructor(message, {status = 0, body = "", retryAfter = null} = {}) {
    super(message);
    Object.assign(this, {status, body, retryAfter});
  }
}

async function* lines(body) {
  const decoder = new TextDecoder();
  const reader = body.getReader();
  let rest = "";
  try {
    for (;;) {
      const {done, value} = await reader.read();
      rest += done ? decoder.decode() : decoder.decode(value, {stream: true});
      const whole = rest.split("\n");
      rest = done ? "" : whole.pop();
      yield* whole;
      if (done) return;
    }
  } finally {
    reader.cancel().catch(() => {});
  }
}

// Sends `request` and yields each event's JSON. A Refusal says what came instead of a stream, or
// that it broke.
export async function* ask(address, path, request, key, signal) {
  const headers = {"Content-Type": "application/json"};
  if (key) headers.Authorization = `Bearer ${key}`;
  let answer;
  try {
    answer = await fetch(address + path, {method: "POST", headers, body: JSON.stringify(request), signal});
  } catch (error) {
    if (signal.aborted) throw error;
    throw new Refusal(`no answer from ${address}: ${error.message}`);
  }
  if (!answer.ok) {
    throw new Refusal(`${answer.status} ${answer.statusText}`, {
      status: answer.status, body: await answer.text(), retryAfter: answer.headers.get("retry-after")});
  }
  let whole = false;
  for await (const line of lines(answer.body)) {
    if (!line.startsWith("data:")) continue;
    const data = line.slice(5).trim();
    if (data === "[DONE]") {
      whole = true;
      break;
    }
    const event = JSON.parse(data);
    if (event.error) throw new Refusal("the answer broke off", {body: data});
    yield event;
  }
  if (!whole) throw new Refusal("the connection ended before the answer did");
}
