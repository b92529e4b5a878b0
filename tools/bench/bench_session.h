#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "common/text/tokenizer.h"
#include "tools/bench/bench_flags.h"
#include "tools/bench/load/stream_client.h"
#include "tools/bench/plan/plan_builder.h"
#include "tools/bench/report/progress_view.h"
#include "tools/bench/report/result_json.h"
#include "tools/bench/report/rows_file.h"
#include "tools/bench/server_facts.h"

namespace baton::bench {

// What the flags leave open of one run.
struct RunSpec {
  std::string label;  // "run 2 of 3", "4.2 requests/s"
  EosMode eos = EosMode::kHonor;
  uint64_t seed = 0;
  std::optional<double> rate;
  std::optional<int32_t> concurrency;
  int64_t requests = 0;  // 0 = as `duration` or the trace says
  base::Duration duration{};
};

// A server that was asked, and everything that its runs have in common. Not thread-safe.
class BenchSession final {
 public:
  // `stop` ends the run under way, `progress` shows it; both outlive the session.
  static absl::StatusOr<std::unique_ptr<BenchSession>> Open(const BenchFlags& flags,
                                                            const std::atomic<bool>* stop,
                                                            ProgressView* progress);

  // Plans, loads and computes. An error means that no load was made; what went wrong during the
  // load stands in the result.
  absl::StatusOr<RunResult> Run(const RunSpec& spec);

  // Requests that the plan of one run can hold, at the lengths that the flags ask for.
  absl::StatusOr<int64_t> MostRequestsOfARun() const;

  const ServerFacts& facts() const { return facts_; }
  const std::optional<Slo>& slo() const { return slo_; }
  // What the prompts of an openai server are drawn from beside the seed; absent where a prefix
  // cache is kept from helping by other means.
  const std::optional<int64_t>& prompt_salt() const { return prompt_salt_; }
  bool stopped() const { return stop_->load(); }

 private:
  BenchSession(const BenchFlags& flags, const std::atomic<bool>* stop, ProgressView* progress)
      : flags_(flags), stop_(stop), progress_(progress) {}
  absl::Status Prepare();
  void SaltPrompts();
  PlanOptions PlanOptionsOf(const RunSpec& spec) const;
  absl::StatusOr<std::unique_ptr<StreamClient>> Connect(const RunSpec& spec) const;
  void Announce(const RunSpec& spec, const PlanSummary& plan) const;
  void WarnOfPromptCounts(const RunResult& run);

  const BenchFlags flags_;
  const std::atomic<bool>* const stop_;
  ProgressView* const progress_;
  ServerFacts facts_;
  std::optional<Slo> slo_;
  std::unique_ptr<Tokenizer> tokenizer_;  // of --tokenizer; else null
  std::optional<LengthDistribution> input_;
  std::optional<LengthDistribution> output_;
  std::optional<int64_t> prompt_salt_;
  bool warned_of_counts_ = false;
};

}  // namespace baton::bench
