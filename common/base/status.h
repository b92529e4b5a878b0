#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace baton {

// Why a request was refused or failed. A closed set: it is the `reason` of error details on the
// wire, of `baton generate --json`, and of the metric baton_request_errors_total.
enum class Reason {
  kNone,
  // Bad input: INVALID_ARGUMENT, NOT_FOUND or UNIMPLEMENTED.
  kEmptyPrompt,
  kTooLong,
  kModelNotFound,
  kInvalidTokenId,
  kInvalidText,
  kInvalidSampling,
  kInvalidGuide,
  kInvalidMaxTokens,
  kConflictingOptions,
  kLimitExceeded,
  kUnsupportedField,
  // No key that is known: UNAUTHENTICATED.
  kInvalidApiKey,
  // Load and loss: RESOURCE_EXHAUSTED, UNAVAILABLE or INTERNAL.
  kQueueFull,
  kSlowClient,
  kNoWorker,
  kAttemptsExhausted,
  kRequestKilledWorkers,
  kLogitsNotFinite,
  kDraining,  // of a worker, too
  kDrained,
  // Between router and workers.
  kFull,
  kRevoked,
  kExpired,
  kUnknownTicket,
  kLayoutMismatch,
  kPushFailed,
  kDeviceFault,
};

// The name of a reason as it is spelled on the wire: "TOO_LONG"; "" for kNone.
std::string_view ReasonName(Reason reason);
// The reason of that name, or kNone for an unknown one.
Reason ReasonFromName(std::string_view name);

// What the client is told beside code and message. It travels as the details of google.rpc.
struct ErrorDetail {
  Reason reason = Reason::kNone;
  std::string field;                                        // the offending request field, or ""
  std::vector<std::pair<std::string, std::string>> values;  // e.g. {"have","9000"},{"limit","4096"}
  std::optional<std::chrono::milliseconds> retry_after;     // sent as RetryInfo
};

// An error status that carries `detail`. The message says what was found, what was expected and
// what to do.
absl::Status MakeError(absl::StatusCode code, ErrorDetail detail, std::string_view message);
absl::Status InvalidArgument(Reason reason, std::string_view field, std::string_view message);

// The detail of a status that MakeError made, or a default one for any other status.
ErrorDetail DetailOf(const absl::Status& status);
inline Reason ReasonOf(const absl::Status& status) { return DetailOf(status).reason; }

// The canonical gRPC name of a code: "INVALID_ARGUMENT".
std::string_view CodeName(absl::StatusCode code);

}  // namespace baton

#define BATON_CONCAT_INNER(a, b) a##b
#define BATON_CONCAT(a, b) BATON_CONCAT_INNER(a, b)

#define BATON_RETURN_IF_ERROR(expression)        \
  do {                                           \
    ::absl::Status baton_status = (expression);  \
    if (!baton_status.ok()) return baton_status; \
  } while (false)

#define BATON_ASSIGN_OR_RETURN(declaration, expression) \
  BATON_ASSIGN_OR_RETURN_IMPL(BATON_CONCAT(baton_or_, __LINE__), declaration, expression)
#define BATON_ASSIGN_OR_RETURN_IMPL(temporary, declaration, expression) \
  auto temporary = (expression);                                        \
  if (!temporary.ok()) return std::move(temporary).status();            \
  declaration = std::move(temporary).value()
