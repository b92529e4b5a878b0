#include "common/base/status.h"

#include <algorithm>
#include <array>

#include "absl/strings/cord.h"
#include "nlohmann/json.hpp"

namespace baton {
namespace {

constexpr char kPayloadUrl[] = "baton/error-detail";

constexpr std::array<std::pair<Reason, std::string_view>, 27> kReasonNames = {{
    {Reason::kEmptyPrompt, "EMPTY_PROMPT"},
    {Reason::kTooLong, "TOO_LONG"},
    {Reason::kModelNotFound, "MODEL_NOT_FOUND"},
    {Reason::kInvalidTokenId, "INVALID_TOKEN_ID"},
    {Reason::kInvalidText, "INVALID_TEXT"},
    {Reason::kInvalidSampling, "INVALID_SAMPLING"},
    {Reason::kInvalidGuide, "INVALID_GUIDE"},
    {Reason::kInvalidMaxTokens, "INVALID_MAX_TOKENS"},
    {Reason::kConflictingOptions, "CONFLICTING_OPTIONS"},
    {Reason::kLimitExceeded, "LIMIT_EXCEEDED"},
    {Reason::kUnsupportedField, "UNSUPPORTED_FIELD"},
    {Reason::kInvalidApiKey, "INVALID_API_KEY"},
    {Reason::kQueueFull, "QUEUE_FULL"},
    {Reason::kSlowClient, "SLOW_CLIENT"},
    {Reason::kNoWorker, "NO_WORKER"},
    {Reason::kAttemptsExhausted, "ATTEMPTS_EXHAUSTED"},
    {Reason::kRequestKilledWorkers, "REQUEST_KILLED_WORKERS"},
    {Reason::kLogitsNotFinite, "LOGITS_NOT_FINITE"},
    {Reason::kDraining, "DRAINING"},
    {Reason::kDrained, "DRAINED"},
    {Reason::kFull, "FULL"},
    {Reason::kRevoked, "REVOKED"},
    {Reason::kExpired, "EXPIRED"},
    {Reason::kUnknownTicket, "UNKNOWN_TICKET"},
    {Reason::kLayoutMismatch, "LAYOUT_MISMATCH"},
    {Reason::kPushFailed, "PUSH_FAILED"},
    {Reason::kDeviceFault, "DEVICE_FAULT"},
}};

constexpr std::array<std::string_view, 17> kCodeNames = {
    "OK",        "CANCELLED",      "UNKNOWN",           "INVALID_ARGUMENT",   "DEADLINE_EXCEEDED",
    "NOT_FOUND", "ALREADY_EXISTS", "PERMISSION_DENIED", "RESOURCE_EXHAUSTED", "FAILED_PRECONDITION",
    "ABORTED",   "OUT_OF_RANGE",   "UNIMPLEMENTED",     "INTERNAL",           "UNAVAILABLE",
    "DATA_LOSS", "UNAUTHENTICATED"};

}  // namespace

std::string_view ReasonName(Reason reason) {
  const auto* row = std::find_if(kReasonNames.begin(), kReasonNames.end(),
                                 [&](const auto& entry) { return entry.first == reason; });
  return row == kReasonNames.end() ? std::string_view() : row->second;
}

Reason ReasonFromName(std::string_view name) {
  const auto* row = std::find_if(kReasonNames.begin(), kReasonNames.end(),
                                 [&](const auto& entry) { return entry.second == name; });
  return row == kReasonNames.end() ? Reason::kNone : row->first;
}

std::string_view CodeName(absl::StatusCode code) {
  const auto index = static_cast<size_t>(code);
  return index < kCodeNames.size() ? kCodeNames[index] : "UNKNOWN";
}

absl::Status MakeError(absl::StatusCode code, ErrorDetail detail, std::string_view message) {
  absl::Status status(code, absl::string_view(message.data(), message.size()));
  nlohmann::json json = {
      {"reason", ReasonName(detail.reason)}, {"field", detail.field}, {"values", detail.values}};
  if (detail.retry_after) json["retry_after_ms"] = detail.retry_after->count();
  const auto replace = nlohmann::json::error_handler_t::replace;
  status.SetPayload(kPayloadUrl, absl::Cord(json.dump(-1, ' ', false, replace)));
  return status;
}

absl::Status InvalidArgument(Reason reason, std::string_view field, std::string_view message) {
  return MakeError(absl::StatusCode::kInvalidArgument,
                   {.reason = reason, .field = std::string(field)}, message);
}

ErrorDetail DetailOf(const absl::Status& status) {
  const auto payload = status.GetPayload(kPayloadUrl);
  if (!payload) return {};
  const auto json = nlohmann::json::parse(std::string(*payload), nullptr, false);
  if (!json.is_object()) return {};
  ErrorDetail detail;
  detail.reason = ReasonFromName(json.at("reason").get<std::string>());
  detail.field = json.at("field").get<std::string>();
  for (const auto& pair : json.at("values")) {
    detail.values.emplace_back(pair[0].get<std::string>(), pair[1].get<std::string>());
  }
  if (json.contains("retry_after_ms")) {
    detail.retry_after = std::chrono::milliseconds(json["retry_after_ms"].get<int64_t>());
  }
  return detail;
}

}  // namespace baton
