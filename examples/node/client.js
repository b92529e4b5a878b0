// How to reach a router, and how to ask it again.

import { readFileSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";

import { Code, ConnectError, createClient } from "@connectrpc/connect";
import { createGrpcTransport } from "@connectrpc/connect-node";

import { InferenceService } from "./gen/baton/v1/inference_pb.js";
import { BadRequestSchema, ErrorInfoSchema, RetryInfoSchema } from "./gen/google/rpc/error_details_pb.js";

// A client of the router at flags.server; the other flags are those of example.js.
export function connect(flags) {
  if (!flags.ca && (flags.cert || flags.key || flags["server-name"])) {
    throw new Error("--cert, --key and --server-name are for TLS, which --ca turns on");
  }
  if (!flags.cert !== !flags.key) throw new Error("--cert and --key belong together: expected both or none of them");
  const read = (path) => (path ? readFileSync(path) : undefined);
  const withKey = (next) => (request) => {
    if (flags["api-key"]) request.header.set("authorization", `Bearer ${flags["api-key"]}`);
    return next(request);
  };
  const transport = createGrpcTransport({
    baseUrl: `${flags.ca ? "https" : "http"}://${flags.server}`,
    nodeOptions: flags.ca && {
      ca: read(flags.ca), cert: read(flags.cert), key: read(flags.key), servername: flags["server-name"],
    },
    // Notices a router that vanished without a word.
    pingIntervalMs: 20_000,
    pingTimeoutMs: 10_000,
    interceptors: [withKey],
  });
  return createClient(InferenceService, transport);
}

// What an error says beside its message: {code, reason, field, retryAfterMs}; undefined what it does not say.
export function detailsOf(error) {
  const said = ConnectError.from(error);
  const [info] = said.findDetails(ErrorInfoSchema);
  const [retry] = said.findDetails(RetryInfoSchema);
  const [bad] = said.findDetails(BadRequestSchema);
  return {
    code: Code[said.code].replace(/(?<=[a-z])(?=[A-Z])/g, "_").toUpperCase(),
    reason: info?.reason,
    field: bad?.fieldViolations[0]?.field,
    retryAfterMs: retry?.retryDelay && Number(retry.retryDelay.seconds) * 1000 + retry.retryDelay.nanos / 1e6,
  };
}

// Whether sending the request again can help, as docs/clients.md says. ABORTED is this library's word for a
// connection that was reset.
function mayRetry({ code, reason, retryAfterMs }) {
  if (code === "UNAVAILABLE" || retryAfterMs !== undefined) return true;
  return !reason && ["CANCELED", "UNKNOWN", "INTERNAL", "ABORTED"].includes(code);
}

// 0.1 s, twice as long after each failure, at most 2 s, times a random number from 0.5 to 1.
function backOffMs(failures) {
  return Math.min(2000, 100 * 2 ** Math.min(failures - 1, 10)) * (0.5 + Math.random() / 2);
}

// Streams the text of an answer to `show`, over as many calls as it takes: `open(request)` begins one. Returns
// its end and the number of calls.
//
// A repeated call begins at the first token. With the seed of the first one it gives the same text, of which so
// much is left out as was shown. Patience counts from the first failure since something new came.
export async function answer(open, request, retryForMs, show) {
  let shown = 0;
  let failures = 0; // Since something new was shown.
  let failingSince;
  for (let calls = 1; ; calls++) {
    let skip = shown;
    try {
      for await (const { event } of open(request)) {
        if (event.case === "started") {
          request.spec.sampling.seed = event.value.seed;
          request.spec.requestId = ""; // The broken call may still be in flight, and names in flight differ.
        } else if (event.case === "delta") {
          const text = event.value.text.slice(skip);
          skip -= event.value.text.length - text.length;
          shown += text.length;
          if (text) failures = 0;
          show(text);
        } else if (event.case === "final") {
          return { final: event.value, calls };
        }
      }
      throw new ConnectError("the stream ended without a Final", Code.Internal);
    } catch (error) {
      if (!(error instanceof ConnectError)) throw error; // Of `show`, not of the call.
      const said = detailsOf(error);
      if (failures++ === 0) failingSince = performance.now();
      const waitMs = Math.max(said.retryAfterMs ?? 0, backOffMs(failures));
      if (!mayRetry(said) || performance.now() - failingSince + waitMs > retryForMs) throw error;
      await sleep(waitMs);
    }
  }
}
