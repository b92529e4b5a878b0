#include "common/sample/beam_params.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "common/sample/request_limits.h"
#include "common/sample/validate.h"

namespace baton {
namespace {

constexpr float kMostLengthPenalty = 10;

absl::Status Beside(std::string_view field, std::string_view why) {
  return InvalidArgument(Reason::kConflictingOptions, field,
                         absl::StrCat(std::string(field), " stands beside beam_width; beam search ",
                                      std::string(why), ": leave one of the two out"));
}

absl::Status CheckDraws(const SamplingParams& sampling) {
  constexpr std::string_view kNoDraws = "keeps the most likely tokens and draws none";
  constexpr std::string_view kRaw = "ranks by the model's own probabilities";
  if (sampling.temperature != 0) return Beside("temperature", kNoDraws);
  if (sampling.top_k != 0) return Beside("top_k", kNoDraws);
  if (sampling.top_p != 1) return Beside("top_p", kNoDraws);
  if (sampling.min_p != 0) return Beside("min_p", kNoDraws);
  if (sampling.repetition_penalty != 1) return Beside("repetition_penalty", kRaw);
  if (sampling.presence_penalty != 0) return Beside("presence_penalty", kRaw);
  if (sampling.frequency_penalty != 0) return Beside("frequency_penalty", kRaw);
  if (sampling.no_repeat_ngram_size != 0) return Beside("no_repeat_ngram_size", kRaw);
  if (!sampling.logit_bias.empty()) return Beside("logit_bias", kRaw);
  return absl::OkStatus();
}

absl::Status CheckEnds(const StopParams& stop) {
  if (stop.eos_policy != EosPolicy::kHonor) {
    return Beside("eos_policy", "ends a beam at EOS, which it cannot ignore");
  }
  if (stop.min_tokens != 0) return Beside("min_tokens", "ends a beam wherever EOS is likely");
  if (stop.length_control) {
    return Beside("length_control", "has a length_penalty of its own");
  }
  return absl::OkStatus();
}

}  // namespace

int32_t BeamCandidates(int32_t width, std::span<const TokenId> eos_ids,
                       std::span<const TokenId> stop_ids) {
  std::vector<TokenId> ends(eos_ids.begin(), eos_ids.end());
  ends.insert(ends.end(), stop_ids.begin(), stop_ids.end());
  std::ranges::sort(ends);
  const auto rest = std::ranges::unique(ends);
  return width + static_cast<int32_t>(ends.size() - rest.size());
}

int64_t BeamPoolTokens(int64_t prompt, int64_t output, int32_t width, int64_t block_size) {
  const int64_t shared = prompt / block_size;
  const int64_t longest = (prompt + output + block_size - 1) / block_size;
  return (shared + width * (longest - shared)) * block_size;
}

int64_t BeamOutputThatFits(int64_t prompt, int32_t width, int64_t block_size, int64_t pool) {
  const int64_t shared = prompt / block_size;
  const int64_t own = std::max<int64_t>(0, pool / block_size - shared) / width;
  return std::max<int64_t>(0, (shared + own) * block_size - prompt);
}

absl::Status ValidateBeams(const BeamParams& beams, const SamplingParams& sampling,
                           const StopParams& stop) {
  if (!beams.on()) return absl::OkStatus();
  BATON_RETURN_IF_ERROR(CheckLimit(RequestLimit::kBeamWidth, beams.width));
  if (beams.results < 1 || beams.results > beams.width) {
    return InvalidArgument(Reason::kConflictingOptions, "n",
                           absl::StrCat("n is ", beams.results, " and beam_width ", beams.width,
                                        "; beam search gives 1 to beam_width answers"));
  }
  // A NaN fails the comparison, too.
  if (!(std::abs(beams.length_penalty) <= kMostLengthPenalty)) {
    return InvalidArgument(
        Reason::kInvalidSampling, "length_penalty",
        absl::StrCat("length_penalty is ", beams.length_penalty, "; expected a number from -",
                     kMostLengthPenalty, " to ", kMostLengthPenalty));
  }
  BATON_RETURN_IF_ERROR(CheckDraws(sampling));
  return CheckEnds(stop);
}

absl::Status CheckBeamCandidates(const BeamParams& beams, std::span<const TokenId> eos_ids,
                                 const StopParams& stop, int32_t vocab_size) {
  if (!beams.on()) return absl::OkStatus();
  const int32_t candidates = BeamCandidates(beams.width, eos_ids, stop.stop_token_ids);
  const int32_t most = std::min(kMaxTopLogprobs, vocab_size);
  if (candidates <= most) return absl::OkStatus();
  return MakeError(
      absl::StatusCode::kInvalidArgument,
      {.reason = Reason::kLimitExceeded,
       .field = "beam_width",
       .values = {{"have", absl::StrCat(candidates)}, {"limit", absl::StrCat(most)}}},
      absl::StrCat("beam_width ", beams.width, " and ", candidates - beams.width,
                   " ids that end an answer make ", candidates, "; together they may be ", most,
                   ": lower beam_width, or name fewer stop_token_ids"));
}

}  // namespace baton
