#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/base/clock.h"
#include "common/base/ids.h"
#include "common/sample/beam_params.h"
#include "common/sample/guide_spec.h"
#include "common/sample/params.h"

namespace baton {

class SequenceGuide;

// What a worker's engine does for one request attempt.
enum class SequenceKind {
  kLocal,    // prefill here and decode here (`local_prefill`, unified mode)
  kPrefill,  // prefill here, sample one token, keep the blocks until the push is over
  kReserved  // blocks granted here, KV arrives from a prefill worker, then decode here
};

enum class SequenceState {
  kQueued,
  kReserved,
  kPrefilling,
  kDecoding,
  kPreempted,
  kDone,
  kFailed,
};
// The name of a state in lower case, as the metric label `stage` has it: "queued", …
std::string_view SequenceStateName(SequenceState state);

// A request attempt as it enters an engine. Ids and lengths are validated by Engine::Admit.
struct SequenceSpec {
  SequenceKind kind = SequenceKind::kLocal;
  std::vector<TokenId> prompt;
  std::vector<TokenId> generated;  // accepted tokens of earlier attempts
  SamplingParams sampling;
  StopParams stop;
  BeamParams beams;  // on: nothing is drawn, and `generated` is empty
  GuideSpec guide;
  // The state of `guide` behind `generated`, which the worker makes before the sequence enters an
  // engine. Shared with the threads that work out its masks. Null without a guide.
  std::shared_ptr<SequenceGuide> follows;
  // Nobody reads what is measured at the tokens that the guide forces, so they may come without.
  bool bare_forced = false;
  // The output step, counted from 1, of the natural end, if an earlier attempt saw it already.
  std::optional<int32_t> natural_end_step;
  // The last output step with `end_chance` on its token, 0 if none had it; absent if the caller
  // does not know.
  std::optional<int32_t> end_chance_step;
  // The index in `prompt`, >= 1, of the first token that is to be scored; absent: none is. The
  // blocks that hold what is scored are computed here, even if they are cached.
  std::optional<int32_t> score_from;
  std::string cache_salt;                 // separates tenants in the prefix cache; "" = shared
  std::string length_class;               // requests of one are expected to be of similar length
  base::Instant deadline = base::kNever;  // the request's
  // How long the request had waited elsewhere before it came here. It keeps its turn by that.
  base::Duration waited{};
  // How long a kReserved may stand in the line, while nothing ends here, before it is refused as
  // FULL.
  base::Duration reserve_timeout = std::chrono::seconds(5);
};

}  // namespace baton
