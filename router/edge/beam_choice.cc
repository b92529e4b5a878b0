#include "router/edge/beam_choice.h"

#include <string>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"

namespace baton {
namespace {

EarlyStopping EarlyStoppingOf(v1::EarlyStopping value) {
  if (value == v1::EARLY_STOPPING_TRUE) return EarlyStopping::kTrue;
  if (value == v1::EARLY_STOPPING_NEVER) return EarlyStopping::kNever;
  return EarlyStopping::kFalse;
}

absl::Status ConflictWithBeams(std::string_view field, std::string_view why) {
  return InvalidArgument(Reason::kConflictingOptions, field,
                         absl::StrCat(std::string(field), " stands beside beam_width; ",
                                      std::string(why), ": leave one of the two out"));
}

absl::Status CheckNoBeams(const v1::SamplingParams& sampling) {
  const bool penalty = sampling.has_length_penalty() && sampling.length_penalty() != 1;
  const bool early = EarlyStoppingOf(sampling.early_stopping()) != EarlyStopping::kFalse;
  if (!penalty && !early) return absl::OkStatus();
  const std::string name = penalty ? "length_penalty" : "early_stopping";
  return InvalidArgument(
      Reason::kConflictingOptions, absl::StrCat("spec.sampling.", name),
      absl::StrCat(name, " is of beam search; give a beam_width above 1, or leave it out"));
}

// What the request itself says about drawing, which is held against beams. What the model's files
// say does not count, and neither does a temperature of 1, which clients send by themselves.
SamplingParams AskedSampling(const v1::SamplingParams& given) {
  SamplingParams asked;
  asked.temperature = given.has_temperature() && given.temperature() != 1 ? given.temperature() : 0;
  if (given.has_top_k()) asked.top_k = given.top_k();
  if (given.has_top_p()) asked.top_p = given.top_p();
  if (given.has_min_p()) asked.min_p = given.min_p();
  if (given.has_repetition_penalty()) asked.repetition_penalty = given.repetition_penalty();
  if (given.has_presence_penalty()) asked.presence_penalty = given.presence_penalty();
  if (given.has_frequency_penalty()) asked.frequency_penalty = given.frequency_penalty();
  if (given.has_no_repeat_ngram_size()) asked.no_repeat_ngram_size = given.no_repeat_ngram_size();
  asked.logit_bias.assign(given.logit_bias().begin(), given.logit_bias().end());
  return asked;
}

absl::Status CheckBeside(const v1::GenerationSpec& spec, const RequestSpec& checked) {
  constexpr std::string_view kSteps =
      "a token of a search is one of several beams, so nothing is told of single ones";
  constexpr std::string_view kPrompt =
      "the prompt is told beside one answer that is drawn; ask for it with max_tokens 0";
  if (!spec.preset().empty()) return ConflictWithBeams("spec.preset", "it says how to draw");
  if (spec.sampling().has_best_of()) {
    return ConflictWithBeams("spec.sampling.best_of", "beams are ranked by their own scores");
  }
  if (!checked.guide.empty()) {
    return ConflictWithBeams(absl::StrCat("spec.", std::string(GuideFieldName(checked.guide.kind))),
                             "beams follow no guide");
  }
  if (spec.stop().stop_size() > 0) {
    return ConflictWithBeams("spec.stop.stop", "beams end by ids, which stop_token_ids may add");
  }
  if (spec.output().has_logprobs()) return ConflictWithBeams("spec.output.logprobs", kSteps);
  if (checked.echo) return ConflictWithBeams("spec.output.echo", kPrompt);
  if (checked.prompt_logprobs) {
    return ConflictWithBeams("spec.output.prompt_logprobs", kPrompt);
  }
  if (checked.eos_probe) return ConflictWithBeams("spec.eos.probe", kSteps);
  if (checked.eos_steps) return ConflictWithBeams("spec.eos.steps", kSteps);
  if (checked.predict_every > 0) return ConflictWithBeams("spec.eos.predict", kSteps);
  return absl::OkStatus();
}

// Spells the field of an error as in GenerationSpec.
absl::Status NamedInSpec(const absl::Status& status) {
  ErrorDetail detail = DetailOf(status);
  if (status.ok() || detail.field.starts_with("spec.")) return status;
  const bool stop = detail.field == "eos_policy" || detail.field == "min_tokens" ||
                    detail.field == "length_control";
  detail.field = absl::StrCat(stop ? "spec.stop." : "spec.sampling.", detail.field);
  return MakeError(status.code(), std::move(detail),
                   {status.message().data(), status.message().size()});
}

}  // namespace

absl::Status TakeBeams(const v1::GenerationSpec& spec, const ServedModel& model,
                       RequestSpec* checked) {
  const v1::SamplingParams& sampling = spec.sampling();
  if (!v1::EarlyStopping_IsValid(sampling.early_stopping())) {
    return InvalidArgument(
        Reason::kInvalidSampling, "spec.sampling.early_stopping",
        absl::StrCat("early_stopping is ", static_cast<int>(sampling.early_stopping()),
                     "; expected a value of EarlyStopping"));
  }
  if (sampling.beam_width() < 0) {
    return InvalidArgument(Reason::kInvalidSampling, "spec.sampling.beam_width",
                           absl::StrCat("beam_width is ", sampling.beam_width(),
                                        "; expected 2 or more, or leave it out"));
  }
  if (sampling.beam_width() <= 1) return CheckNoBeams(sampling);
  const BeamParams beams = {
      .width = sampling.beam_width(),
      .results = sampling.has_n() ? sampling.n() : 1,
      .length_penalty = sampling.has_length_penalty() ? sampling.length_penalty() : 1,
      .early_stopping = EarlyStoppingOf(sampling.early_stopping())};
  BATON_RETURN_IF_ERROR(CheckBeside(spec, *checked));
  BATON_RETURN_IF_ERROR(NamedInSpec(ValidateBeams(beams, AskedSampling(sampling), checked->stop)));
  BATON_RETURN_IF_ERROR(
      NamedInSpec(CheckBeamCandidates(beams, model.eos_ids(), checked->stop, model.config.vocab)));
  checked->beams = beams;
  // Nothing of the model's own defaults counts.
  const uint64_t seed = checked->sampling.seed;
  checked->sampling = SamplingParams{.temperature = 0, .seed = seed};
  return absl::OkStatus();
}

}  // namespace baton
