#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "baton/v1/inference.pb.h"
#include "router/edge/request_spec.h"
#include "router/request/accepted_output.h"

namespace baton {

// What FILE.requests.jsonl of the EOS log tells about one request.
struct RequestSummary {
  const RequestSpec& spec;
  const std::string& model;
  double arrived = 0;  // Unix seconds
  FinishReason reason = FinishReason::kNone;
  const absl::Status& status;
  const std::optional<OutputEnd>& end;
  int32_t output_length = 0;
  std::optional<int32_t> natural_end_step;
  int32_t cached_tokens = 0;
  int32_t attempts = 0;
  const v1::Timings& timings;
  const std::string& prefill_worker;
  const std::string& decode_worker;
};

// Writes a summary as a JSON object in one line, without a newline.
std::string SummaryLine(const RequestSummary& summary);

// What stopped a request, as logs and metrics name it: "eos", "token", "string", "grammar", "none".
std::string_view StopCauseName(FinishReason reason);

}  // namespace baton
