#include "common/eos/eos_row.h"

#include <cmath>
#include <cstdio>

#include "nlohmann/json.hpp"

namespace baton {
namespace {

void AppendInt(int64_t value, std::string* out) { out->append(std::to_string(value)); }

void AppendOptionalInt(const std::optional<int32_t>& value, std::string* out) {
  if (value) {
    AppendInt(*value, out);
  } else {
    out->append("null");
  }
}

void AppendFixed(double value, std::string* out) {
  if (!std::isfinite(value)) {
    out->append("null");
    return;
  }
  char text[64];
  const int size = std::snprintf(text, sizeof(text), "%.6f", value);
  out->append(text, static_cast<size_t>(size));
}

// The keys that known tools of this kind of log read; their order is part of the contract.
void AppendCommonKeys(const EosRow& row, std::string* out) {
  const EosRequestFacts& request = *row.request;
  const double logprob = row.signal.eos_logprob;
  out->append("{\"request_id\":");
  AppendJsonString(request.request_id, out);
  out->append(",\"timestamp\":");
  AppendFixed(row.timestamp, out);
  out->append(",\"step\":");
  AppendInt(row.step, out);
  out->append(",\"current_token_id\":");
  AppendInt(row.token, out);
  out->append(",\"eos_token_id\":");
  AppendOptionalInt(request.eos_token_id, out);
  out->append(",\"eos_logprob\":");
  AppendJsonNumber(logprob, out);
  out->append(",\"eos_prob\":");
  AppendJsonNumber(std::exp(logprob), out);
  const bool finished = row.finish_reason != FinishReason::kNone;
  out->append(finished ? ",\"is_finished\":true,\"finish_reason\":"
                       : ",\"is_finished\":false,\"finish_reason\":null");
  if (finished) AppendJsonString(FinishReasonName(row.finish_reason), out);
  out->append(",\"prompt_length\":");
  AppendInt(request.prompt_length, out);
  out->append(",\"output_length\":");
  AppendInt(row.step, out);
  out->append(",\"total_length\":");
  AppendInt(int64_t{request.prompt_length} + row.step, out);
}

void AppendExtras(const EosRow& row, std::string* out) {
  out->append(",\"eos_prob_sampling\":");
  AppendJsonNumber(row.signal.eos_prob_sampling, out);
  out->append(",\"eos_rank\":");
  // Ranks begin at 1; a model without an EOS id has none.
  AppendOptionalInt(row.signal.eos_rank > 0 ? std::optional(row.signal.eos_rank) : std::nullopt,
                    out);
  out->append(",\"entropy\":");
  AppendJsonNumber(row.signal.entropy, out);
  out->append(",\"top1_prob\":");
  AppendJsonNumber(row.signal.top1_prob, out);
  out->append(",\"eos_policy\":");
  AppendJsonString(EosPolicyName(row.request->policy), out);
  out->append(",\"natural_end_step\":");
  AppendOptionalInt(row.natural_end_step, out);
  out->append(",\"attempt\":");
  AppendInt(row.attempt, out);
  out->append(",\"index\":");
  AppendInt(row.request->index, out);
}

}  // namespace

void AppendJsonNumber(double value, std::string* out) {
  if (!std::isfinite(value)) {
    out->append("null");
    return;
  }
  char text[40];
  // Enough for a float to come back as it was, and for exp() of one.
  const int size = std::snprintf(text, sizeof(text), "%.10g", value);
  out->append(text, static_cast<size_t>(size));
}

void AppendJsonString(std::string_view text, std::string* out) {
  const auto replace = nlohmann::json::error_handler_t::replace;
  out->append(nlohmann::json(std::string(text)).dump(-1, ' ', false, replace));
}

void AppendEosLine(const EosRow& row, std::string* out) {
  AppendCommonKeys(row, out);
  AppendExtras(row, out);
  out->append("}\n");
}

}  // namespace baton
