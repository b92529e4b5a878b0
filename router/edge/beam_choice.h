#pragma once

#include "absl/status/status.h"
#include "baton/v1/inference.pb.h"
#include "router/edge/request_spec.h"
#include "router/edge/served_model.h"

namespace baton {

// Notes in `checked` the beam search that `spec` asks for, if it does; `checked` is resolved but
// for its number of answers. Refuses parameters out of their ranges (INVALID_SAMPLING,
// LIMIT_EXCEEDED), whatever cannot stand beside beams, and what stands without them
// (CONFLICTING_OPTIONS).
absl::Status TakeBeams(const v1::GenerationSpec& spec, const ServedModel& model,
                       RequestSpec* checked);

}  // namespace baton
