#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "common/base/clock.h"

namespace baton::batch {

// What became of one request over HTTP.
struct HttpAnswer {
  long status = 0;  // of HTTP; 0 = none came
  std::string request_id;
  std::string body;
  std::optional<base::Duration> retry_after;
  // Without a status: why, in words, and whether the request had reached the service at all.
  std::string trouble;
  bool was_sent = false;
  bool timed_out = false;
  bool too_large = false;  // the answer is larger than what is kept of one
  bool aborted = false;    // by this program
};

// What follows from an answer for the line that it is to.
enum class Verdict {
  kFinal,     // it is the line's answer
  kRefused,   // the service is full or closing; the line has no part in it
  kAway,      // nobody is there; nor here
  kSuspect,   // it failed on the way, and the line may be the reason
  kUnwanted,  // no key that is known: no line can be sent
};
Verdict VerdictOf(const HttpAnswer& answer);

// How many tokens the answer says that it has; 0 if it does not. Empty when `body` is no JSON
// object.
std::optional<int64_t> TokensOfBody(const std::string& body);

// In a few words, for messages.
std::string Describe(const HttpAnswer& answer);

}  // namespace baton::batch
