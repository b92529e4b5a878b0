#include "common/text/detokenizer.h"

#include <cstdint>
#include <utility>

namespace baton {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";  // U+FFFD

// What the start of a text is: one character, the start of one, or neither.
struct Lead {
  size_t bytes;     // of the character, or of the maximal invalid part
  bool valid;       // a whole character
  bool incomplete;  // everything so far may become a character
};

// The bytes that may follow `lead` as the second byte; Unicode 15, table 3-7. Zero length when
// `lead` begins no character of several bytes.
struct SecondByteRange {
  size_t length;
  uint8_t low;
  uint8_t high;
};
SecondByteRange RangeAfter(uint8_t lead) {
  if (lead >= 0xC2 && lead <= 0xDF) return {2, 0x80, 0xBF};
  if (lead == 0xE0) return {3, 0xA0, 0xBF};
  if (lead == 0xED) return {3, 0x80, 0x9F};
  if (lead >= 0xE1 && lead <= 0xEF) return {3, 0x80, 0xBF};
  if (lead == 0xF0) return {4, 0x90, 0xBF};
  if (lead >= 0xF1 && lead <= 0xF3) return {4, 0x80, 0xBF};
  if (lead == 0xF4) return {4, 0x80, 0x8F};
  return {0, 0, 0};
}

Lead Classify(std::string_view text) {
  const auto byte = [text](size_t i) { return static_cast<uint8_t>(text[i]); };
  if (byte(0) < 0x80) return {1, true, false};
  const SecondByteRange range = RangeAfter(byte(0));
  if (range.length == 0) return {1, false, false};
  for (size_t i = 1; i < range.length; ++i) {
    if (i == text.size()) return {i, false, true};
    const uint8_t low = i == 1 ? range.low : 0x80;
    const uint8_t high = i == 1 ? range.high : 0xBF;
    if (byte(i) < low || byte(i) > high) return {i, false, false};
  }
  return {range.length, true, false};
}

}  // namespace

std::string Utf8Assembler::Append(std::string_view bytes) {
  pending_ += bytes;
  std::string text;
  size_t done = 0;
  while (done < pending_.size()) {
    const Lead lead = Classify(std::string_view(pending_).substr(done));
    if (lead.incomplete) break;
    text += lead.valid ? std::string_view(pending_).substr(done, lead.bytes) : kReplacement;
    done += lead.bytes;
  }
  pending_.erase(0, done);
  return text;
}

std::string Utf8Assembler::Flush() {
  const bool incomplete = !pending_.empty();
  pending_.clear();
  return incomplete ? std::string(kReplacement) : std::string();
}

std::string StreamingDetokenizer::Append(TokenId id) {
  if (skip_special_tokens_ && tokenizer_.IsSpecial(id)) return {};
  return assembler_.Append(tokenizer_.TokenBytes(id));
}

}  // namespace baton
