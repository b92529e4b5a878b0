#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/status.h"

namespace baton::bench {

// Takes the data of server-sent events out of bytes that arrive cut at any place, by the rules of
// the HTML standard: lines end with LF, CRLF or CR, "data:" lines of one event are joined by LF, an
// empty line ends the event, comments and other fields are skipped. Not thread-safe.
class SseParser final {
 public:
  // The view is valid during the call.
  using OnData = std::function<void(std::string_view data)>;

  // `max_event_bytes` bounds what is held of an unfinished event.
  SseParser(size_t max_event_bytes, OnData on_data)
      : max_event_bytes_(max_event_bytes), on_data_(std::move(on_data)) {}

  // RESOURCE_EXHAUSTED when an event is larger than the bound; nothing more is taken after that.
  absl::Status Feed(std::string_view bytes);
  // Forgets what came, to be ready for another stream.
  void Reset();
  // Whether bytes of an unfinished event are held.
  bool mid_event() const { return has_data_ || !line_.empty(); }

 private:
  void TakeLine(std::string_view line);

  const size_t max_event_bytes_;
  const OnData on_data_;
  std::string line_;  // begun, without its end
  std::string data_;  // of the event so far
  bool has_data_ = false;
  bool after_cr_ = false;  // an LF now belongs to the line before
  bool too_large_ = false;
};

}  // namespace baton::bench
