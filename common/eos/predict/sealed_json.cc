#include "common/eos/predict/sealed_json.h"

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/base/sha256.h"

namespace baton {
namespace {

constexpr std::string_view kFormatKey = R"({"format":")";
constexpr std::string_view kVersionKey = R"(","version":)";
constexpr std::string_view kSumKey = R"(,"sha256":")";
constexpr std::string_view kBodyKey = R"(","body":)";
constexpr size_t kSumDigits = 64;
constexpr size_t kFoundShown = 32;  // characters of what was found, in messages

bool Skip(std::string_view* text, std::string_view expected) {
  if (text->substr(0, expected.size()) != expected) return false;
  text->remove_prefix(expected.size());
  return true;
}

std::string_view TakeUntil(std::string_view* text, char stop) {
  const std::string_view taken = text->substr(0, text->find(stop));
  text->remove_prefix(taken.size());
  return taken;
}

absl::Status Unexpected(std::string_view found, std::string_view expected) {
  return absl::InvalidArgumentError(absl::StrCat("found '",
                                                 std::string(found.substr(0, kFoundShown)),
                                                 "' and expected ", std::string(expected)));
}

}  // namespace

std::string SealJson(std::string_view format, int32_t version, std::string_view body) {
  return absl::StrCat(std::string(kFormatKey), std::string(format), std::string(kVersionKey),
                      version, std::string(kSumKey), Sha256Hex(body), std::string(kBodyKey),
                      std::string(body), "}\n");
}

absl::StatusOr<std::string_view> OpenSealedJson(std::string_view text, std::string_view format,
                                                int32_t version) {
  std::string_view rest = text;
  const std::string kind = absl::StrCat("a file of the format ", std::string(format));
  if (!Skip(&rest, kFormatKey)) return Unexpected(text, kind);
  if (const std::string_view found = TakeUntil(&rest, '"'); found != format) {
    return Unexpected(found, kind);
  }
  if (!Skip(&rest, kVersionKey)) return Unexpected(rest, "its version behind the format");
  if (const std::string_view found = TakeUntil(&rest, ','); found != std::to_string(version)) {
    return Unexpected(found, absl::StrCat("version ", version, " of ", std::string(format),
                                          "; make the file anew with this release"));
  }
  if (!Skip(&rest, kSumKey)) return Unexpected(rest, "the key sha256 behind the version");
  const std::string_view sum = TakeUntil(&rest, '"');
  if (sum.size() != kSumDigits || !Skip(&rest, kBodyKey)) {
    return Unexpected(sum, "a SHA-256 of 64 digits and the key body behind it");
  }
  while (!rest.empty() && (rest.back() == '\n' || rest.back() == '\r')) rest.remove_suffix(1);
  if (rest.size() < 2 || rest.front() != '{' || !rest.ends_with("}}")) {
    return Unexpected(rest.substr(0, kFoundShown),
                      "a body in {} that the line ends with: is it whole?");
  }
  rest.remove_suffix(1);
  if (const std::string real = Sha256Hex(rest); real != sum) {
    return absl::DataLossError(absl::StrCat("its body has the SHA-256 ", real, " and it says ",
                                            std::string(sum),
                                            ": it is damaged; write or copy it anew"));
  }
  return rest;
}

}  // namespace baton
