#pragma once

#include <optional>
#include <utility>
#include <variant>

#include "common/base/ids.h"
#include "common/engine/engine.h"
#include "common/sched/events.h"
#include "common/sched/sequence.h"

namespace baton {

// One token that the engine draws for nobody, behind a prompt of its own. When nothing but spoilt
// logits came out for a while, this tells prompts that overflow from a device or weights that are
// broken and spoil whatever they compute. It belongs to the engine's thread.
class SelfTest {
 public:
  explicit SelfTest(const EngineOptions& options)
      : prompt_(options.eos_ids.empty() ? 0 : options.eos_ids.front()) {}

  // What is to be computed: behind an EOS token, which every model has learnt.
  SequenceSpec Spec() const {
    SequenceSpec spec;
    spec.prompt = {prompt_};
    spec.sampling.temperature = 0;
    spec.stop.max_tokens = 1;
    return spec;
  }

  bool runs() const { return sequence_.has_value(); }
  // It is computed as `sequence`.
  void Begin(SequenceId sequence) { sequence_ = sequence; }
  bool Owns(SequenceId sequence) const { return sequence_ == sequence; }
  // What happened to its sequence.
  void Take(const SchedEvent& event) {
    const auto* finished = std::get_if<FinishedEvent>(&event.what);
    if (finished == nullptr) return;
    sequence_.reset();
    if (!finished->status.ok()) failed_ = true;
  }
  // Whether one gave no token since this was last asked.
  bool TakeFailure() { return std::exchange(failed_, false); }

 private:
  const TokenId prompt_;
  std::optional<SequenceId> sequence_;
  bool failed_ = false;
};

}  // namespace baton
