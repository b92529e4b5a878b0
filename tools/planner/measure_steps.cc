#include "tools/planner/measure_steps.h"

#include <algorithm>
#include <chrono>
#include <memory>
#include <optional>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/clock.h"
#include "common/base/status.h"
#include "common/engine/engine.h"
#include "common/model/load_model.h"

namespace baton::planner {
namespace {

constexpr int32_t kMostBatch = 64;
constexpr int32_t kDecodeSteps = 20;  // of a full batch
constexpr int32_t kPromptRounds = 5;
constexpr int64_t kMostTokens = 16384;  // of one batch
// Where so much time is gone, larger sizes are left out: a measurement should take seconds.
constexpr base::Duration kEnoughTime = std::chrono::seconds(20);
constexpr size_t kFewestSizes = 5;  // of prompts, and of batches, that are measured all the same
constexpr base::Duration kPatience = std::chrono::seconds(60);  // for one step

double MedianOf(std::vector<double>* values) {
  const auto middle = values->begin() + static_cast<ptrdiff_t>(values->size() / 2);
  std::nth_element(values->begin(), middle, values->end());
  return *middle;
}

// One engine and what is asked of it.
class Measurement final {
 public:
  static absl::StatusOr<std::unique_ptr<Measurement>> Start(LoadedModel* model,
                                                            int32_t max_prefill_tokens) {
    auto made = std::unique_ptr<Measurement>(new Measurement(*model));
    EngineOptions options;
    options.max_model_len = model->config.max_positions;
    options.max_num_seqs = kMostBatch;
    options.max_prefill_tokens = max_prefill_tokens;
    options.max_num_batched_tokens = max_prefill_tokens;
    options.enable_prefix_caching = false;
    options.vocab_size = model->config.vocab;
    options.overlap = model->runner->max_in_flight() > 1;
    BATON_ASSIGN_OR_RETURN(made->engine_, Engine::Start(options, model->kv_cache(),
                                                        std::move(model->runner), &made->clock_));
    return made;
  }
  ~Measurement() {
    if (engine_ != nullptr) engine_->Stop();
  }

  // The time from the arrival of a prompt to its token, in ms.
  absl::StatusOr<double> Prompt(int32_t tokens) {
    std::vector<double> times;
    for (int32_t round = 0; round <= kPromptRounds; ++round) {
      const base::Instant begin = clock_.Now();
      BATON_RETURN_IF_ERROR(Ask(tokens, 1));
      BATON_ASSIGN_OR_RETURN(const Seen seen, Watch(1, 0));
      // The first round warms caches up.
      if (round > 0) times.push_back(1e3 * base::Seconds(seen.last_token - begin));
    }
    return MedianOf(&times);
  }

  // The time from step to step of a full batch, in ms; empty where there were no two such steps,
  // because the first sequences were over before the last ones came.
  absl::StatusOr<std::optional<double>> Batch(int32_t batch, int32_t context, int32_t answer) {
    for (int32_t i = 0; i < batch; ++i) BATON_RETURN_IF_ERROR(Ask(context, answer));
    BATON_ASSIGN_OR_RETURN(Seen seen, Watch(batch, batch));
    if (seen.gaps_ms.empty()) return std::nullopt;
    return MedianOf(&seen.gaps_ms);
  }

 private:
  explicit Measurement(const LoadedModel& model) : vocab_(model.config.vocab) {}

  absl::Status Ask(int32_t tokens, int32_t answer) {
    SequenceSpec spec;
    for (int32_t i = 0; i < tokens; ++i) spec.prompt.push_back((7 * i + asked_) % vocab_);
    ++asked_;
    spec.stop.max_tokens = answer;
    spec.stop.eos_policy = EosPolicy::kIgnoreMask;
    return engine_->Admit(std::move(spec)).status();
  }

  struct Seen {
    base::Instant last_token{};
    std::vector<double> gaps_ms;  // between neighbouring steps of so many rows and no prompt
  };
  // Until `ends` sequences are over.
  absl::StatusOr<Seen> Watch(int32_t ends, int32_t rows) {
    Seen seen;
    base::Instant full_step{};  // the step before, if it was such a step
    while (ends > 0) {
      const auto event = engine_->events().PopUntil(clock_.Now() + kPatience);
      if (!event) return absl::DeadlineExceededError("a step took longer than a minute");
      if (const auto* const fault = std::get_if<FaultEvent>(&*event)) return fault->status;
      if (const auto* const step = std::get_if<StepEvent>(&*event)) {
        const bool full = step->prefill_tokens == 0 && step->decode_sequences == rows;
        if (full && full_step != base::Instant{}) {
          seen.gaps_ms.push_back(1e3 * base::Seconds(step->at - full_step));
        }
        full_step = full ? step->at : base::Instant{};
      } else if (const auto* const said = std::get_if<SequenceEvent>(&*event)) {
        if (std::holds_alternative<TokenEvent>(said->what)) seen.last_token = said->at;
        if (std::holds_alternative<FinishedEvent>(said->what)) --ends;
      }
    }
    return seen;
  }

  const int32_t vocab_;
  const base::SteadyClock clock_;
  std::unique_ptr<Engine> engine_;
  int32_t asked_ = 0;
};

}  // namespace

absl::StatusOr<nlohmann::ordered_json> MeasureSteps(const std::string& model_dir,
                                                    const MeasureOptions& options) {
  ModelOptions model_options = options.model;
  model_options.kv.tokens = 2 * kMostTokens;
  model_options.limits = {.max_tokens = std::max(options.max_prefill_tokens, kMostBatch),
                          .max_samples = kMostBatch};
  BATON_ASSIGN_OR_RETURN(const auto model, LoadModel(model_dir, model_options, nullptr));
  nlohmann::ordered_json json = {{"numerics", model->numerics()},
                                 {"threads", model->threads()},
                                 {"prefill", nlohmann::ordered_json::array()},
                                 {"decode", nlohmann::ordered_json::array()}};
  const int32_t positions = model->config.max_positions;
  BATON_ASSIGN_OR_RETURN(const auto measurement,
                         Measurement::Start(model.get(), options.max_prefill_tokens));
  const base::SteadyClock clock;
  const base::Instant begin = clock.Now();
  const auto enough = [&](const char* kind) {
    return clock.Now() - begin > kEnoughTime && json[kind].size() >= kFewestSizes;
  };
  for (const int32_t tokens : {16, 32, 64, 128, 256, 512, 1024, 2048}) {
    if (tokens > options.max_prefill_tokens || tokens + 2 > positions || enough("prefill"))
      continue;
    BATON_ASSIGN_OR_RETURN(const double ms, measurement->Prompt(tokens));
    json["prefill"].push_back({{"count", 1}, {"tokens", tokens}, {"ms", ms}});
  }
  for (const int32_t context : {32, 128, 512, 1024}) {
    for (const int32_t batch : {1, 2, 4, 8, 16, 32, kMostBatch}) {
      // Sequences that begin first generate while the others' prompts are read.
      const int64_t all = int64_t{batch} * context;
      const auto earlier = static_cast<int32_t>(all / options.max_prefill_tokens) + 1;
      const int32_t answer = kDecodeSteps + earlier;
      if (all > kMostTokens || context + answer + 1 > positions || enough("decode")) continue;
      BATON_ASSIGN_OR_RETURN(const auto ms, measurement->Batch(batch, context, answer));
      if (!ms) continue;
      json["decode"].push_back({{"batch", batch},
                                {"context", context},
                                {"mean_context", context + 0.5 * answer},
                                {"ms", *ms}});
    }
  }
  return json;
}

}  // namespace baton::planner
