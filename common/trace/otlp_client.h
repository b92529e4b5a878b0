#pragma once

#include <memory>
#include <optional>
#include <string>

#include "common/base/clock.h"

namespace baton {

// Where a collector takes traces by OTLP over HTTP.
struct OtlpTarget {
  std::string origin;  // "http://127.0.0.1:4318"
  std::string path;    // "/v1/traces"
};

// What became of one post.
struct OtlpReply {
  enum class Kind {
    kTaken,
    kRefused,  // for good: these spans will never be taken
    kBusy      // another time: nobody answered, or only that there is no room now
  };
  Kind kind = Kind::kBusy;
  int64_t rejected = 0;                       // spans among those that were taken
  std::optional<base::Duration> retry_after;  // as the collector asks, where it is kBusy
  std::string why;                            // for the log; "" = all is well
};

// What an answer means by OTLP's rules: 429, 502, 503 and 504 are worth another try.
OtlpReply JudgeAnswer(int status, const std::string& retry_after, const std::string& body);

// Posts to one collector over one connection that is kept. TLS believes the system's authorities.
// Its owner is one thread; only Break may come from another.
class OtlpClient final {
 public:
  explicit OtlpClient(OtlpTarget target);
  ~OtlpClient();

  // Each phase (connecting, sending, the wait for an answer) takes `within` at most, and all of
  // them three times that, however slowly bytes come.
  OtlpReply Post(const std::string& body, base::Duration within);
  // Ends a Post that is under way.
  void Break();

 private:
  struct Connection;  // keeps the library's header out of this one
  const OtlpTarget target_;
  const std::unique_ptr<Connection> connection_;
};

}  // namespace baton
