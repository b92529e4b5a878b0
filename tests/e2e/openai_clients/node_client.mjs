// The `openai` package for Node against a server: node node_client.mjs BASE_URL. Exits 0 if all is as it
// should be.
import assert from "node:assert/strict";
import OpenAI from "openai";

const client = new OpenAI({ baseURL: process.argv[2], apiKey: "key-of-clients", maxRetries: 0 });
const messages = [{ role: "user", content: "List 5 animals." }];
const asked = { model: "demo", messages, temperature: 0 };

const names = [];
for await (const model of await client.models.list()) names.push(model.id);
assert.deepEqual(names, ["demo"]);

const whole = await client.chat.completions.create(asked);
assert.equal(whole.choices[0].finish_reason, "stop");
assert.ok(whole._request_id);

let text = "";
let usage = null;
const stream = await client.chat.completions.create({
  ...asked,
  stream: true,
  stream_options: { include_usage: true },
});
for await (const chunk of stream) {
  text += chunk.choices[0]?.delta?.content ?? "";
  usage = chunk.usage ?? usage;
}
assert.equal(text, whole.choices[0].message.content);
assert.equal(usage.completion_tokens, whole.usage.completion_tokens);

const collected = await client.chat.completions.stream(asked).finalContent();
assert.equal(collected, text);

const several = await client.chat.completions.create({ ...asked, temperature: 1, seed: 1, n: 2 });
assert.deepEqual(several.choices.map((choice) => choice.index), [0, 1]);

const schema = { type: "object", properties: { side: { enum: ["left", "right"] } }, required: ["side"],
  additionalProperties: false };
const guided = await client.chat.completions.create({
  ...asked,
  response_format: { type: "json_schema", json_schema: { name: "place", strict: true, schema } },
});
assert.ok(["left", "right"].includes(JSON.parse(guided.choices[0].message.content).side));

const plain = await client.completions.create({ model: "demo", prompt: "Once", max_tokens: 4, baton: {} });
assert.equal(plain.baton.token_ids.length, 4);

const left = await client.completions.create({
  model: "demo",
  prompt: "Once",
  max_tokens: 1000,
  ignore_eos: true,
  stream: true,
});
for await (const chunk of left) {
  assert.equal(chunk.object, "text_completion");
  break; // which closes the connection
}

await assert.rejects(client.chat.completions.create({ ...asked, top_p: 2 }), (error) => {
  assert.ok(error instanceof OpenAI.BadRequestError);
  assert.equal(error.param, "top_p");
  return true;
});
await assert.rejects(client.chat.completions.create({ ...asked, model: "other" }), OpenAI.NotFoundError);

const stranger = new OpenAI({ baseURL: process.argv[2], apiKey: "key-of-nobody", maxRetries: 0 });
await assert.rejects(stranger.chat.completions.create(asked), OpenAI.AuthenticationError);
