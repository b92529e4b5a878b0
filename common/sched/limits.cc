#include "common/sched/limits.h"

#include <algorithm>
#include <iterator>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "common/sample/request_limits.h"
#include "common/sample/validate.h"

namespace baton {
namespace {

// How many tokens of prompt and output a request may have here. A kPrefill holds no output, and its
// request runs on in a worker whose limits may differ.
int64_t TokensThatFit(const SequenceSpec& spec, const SequenceLimits& limits) {
  if (spec.kind == SequenceKind::kPrefill) return limits.max_model_len;
  return std::min(limits.max_model_len, limits.pool_tokens);
}

absl::Status CheckLengths(const SequenceSpec& spec, const SequenceLimits& limits) {
  const auto prompt = static_cast<int64_t>(spec.prompt.size());
  const auto generated = static_cast<int64_t>(spec.generated.size());
  const int64_t fits = TokensThatFit(spec, limits);
  const int64_t asked = spec.stop.max_tokens;
  if (asked > 0 && generated >= asked) {
    return InvalidArgument(Reason::kInvalidMaxTokens, "max_tokens",
                           absl::StrCat(generated, " tokens were accepted already and max_tokens ",
                                        "is ", asked, "; nothing is left to generate"));
  }
  if (spec.beams.on() && spec.kind != SequenceKind::kPrefill) {
    const int64_t output = std::max<int64_t>(asked, 1);
    const int64_t blocks = BeamPoolTokens(prompt, output, spec.beams.width, limits.block_size);
    if (blocks > limits.pool_tokens) {
      return TooLong("prompt", "prompt and max_tokens of each beam, in KV blocks", blocks,
                     limits.pool_tokens);
    }
  }
  if (asked > 0 && prompt + asked > fits && spec.kind != SequenceKind::kPrefill) {
    return TooLong("prompt", "prompt and max_tokens", prompt + asked, fits);
  }
  if (prompt + generated + 1 > fits) {
    return TooLong("prompt", "prompt and next token", prompt + generated + 1, fits);
  }
  if (prompt + generated > limits.pool_tokens) {
    return TooLong("prompt", "prompt in KV blocks", prompt + generated, limits.pool_tokens);
  }
  return absl::OkStatus();
}

absl::Status CheckBeams(const SequenceSpec& spec, const SequenceLimits& limits) {
  if (!spec.beams.on()) return absl::OkStatus();
  BATON_RETURN_IF_ERROR(ValidateBeams(spec.beams, spec.sampling, spec.stop));
  BATON_RETURN_IF_ERROR(
      CheckBeamCandidates(spec.beams, limits.eos_ids, spec.stop, limits.vocab_size));
  if (spec.beams.width > limits.max_beams && spec.kind != SequenceKind::kPrefill) {
    return MakeError(absl::StatusCode::kInvalidArgument,
                     {.reason = Reason::kLimitExceeded,
                      .field = "beam_width",
                      .values = {{"have", absl::StrCat(spec.beams.width)},
                                 {"limit", absl::StrCat(limits.max_beams)}}},
                     absl::StrCat("beam_width is ", spec.beams.width, "; this worker computes ",
                                  limits.max_beams,
                                  " sequences in a step (--max-num-seqs, "
                                  "--max-num-batched-tokens): lower beam_width"));
  }
  if (!spec.generated.empty() || spec.score_from || !spec.guide.empty()) {
    return InvalidArgument(Reason::kConflictingOptions, "beam_width",
                           "a beam search begins with its prompt alone, follows no guide and "
                           "scores no prompt; leave generated_ids, guide and score_from out");
  }
  return absl::OkStatus();
}

}  // namespace

int32_t ResolveMaxTokens(const SequenceSpec& spec, const SequenceLimits& limits) {
  if (spec.stop.max_tokens > 0) return spec.stop.max_tokens;
  if (spec.beams.on() && spec.kind != SequenceKind::kPrefill) {
    const auto prompt = static_cast<int64_t>(spec.prompt.size());
    const int64_t fits =
        BeamOutputThatFits(prompt, spec.beams.width, limits.block_size, limits.pool_tokens);
    return static_cast<int32_t>(std::min<int64_t>(fits, limits.max_model_len - prompt));
  }
  return static_cast<int32_t>(TokensThatFit(spec, limits) -
                              static_cast<int64_t>(spec.prompt.size()));
}

absl::Status CheckSpec(const SequenceSpec& spec, const SequenceLimits& limits) {
  if (spec.prompt.empty()) {
    return InvalidArgument(Reason::kEmptyPrompt, "prompt",
                           "the prompt has no tokens; expected at least one");
  }
  BATON_RETURN_IF_ERROR(CheckLimit(RequestLimit::kCacheSalt, std::ssize(spec.cache_salt)));
  BATON_RETURN_IF_ERROR(CheckTokenIds("prompt_ids", spec.prompt, limits.vocab_size));
  BATON_RETURN_IF_ERROR(CheckTokenIds("generated_ids", spec.generated, limits.vocab_size));
  BATON_RETURN_IF_ERROR(ValidateSampling(spec.sampling, limits.vocab_size));
  BATON_RETURN_IF_ERROR(ValidateStop(spec.stop, limits.vocab_size));
  if (spec.score_from && *spec.score_from < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("score_from is ", *spec.score_from,
                     "; nothing foretells a prompt's first token, so give "
                     "the index of a later one"));
  }
  BATON_RETURN_IF_ERROR(ValidateGuide(spec.guide, spec.stop));
  BATON_RETURN_IF_ERROR(CheckBeams(spec, limits));
  return CheckLengths(spec, limits);
}

}  // namespace baton
