#pragma once

#include "tools/planner/question.h"

namespace baton::planner {

// A model whose sizes can be reckoned by hand: 73 728 elements in projections, 16 384 in each of
// embedding and output, 320 in norms; K and V of a token take 256 bytes in bf16.
inline ModelUse SmallModel() {
  ModelUse model;
  model.config.architecture = "LlamaForCausalLM";
  model.config.layers = 2;
  model.config.hidden = 64;
  model.config.heads = 4;
  model.config.kv_heads = 2;
  model.config.head_dim = 16;
  model.config.ffn = 128;
  model.config.vocab = 256;
  model.config.max_positions = 4096;
  model.config.windows = {0, 0};
  return model;
}

inline constexpr simulator::StepCost kCost = {.step = 1000, .row = 100, .prompt_token = 10};

// `count` requests of one length, `rate` of them each second.
inline simulator::Workload EvenLoad(int32_t count, double rate, int32_t input, int32_t output) {
  simulator::Workload load;
  for (int32_t i = 0; i < count; ++i) {
    load.requests.push_back({.at = base::Duration(static_cast<int64_t>(1e9 * i / rate)),
                             .input_tokens = input,
                             .output_tokens = output,
                             .hash_ids = {},
                             .recorded = nullptr});
  }
  return load;
}

// Workers of one device each, with room for ten thousand tokens.
inline WorkerBuild BuildOf(simulator::StepCost cost) {
  WorkerBuild build;
  build.cost = cost;
  build.kv_bytes_per_token = build.handoff_bytes_per_token = 256;
  build.kv_bytes_most = 10 * 256 * 1024 * 4;
  return build;
}

// Whether the SLO of TTFT and TPOT is kept by a load of equal requests.
inline Question QuestionOn(WorkerBuild build, simulator::Workload load, double ttft_ms,
                           double tpot_ms) {
  Question question;
  question.model = SmallModel();
  question.builds = {build};
  question.facts = FactsOf(load.requests, 0, 512, 0);
  question.runs = {std::move(load)};
  question.slo.limits = {{.metric = bench::SloMetric::kTtft, .limit_ms = ttft_ms},
                         {.metric = bench::SloMetric::kTpot, .limit_ms = tpot_ms}};
  question.max_devices = 8;
  question.max_model_len = 4096;
  return question;
}

}  // namespace baton::planner
