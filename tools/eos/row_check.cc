#include "tools/eos/row_check.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace baton {
namespace {

constexpr double kRelativeError = 1e-6;
// Below this, a probability has lost digits of its own.
constexpr double kSmallest = 1e-300;

std::string Differs(std::string_view key, std::string_view found, std::string_view expected) {
  return absl::StrCat(std::string(key), ": found ", std::string(found), ", expected ",
                      std::string(expected));
}

std::string Text(const std::optional<int32_t>& value) {
  return value ? absl::StrCat(*value) : std::string("null");
}

std::string CheckProbability(const EosLogRow& row) {
  if (!row.eos_prob) {
    return row.eos_logprob ? Differs("eos_prob", "null", "exp(eos_logprob)") : "";
  }
  if (!row.eos_logprob) {
    // The logarithm of zero is not finite, and therefore null.
    return *row.eos_prob == 0 ? "" : Differs("eos_logprob", "null", "the logarithm of eos_prob");
  }
  const double expected = std::exp(*row.eos_logprob);
  if (std::abs(*row.eos_prob - expected) <= kRelativeError * expected + kSmallest) return "";
  return Differs("eos_prob", absl::StrFormat("%.10g", *row.eos_prob),
                 absl::StrFormat("exp(eos_logprob) = %.10g", expected));
}

std::string CheckEnd(const EosLogRow& row) {
  const bool has_reason = row.finish_reason != FinishReason::kNone;
  if (row.is_finished && !has_reason) {
    return Differs("finish_reason", "null", "a reason, because is_finished is true");
  }
  if (!row.is_finished && has_reason) {
    return Differs("finish_reason", FinishReasonName(row.finish_reason),
                   "null, because is_finished is false");
  }
  const bool needs_eos =
      row.finish_reason == FinishReason::kStopEos || row.finish_reason == FinishReason::kRunaway;
  if (needs_eos && row.policy != EosPolicy::kHonor) {
    return Differs("finish_reason", FinishReasonName(row.finish_reason),
                   "another one under eos_policy " + std::string(EosPolicyName(row.policy)));
  }
  return "";
}

std::string CheckNaturalEnd(const EosLogRow& row) {
  if (!row.natural_end_step) return "";
  if (*row.natural_end_step > row.step) {
    return Differs("natural_end_step", Text(row.natural_end_step),
                   absl::StrCat("a step up to this one, ", row.step));
  }
  const bool here =
      row.finish_reason == FinishReason::kStopEos && *row.natural_end_step == row.step;
  if (row.policy == EosPolicy::kHonor && !here) {
    return Differs("natural_end_step", Text(row.natural_end_step),
                   "null under eos_policy honor before EOS");
  }
  return "";
}

// What one row says, without the others.
std::string CheckRow(const EosLogRow& row) {
  if (row.output_length != row.step) {
    return Differs("output_length", absl::StrCat(row.output_length),
                   absl::StrCat("step = ", row.step));
  }
  const int64_t total = int64_t{row.prompt_length} + row.output_length;
  if (row.total_length != total) {
    return Differs("total_length", absl::StrCat(row.total_length),
                   absl::StrCat("prompt_length + output_length = ", total));
  }
  std::string problem = CheckProbability(row);
  if (problem.empty()) problem = CheckEnd(row);
  if (problem.empty()) problem = CheckNaturalEnd(row);
  return problem;
}

}  // namespace

std::string RowCheck::CheckOrder(const Request& before, const EosLogRow& row) {
  if (row.step != before.step + 1) {
    const std::string expected = before.step == 0
                                     ? "1, for the request has no rows before or has ended"
                                     : absl::StrCat(before.step + 1, " after ", before.step);
    return Differs("step", absl::StrCat(row.step), expected);
  }
  if (before.step > 0 && row.prompt_length != before.prompt_length) {
    return Differs("prompt_length", absl::StrCat(row.prompt_length),
                   absl::StrCat(before.prompt_length, " as in the row before"));
  }
  if (before.step > 0 && row.eos_token_id != before.eos_token_id) {
    return Differs("eos_token_id", Text(row.eos_token_id),
                   Text(before.eos_token_id) + " as in the row before");
  }
  if (before.step > 0 && row.policy != before.policy) {
    return Differs("eos_policy", EosPolicyName(row.policy),
                   std::string(EosPolicyName(before.policy)) + " as in the row before");
  }
  if (row.attempt < before.attempt) {
    return Differs("attempt", absl::StrCat(row.attempt),
                   absl::StrCat(before.attempt, " as in the row before, or more"));
  }
  if (before.natural_end_step && row.natural_end_step != before.natural_end_step) {
    return Differs("natural_end_step", Text(row.natural_end_step),
                   Text(before.natural_end_step) + " as in the row before");
  }
  if (!before.natural_end_step && row.natural_end_step && *row.natural_end_step != row.step) {
    return Differs(
        "natural_end_step", Text(row.natural_end_step),
        absl::StrCat("null, or this step, ", row.step, ", because the row before has null"));
  }
  return "";
}

std::string RowCheck::Take(const EosLogRow& row) {
  std::string problem = CheckRow(row);
  auto [place, is_new] = open_.try_emplace({row.request_id, row.index});
  Request& request = place->second;
  if (!is_new && row.step == 1 && row.timestamp != request.began) {
    ++abandoned_;
    request = {};
    is_new = true;
  }
  const bool begun_before = begins_in_the_middle_ && is_new && row.step > 1;
  if (begun_before) ++begun_before_;
  if (problem.empty() && !begun_before) problem = CheckOrder(request, row);
  if (is_new) {
    ++requests_;
    request.began = row.timestamp;
  }
  if (row.is_finished) {
    open_.erase(place);
    return problem;
  }
  request.step = row.step;
  request.attempt = row.attempt;
  request.prompt_length = row.prompt_length;
  request.eos_token_id = row.eos_token_id;
  request.policy = row.policy;
  request.natural_end_step = row.natural_end_step;
  return problem;
}

}  // namespace baton
