#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "common/base/end_estimate.h"
#include "common/base/eos_signal.h"
#include "common/base/ids.h"
#include "common/eos/predict/learnt_survival.h"
#include "common/eos/predict/predictor_file.h"
#include "common/eos/predict/signal_features.h"
#include "common/sample/params.h"

namespace baton {

// How a sequence was over, as far as its end was the model's.
struct SequenceOutcome {
  FinishReason reason = FinishReason::kNone;
  std::optional<int32_t> natural_end_step;  // 1-based, of requests that ignore EOS
  int32_t generated_tokens = 0;             // of all attempts
  int32_t max_tokens = 0;                   // as many it might have generated
};

// Estimates when the sequences of one engine end: by the model of a predictor file if there is one
// and it can be used, else by survival learnt while serving, else not at all. What it carries per
// sequence does not grow with the answer. It only looks: no token depends on it.
//
// The engine's thread alone calls what takes a SequenceId; the rest is thread-safe.
class EndPredictor final {
 public:
  // `file` may be null. `boundaries`, by token id: common/base/token_boundary.h.
  EndPredictor(std::unique_ptr<const PredictorFile> file, std::vector<uint8_t> boundaries);
  ~EndPredictor();

  // A sequence is there. `generated` are tokens of earlier attempts, whose signals are not known
  // here. `learns`: its end is seen here, so survival may learn from it. Returns what is known
  // before the next token.
  std::optional<EndEstimate> Begin(SequenceId id, const PredictRequest& request,
                                   std::span<const TokenId> generated, bool learns);
  // The token of `step` was drawn, which is the one behind the last. Any other step ends the
  // estimates of the sequence: none is better than one that is off by a step.
  std::optional<EndEstimate> Take(SequenceId id, int32_t step, const SampledToken& token);
  // The first token of a sequence, where another worker drew it.
  std::optional<EndEstimate> TakeFirst(SequenceId id, const SampledToken& token);
  // The last token was the end that the model wanted, and the request goes on regardless.
  void NaturalEnd(SequenceId id);
  // The sequence is over. Returns what came of some of its estimates: one of every 16 steps, and of
  // a long answer the first 64 and the last 64 of these.
  std::vector<EndScore> End(SequenceId id, const SequenceOutcome& outcome);
  // The sequence is gone without an end.
  void Drop(SequenceId id);
  size_t live() const;

  // What survival says behind `step` of requests of a class that have at least `min_tokens`, if it
  // knows.
  std::optional<EndEstimate> Learnt(std::string_view length_class, int32_t step,
                                    int32_t min_tokens) const;
  LearntSurvival& survival() { return survival_; }
  // What makes the estimates where it can.
  PredictorKind kind() const { return file_ ? file_->model->kind() : PredictorKind::kLearnt; }
  // The file's name and first digits of its checksum; empty without one.
  std::string version() const;

 private:
  struct Live;

  std::optional<EndEstimate> Estimate(Live* live) const;
  void Remember(const EndEstimate& estimate, Live* live) const;

  const std::unique_ptr<const PredictorFile> file_;
  const std::vector<uint8_t> boundaries_;
  LearntSurvival survival_;
  absl::flat_hash_map<SequenceId, std::unique_ptr<Live>> live_;
};

}  // namespace baton
