#include "router/edge/sampling_choice.h"

#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "common/sample/presets.h"

namespace baton {
namespace {

constexpr size_t kPresetBytesShown = 64;

absl::Status UnknownPreset(const std::string& name) {
  const std::string found = name.size() <= kPresetBytesShown
                                ? absl::StrCat("no preset '", name, "'")
                                : absl::StrCat("no preset of a name of ", name.size(), " bytes");
  return InvalidArgument(
      Reason::kInvalidSampling, "spec.preset",
      absl::StrCat(found, "; expected one of ", SamplingPresetNames(), ", or leave it out"));
}

// What stands where the request says nothing.
absl::StatusOr<SamplingParams> UsualSampling(const std::string& preset_name,
                                             const ServedModel& model) {
  SamplingParams params = model.DefaultSampling();
  if (preset_name.empty()) return params;
  const SamplingPreset* preset = FindSamplingPreset(preset_name);
  if (preset == nullptr) return UnknownPreset(preset_name);
  ApplySamplingPreset(*preset, &params);
  return params;
}

}  // namespace

absl::StatusOr<SamplingParams> ResolveSampling(const v1::GenerationSpec& spec,
                                               const ServedModel& model, uint64_t seed) {
  const v1::SamplingParams& given = spec.sampling();
  BATON_ASSIGN_OR_RETURN(SamplingParams params, UsualSampling(spec.preset(), model));
  if (given.has_temperature()) params.temperature = given.temperature();
  if (given.has_top_p()) params.top_p = given.top_p();
  if (given.has_top_k()) params.top_k = given.top_k();
  if (given.has_min_p()) params.min_p = given.min_p();
  if (given.has_repetition_penalty()) params.repetition_penalty = given.repetition_penalty();
  if (given.has_presence_penalty()) params.presence_penalty = given.presence_penalty();
  if (given.has_frequency_penalty()) params.frequency_penalty = given.frequency_penalty();
  if (given.has_no_repeat_ngram_size()) params.no_repeat_ngram_size = given.no_repeat_ngram_size();
  params.seed = given.has_seed() ? given.seed() : seed;
  params.logit_bias.assign(given.logit_bias().begin(), given.logit_bias().end());
  std::sort(params.logit_bias.begin(), params.logit_bias.end());
  params.num_top_logprobs = spec.output().logprobs();
  return params;
}

v1::SamplingParams SamplingNumbers(const SamplingParams& params) {
  v1::SamplingParams numbers;
  numbers.set_temperature(params.temperature);
  numbers.set_top_p(params.top_p);
  numbers.set_top_k(params.top_k);
  numbers.set_min_p(params.min_p);
  numbers.set_repetition_penalty(params.repetition_penalty);
  numbers.set_presence_penalty(params.presence_penalty);
  numbers.set_frequency_penalty(params.frequency_penalty);
  numbers.set_no_repeat_ngram_size(params.no_repeat_ngram_size);
  return numbers;
}

}  // namespace baton
