#include "router/edge/answer_choice.h"

#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "common/sample/request_limits.h"
#include "router/edge/byte_budget.h"

namespace baton {
namespace {

absl::Status TooMany(const RequestSpec& spec, int64_t limit, const std::string& why) {
  return MakeError(
      absl::StatusCode::kInvalidArgument,
      {.reason = Reason::kLimitExceeded,
       .field = spec.ranked() ? "spec.sampling.best_of" : "spec.sampling.n",
       .values = {{"have", absl::StrCat(spec.answers)}, {"limit", absl::StrCat(limit)}}},
      absl::StrCat(spec.answers, " answers are asked for, and ", why, "; ask for fewer"));
}

}  // namespace

absl::Status TakeAnswers(const v1::GenerationSpec& spec, const RouterOptions& options,
                         RequestSpec* checked) {
  const v1::SamplingParams& sampling = spec.sampling();
  checked->best = sampling.has_n() ? sampling.n() : 1;
  checked->answers = sampling.has_best_of() ? sampling.best_of() : checked->best;
  if (checked->best < 1) {
    return InvalidArgument(
        Reason::kInvalidSampling, "spec.sampling.n",
        absl::StrCat("n is ", checked->best, "; expected at least 1 answer, or leave it out"));
  }
  BATON_RETURN_IF_ERROR(CheckLimit(RequestLimit::kAnswers, checked->best));
  BATON_RETURN_IF_ERROR(CheckLimit(RequestLimit::kBestOf, checked->answers));
  if (checked->answers < checked->best) {
    return InvalidArgument(Reason::kConflictingOptions, "spec.sampling.best_of",
                           absl::StrCat("best_of is ", checked->answers, " and n is ",
                                        checked->best, "; expected best_of to be at least n"));
  }
  if (checked->answers > options.max_num_queued_reqs && checked->answers > 1) {
    return TooMany(*checked, options.max_num_queued_reqs,
                   absl::StrCat("this server queues at most ", options.max_num_queued_reqs));
  }
  const v1::OutputOptions& output = spec.output();
  if (checked->answers > 1 && (output.echo() || output.prompt_logprobs())) {
    return InvalidArgument(Reason::kConflictingOptions,
                           output.echo() ? "spec.output.echo" : "spec.output.prompt_logprobs",
                           "the prompt is told beside one answer, and several are asked for; send "
                           "a request of its own for the prompt, with max_tokens 0");
  }
  if (checked->ranked() && spec.eos().predict()) {
    return InvalidArgument(Reason::kConflictingOptions, "spec.eos.predict",
                           "best_of above n streams nothing before the end, predict tells of ends "
                           "that come; expected one of the two");
  }
  return absl::OkStatus();
}

absl::Status CheckRoomForAnswers(const RequestSpec& spec, size_t message_bytes,
                                 const RouterOptions& options) {
  if (spec.answers == 1) return absl::OkStatus();
  const int32_t queued = options.tenants.Of(spec.tenant).max_queued;
  if (queued > 0 && spec.answers > queued) {
    return TooMany(
        spec, queued,
        absl::StrCat("of tenant '", spec.tenant, "' at most ", queued, " requests may wait"));
  }
  const size_t room = ByteBudget::MostOfOne(static_cast<size_t>(options.max_inflight_bytes));
  const auto held = static_cast<int64_t>(room / std::max<size_t>(1, message_bytes));
  if (spec.answers > held) {
    return TooMany(spec, held,
                   absl::StrCat("each holds the ", message_bytes,
                                " bytes of the request, and of --max-inflight-bytes ",
                                options.max_inflight_bytes, " one client may hold ", room));
  }
  return absl::OkStatus();
}

}  // namespace baton
