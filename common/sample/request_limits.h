#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "absl/status/status.h"

// The one table of what a request may contain. A client chooses these sizes, so each is bounded:
// what an accepted request costs grows with what it may generate and with nothing else. The router
// refuses by this table before it copies anything, and the workers use it again, because a router
// may be of another version.
namespace baton {

enum class RequestLimit {
  kMessages,
  kMessageRole,
  kMessageName,
  kRequestId,
  kCacheSalt,
  kTag,
  kStopStrings,
  kStopStringBytes,
  kStopTokenIds,
  kLogitBiases,
  kNgram,
  kGuidedJson,
  kGuidedRegex,
  kGuidedGrammar,
  kGuidedChoices,
  kGuidedChoiceBytes,
  kAnswers,
  kBestOf,
  kBeamWidth,
};

// How `most` is counted: the elements of a repeated field or map, the bytes of a string, or the
// value of a number.
enum class LimitKind { kCount, kBytes, kValue };

struct RequestLimitRow {
  RequestLimit limit;
  std::string_view field;  // of the public API, from the request: "spec.stop.stop"; messages have
                           // a name over HTTP alone
  LimitKind kind;
  int64_t most;
};

// In the order of the enum.
std::span<const RequestLimitRow> RequestLimits();

// Refuses as INVALID_ARGUMENT, LIMIT_EXCEEDED, with the field and both numbers, when a request has
// more of this than the table allows.
absl::Status CheckLimit(RequestLimit limit, int64_t have);

// The table in Markdown, as docs/flags.md shows it, and as lines of comment for `baton config
// print`.
std::string RequestLimitsMarkdown();
std::string RequestLimitsComment();

}  // namespace baton
