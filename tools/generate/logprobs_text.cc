#include "tools/generate/logprobs_text.h"

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace baton {
namespace {

// In quotes, on one line; what is no whole character as its bytes.
template <typename Entry>
std::string Quoted(const Entry& entry) {
  const bool whole = entry.raw_bytes().empty();
  return absl::StrCat(
      "\"", whole ? absl::Utf8SafeCEscape(entry.text()) : absl::CHexEscape(entry.raw_bytes()),
      "\"");
}

}  // namespace

std::string LogprobsText(const OutcomeAnswer& outcome) {
  if (outcome.logprobs.empty()) return "";
  std::string text = "  logprobs: of each token, and of the most likely ones in its place\n";
  for (const v1::TokenLogprobs& token : outcome.logprobs) {
    absl::StrAppendFormat(&text, "  %9.4f  %s", token.logprob(), Quoted(token));
    for (const v1::TokenLogprob& other : token.top()) {
      absl::StrAppendFormat(&text, "%s%.4f %s", &other == &token.top(0) ? "   of: " : ", ",
                            other.logprob(), Quoted(other));
    }
    text += "\n";
  }
  return text;
}

}  // namespace baton
