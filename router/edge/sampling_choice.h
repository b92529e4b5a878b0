#pragma once

#include <cstdint>

#include "absl/status/statusor.h"
#include "baton/v1/inference.pb.h"
#include "common/sample/params.h"
#include "router/edge/served_model.h"

namespace baton {

// How the tokens of a request are drawn. Each number comes from the first of these that has it: the
// request, the preset that it names, the model's generation_config.json, the default. `seed` is
// used when the request has none. Refuses an unknown preset; the numbers themselves are unchecked.
absl::StatusOr<SamplingParams> ResolveSampling(const v1::GenerationSpec& spec,
                                               const ServedModel& model, uint64_t seed);

// The numbers from `temperature` to `no_repeat_ngram_size`, as Started tells them.
v1::SamplingParams SamplingNumbers(const SamplingParams& params);

}  // namespace baton
