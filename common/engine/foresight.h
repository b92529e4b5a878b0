#pragma once

#include <optional>

#include "common/base/clock.h"
#include "common/base/end_estimate.h"
#include "common/base/eos_signal.h"
#include "common/base/ids.h"
#include "common/eos/predict/end_predictor.h"
#include "common/sched/events.h"
#include "common/sched/sequence.h"
#include "common/sched/step_plan.h"

namespace baton {

// What an engine asks its predictor and tells it, step by step. Without a predictor nothing is
// foreseen. It belongs to whoever runs the steps, and is as little thread-safe as the predictor.
class Foresight final {
 public:
  // `predictor` may be null; else it outlives this.
  explicit Foresight(EndPredictor* predictor) : predictor_(predictor) {}

  // A sequence comes in. Returns what is to be expected before its next token.
  std::optional<EndEstimate> Begin(SequenceId id, const SequenceSpec& spec) const;
  // Replaces the estimate on the first token of a sequence, which another worker drew.
  void TakeFirst(SequenceId id, SampledToken* first) const;
  // Looks at the tokens of a step that is not committed, and writes estimates into them.
  void Take(const StepPlan& plan, StepOutput* output) const;
  // Tells the predictor what happened to a sequence, and puts what it answers into the event.
  void Tell(SchedEvent* event) const;

 private:
  EndPredictor* const predictor_;
};

}  // namespace baton
