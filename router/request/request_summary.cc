#include "router/request/request_summary.h"

#include "absl/strings/str_format.h"
#include "common/base/block_hash.h"
#include "common/base/status.h"
#include "nlohmann/json.hpp"
#include "router/edge/eos_meta.h"

namespace baton {
namespace {

using Json = nlohmann::ordered_json;

Json SummaryStopMatch(const std::optional<OutputEnd>& end) {
  if (end && end->stop_token) return *end->stop_token;
  if (end && end->stop_string) return *end->stop_string;
  return nullptr;
}

Json LengthControlJson(const std::optional<LengthControl>& control) {
  if (!control) return nullptr;
  return {{"target", control->target}, {"strength", control->strength}};
}

Json OrNull(std::optional<int32_t> value) { return value ? Json(*value) : Json(nullptr); }

// Of the ids alone: the same prompt has the same hash whoever asks. Null while there are none.
Json PromptHash(const std::vector<TokenId>& prompt) {
  if (prompt.empty()) return nullptr;
  return absl::StrFormat("%016x", HashBlock(HashSalt(""), prompt));
}

}  // namespace

std::string_view StopCauseName(FinishReason reason) {
  switch (reason) {
    case FinishReason::kStopEos:
      return "eos";
    case FinishReason::kStopToken:
      return "token";
    case FinishReason::kStopString:
      return "string";
    case FinishReason::kStopGrammar:
      return "grammar";
    case FinishReason::kRunaway:
      return "runaway";
    default:
      return "none";
  }
}

std::string SummaryLine(const RequestSummary& summary) {
  const RequestSpec& spec = summary.spec;
  const v1::Timings& timings = summary.timings;
  const bool failed = !summary.status.ok();
  Json sampling = SamplingJson(spec.sampling);
  sampling["seed"] = spec.sampling.seed;
  const Json json = {
      {"request_id", spec.request_id},
      {"index", spec.index},
      {"model", summary.model},
      {"tenant", spec.tenant},
      {"tag", spec.tag.empty() ? Json(nullptr) : Json(spec.tag)},
      {"prompt_hash", PromptHash(spec.prompt)},
      {"timestamp", summary.arrived},
      {"finish_reason", FinishReasonName(summary.reason)},
      {"stop_cause", StopCauseName(summary.reason)},
      {"stop_match", SummaryStopMatch(summary.end)},
      {"prompt_length", spec.prompt.size()},
      {"cached_tokens", summary.cached_tokens},
      {"output_length", summary.output_length},
      {"natural_end_step", OrNull(summary.natural_end_step)},
      {"eos_policy", EosPolicyName(spec.stop.eos_policy)},
      {"max_tokens", spec.as_many_as_fit ? Json(nullptr) : Json(spec.stop.max_tokens)},
      {"min_tokens", spec.stop.min_tokens},
      {"stop_token_ids", spec.stop.stop_token_ids},
      {"length_control", LengthControlJson(spec.stop.length_control)},
      {"preset", spec.preset.empty() ? Json(nullptr) : Json(spec.preset)},
      {"sampling", sampling},
      {"attempts", summary.attempts},
      {"prefill_worker", summary.prefill_worker},
      {"decode_worker", summary.decode_worker},
      {"timings_ms",
       {{"queue", timings.queue_ms()},
        {"prefill", timings.prefill_ms()},
        {"kv_transfer", timings.kv_transfer_ms()},
        {"ttft", timings.ttft_ms()},
        {"total", timings.total_ms()}}},
      {"error", failed ? Json{{"code", CodeName(summary.status.code())},
                              {"reason", ReasonName(ReasonOf(summary.status))},
                              {"message", std::string(summary.status.message())}}
                       : Json(nullptr)}};
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace baton
