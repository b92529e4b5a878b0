// What swap space is worth to a worker that runs out of KV blocks: as many answers as there are
// places, closed loop, whose KV is computed again, swapped, or has room enough.
//   bench_swap [ROUNDS]
// The engine is that of a worker; the model is a Llama with random weights, in bfloat16 where the
// machine has it.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "common/base/check.h"
#include "common/engine/engine.h"
#include "common/model/load_model.h"
#include "common/model/random/random_model.h"
#include "tests/fakes/scratch_folder.h"

namespace baton::test {
namespace {

constexpr int32_t kPlaces = 12;
constexpr int32_t kRequests = 48;
constexpr int32_t kPromptTokens = 128;
constexpr int32_t kOutputTokens = 128;
constexpr int64_t kTightTokens = 1536;  // of 3072 that the places may need
constexpr int64_t kSwapTokens = 1664;

struct Setting {
  const char* name;
  int64_t kv_tokens, swap_tokens;
};

struct Answer {
  base::Instant first{}, last{};
  int32_t tokens = 0;
};

std::unique_ptr<LoadedModel> Load(const std::string& dir, const Setting& setting) {
  ModelOptions options;
  options.dtype = kernels::DType::kBF16;
  options.kv.tokens = setting.kv_tokens;
  options.limits = {.max_tokens = 512, .max_samples = kPlaces};
  auto config = LoadModelConfig(dir);
  BATON_CHECK(config.ok()) << config.status().ToString();
  const LocalShape shape = LocalShape::Of(*config, 0, 1).value();
  const auto layout = KvLayoutOf(*config, shape, kernels::DType::kBF16, options.block_size);
  options.swap_bytes = setting.swap_tokens * static_cast<int64_t>(layout.bytes_per_token());
  auto model = LoadModel(dir, options, nullptr);
  BATON_CHECK(model.ok()) << model.status().ToString();
  return *std::move(model);
}

SequenceSpec Request(int32_t index, int32_t vocab) {
  std::mt19937 random(static_cast<uint32_t>(index));
  SequenceSpec spec;
  for (int32_t i = 0; i < kPromptTokens; ++i) {
    spec.prompt.push_back(static_cast<TokenId>(random() % static_cast<uint32_t>(vocab)));
  }
  spec.stop.max_tokens = kOutputTokens;
  spec.stop.eos_policy = EosPolicy::kIgnoreMask;
  spec.sampling.temperature = 0;
  return spec;
}

double Quantile(std::vector<double> values, double share) {
  std::sort(values.begin(), values.end());
  return values[static_cast<size_t>(share * static_cast<double>(values.size() - 1))];
}

void Run(const std::string& dir, const Setting& setting) {
  auto model = Load(dir, setting);
  EngineOptions options;
  options.max_model_len = 512;
  options.max_num_seqs = kPlaces;
  options.max_prefill_tokens = options.max_num_batched_tokens = 512;
  options.vocab_size = model->config.vocab;
  options.swap_blocks = model->swap_blocks();
  options.swap_costs = {.out_s = model->swap_times.out_s, .in_s = model->swap_times.in_s};
  const base::SteadyClock clock;
  auto engine = *Engine::Start(options, model->kv_cache(), std::move(model->runner), &clock);
  std::map<SequenceId, Answer> answers;
  int32_t admitted = 0, over = 0;
  const base::Instant begin = clock.Now();
  while (over < kRequests) {
    while (admitted < kRequests && admitted - over < kPlaces) {
      const auto id = engine->Admit(Request(admitted++, model->config.vocab));
      BATON_CHECK(id.ok()) << id.status().ToString();
    }
    auto event =
        engine->events().PopUntil(std::chrono::steady_clock::now() + std::chrono::seconds(60));
    BATON_CHECK(event.has_value()) << "nothing happens";
    const auto* said = std::get_if<SequenceEvent>(&*event);
    if (said == nullptr) continue;
    if (std::holds_alternative<FinishedEvent>(said->what)) ++over;
    if (!std::holds_alternative<TokenEvent>(said->what)) continue;
    Answer& answer = answers[said->sequence];
    if (answer.tokens++ == 0) answer.first = said->at;
    answer.last = said->at;
  }
  const double seconds = base::Seconds(clock.Now() - begin);
  std::vector<double> tpot_ms;
  for (const auto& [id, answer] : answers) {
    tpot_ms.push_back(base::Milliseconds(answer.last - answer.first) / (answer.tokens - 1));
  }
  const EngineFigures figures = engine->figures();
  std::printf(
      "%-9s KV %5lld, swap %5lld tokens: %6.1f tokens/s, TPOT p50 %6.2f ms, p90 %6.2f ms; "
      "preempted %llu, swapped %llu, blocks out %llu, in %llu; a block %.0f us out, %.0f us in; "
      "a prompt token %.0f us\n",
      setting.name, static_cast<long long>(setting.kv_tokens),
      static_cast<long long>(setting.swap_tokens), kRequests * kOutputTokens / seconds,
      Quantile(tpot_ms, 0.5), Quantile(tpot_ms, 0.9),
      static_cast<unsigned long long>(figures.preemptions),
      static_cast<unsigned long long>(figures.swaps),
      static_cast<unsigned long long>(figures.blocks_swapped_out),
      static_cast<unsigned long long>(figures.blocks_swapped_in), 1e6 * model->swap_times.out_s,
      1e6 * model->swap_times.in_s, 1e6 * figures.prompt_token_s);
  std::fflush(stdout);
  engine->Stop();
}

}  // namespace
}  // namespace baton::test

int main(int argc, char** argv) {
  using namespace baton;
  const int rounds = argc > 1 ? std::atoi(argv[1]) : 3;
  const ScratchFolder folder;
  const std::string dir = folder / "model";
  const absl::Status written = WriteRandomModel({.arch = "llama",
                                                 .layers = 12,
                                                 .hidden = 768,
                                                 .heads = 12,
                                                 .kv_heads = 12,
                                                 .head_dim = 64,
                                                 .ffn = 2048,
                                                 .vocab = 4096,
                                                 .dtype = "bfloat16"},
                                                dir);
  BATON_CHECK(written.ok()) << written.ToString();
  for (int round = 0; round < rounds; ++round) {
    for (const test::Setting& setting :
         {test::Setting{"recompute", test::kTightTokens, 0},
          test::Setting{"swap", test::kTightTokens, test::kSwapTokens},
          test::Setting{"room", test::kTightTokens + test::kSwapTokens, 0}}) {
      test::Run(dir, setting);
    }
  }
  return 0;
}
