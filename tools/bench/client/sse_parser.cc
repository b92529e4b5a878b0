#include "tools/bench/client/sse_parser.h"

#include "absl/strings/str_cat.h"

namespace baton::bench {
namespace {

constexpr std::string_view kLineEnds = "\r\n";
constexpr std::string_view kData = "data";

}  // namespace

absl::Status SseParser::Feed(std::string_view bytes) {
  while (!bytes.empty() && !too_large_) {
    if (after_cr_ && bytes.front() == '\n') {
      after_cr_ = false;
      bytes.remove_prefix(1);
      continue;
    }
    after_cr_ = false;
    const size_t end = bytes.find_first_of(kLineEnds);
    const std::string_view piece = bytes.substr(0, end);
    if (line_.size() + data_.size() + piece.size() > max_event_bytes_) {
      too_large_ = true;
      break;
    }
    if (end == std::string_view::npos) {
      line_.append(piece);
      break;
    }
    after_cr_ = bytes[end] == '\r';
    bytes.remove_prefix(end + 1);
    if (line_.empty()) {
      TakeLine(piece);
    } else {
      line_.append(piece);
      TakeLine(line_);
      line_.clear();
    }
  }
  if (!too_large_) return absl::OkStatus();
  return absl::ResourceExhaustedError(
      absl::StrCat("an event of the stream is larger than ", max_event_bytes_, " bytes"));
}

void SseParser::Reset() {
  line_.clear();
  data_.clear();
  has_data_ = after_cr_ = too_large_ = false;
}

void SseParser::TakeLine(std::string_view line) {
  if (line.empty()) {
    if (has_data_) on_data_(data_);
    data_.clear();
    has_data_ = false;
    return;
  }
  const size_t colon = line.find(':');
  if (line.substr(0, colon) != kData) return;
  std::string_view value = colon == std::string_view::npos ? "" : line.substr(colon + 1);
  if (value.starts_with(' ')) value.remove_prefix(1);
  if (has_data_) data_ += '\n';
  data_.append(value);
  has_data_ = true;
}

}  // namespace baton::bench
