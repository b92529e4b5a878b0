// Baton from Node, over gRPC: node example.js --help

import { parseArgs } from "node:util";

import { create } from "@bufbuild/protobuf";

import { answer, connect, detailsOf } from "./client.js";
import {
  ChatGenerateRequestSchema, EosOptionsSchema, EosPolicy, FinishReason, GenerateRequestSchema,
} from "./gen/baton/v1/inference_pb.js";

const PROMPT = "Once upon a time";
const ANSWER_MS = 600_000; // Every call has a deadline.

const OPTIONS = {
  server: { type: "string", default: "127.0.0.1:50051" },
  only: { type: "string" }, // One scene; without it, all.
  ca: { type: "string" }, // PEM file: the authority of the router's certificate; turns TLS on.
  cert: { type: "string" }, // PEM file: the client's certificate.
  key: { type: "string" }, // PEM file: its key.
  "server-name": { type: "string" }, // The name that the router's certificate has, as router.
  "api-key": { type: "string" },
  "retry-for": { type: "string", default: "180" }, // Seconds.
  help: { type: "boolean" },
};

// A request that takes the most likely token each time.
function request(maxTokens) {
  return create(GenerateRequestSchema, {
    input: { case: "text", value: PROMPT },
    spec: { sampling: { temperature: 0 }, stop: { maxTokens } },
  });
}

// One that goes on when the model wants to end.
function longRequest(maxTokens) {
  const asked = request(maxTokens);
  asked.spec.stop.eosPolicy = EosPolicy.IGNORE_MASK;
  return asked;
}

const scenes = {
  // Text as it comes. A call that fails is repeated, and goes on where the text broke off.
  async stream(baton, retryForMs) {
    await show((asked) => baton.generate(asked, { timeoutMs: ANSWER_MS }), request(24), retryForMs);
  },

  // A conversation, to which the server applies the model's template.
  async chat(baton, retryForMs) {
    const messages = [{ role: "user", content: "Tell me a story about a fox." }];
    const asked = create(ChatGenerateRequestSchema, { messages, spec: request(24).spec });
    await show((again) => baton.chatGenerate(again, { timeoutMs: ANSWER_MS }), asked, retryForMs);
  },

  // Aborting ends the request at the server, too.
  async cancel(baton) {
    const stop = new AbortController();
    let tokens = 0;
    try {
      for await (const { event } of baton.generate(longRequest(1000), { signal: stop.signal, timeoutMs: ANSWER_MS })) {
        if (event.case === "delta") tokens += event.value.tokenIds.length;
        if (tokens >= 5) stop.abort();
      }
    } catch (error) {
      if (!stop.signal.aborted) throw error;
    }
    console.log(`cancelled after ${tokens} tokens`);
  },

  // An answer that takes too long.
  async deadline(baton) {
    try {
      for await (const _ of baton.generate(longRequest(1000), { timeoutMs: 20 }));
    } catch (error) {
      console.log(detailsOf(error).code);
    }
  },

  // What the server says of a request that is wrong.
  async error(baton) {
    const asked = request(24);
    asked.spec.sampling.temperature = -1;
    try {
      for await (const _ of baton.generate(asked, { timeoutMs: ANSWER_MS }));
    } catch (error) {
      const { code, reason, field } = detailsOf(error);
      console.log(`${code} ${reason} at ${field}`);
    }
  },

  // How likely each token was to be the last, and how many are expected to remain.
  async ends(baton) {
    const asked = longRequest(8);
    asked.spec.eos = create(EosOptionsSchema, { steps: true, predict: true });
    for await (const { event } of baton.generate(asked, { timeoutMs: ANSWER_MS })) {
      if (event.case === "delta") {
        for (const { step, eosProb } of event.value.eosSteps) {
          // A model without end tokens has none.
          if (eosProb !== undefined) console.log(`step ${step}: eos_prob ${eosProb.toFixed(6)}`);
        }
      } else if (event.case === "prediction") {
        const { atStep, expectedRemaining } = event.value;
        console.log(`after ${atStep}: about ${expectedRemaining.toFixed(1)} remain`);
      }
    }
  },
};

async function show(open, asked, retryForMs) {
  const { final, calls } = await answer(open, asked, retryForMs, (text) => process.stdout.write(text));
  // A newer router may have reasons without a name here.
  const reason = FinishReason[final.finishReason]?.toLowerCase() ?? `unknown_${final.finishReason}`;
  console.log(`\n[${reason}, ${final.usage.completionTokens} tokens, calls ${calls}]`);
}

async function main() {
  const flags = parseArgs({ options: OPTIONS }).values;
  if (flags.help) {
    console.log(`Flags: ${Object.keys(OPTIONS).map((name) => `--${name}`).join(" ")}`);
    console.log(`Scenes for --only: ${Object.keys(scenes).join(" ")}`);
    return;
  }
  if (flags.only && !scenes[flags.only]) {
    throw new Error(`no scene ${flags.only}: expected one of ${Object.keys(scenes).join(", ")}`);
  }
  const baton = connect(flags);
  for (const [name, play] of Object.entries(scenes)) {
    if (flags.only && flags.only !== name) continue;
    console.log(`== ${name}`);
    await play(baton, Number(flags["retry-for"]) * 1000);
  }
}

try {
  await main();
  process.exit(0); // The connection would keep the process alive.
} catch (error) {
  console.error(`failed: ${error.message}`);
  process.exit(1);
}
