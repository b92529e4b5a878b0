#include "tools/batch/batch_part.h"

#include <cstdlib>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "common/config/flag_set.h"

namespace baton::batch {
namespace {

constexpr int32_t kMaxParts = 100'000;
constexpr char kJobIndex[] = "JOB_COMPLETION_INDEX";

absl::Status Refused(std::string_view text, std::string_view why) {
  return UsageError(absl::StrCat("--part '", std::string(text), "'"), why,
                    "--part 0/4, or --part index/4 in an Indexed Job of Kubernetes");
}

}  // namespace

absl::StatusOr<BatchPart> ParsePart(std::string_view text) {
  const size_t slash = text.find('/');
  if (slash == std::string_view::npos) {
    return Refused(text, "expected I/N, with the parts counted from 0");
  }
  std::string index(text.substr(0, slash));
  if (index == "index") {
    const char* const given = std::getenv(kJobIndex);
    if (given == nullptr) {
      return Refused(text, absl::StrCat("the environment variable ", kJobIndex, " is not set"));
    }
    index = given;
  }
  BatchPart part;
  const std::string count(text.substr(slash + 1));
  if (!absl::SimpleAtoi(index, &part.index) || !absl::SimpleAtoi(count, &part.count) ||
      part.count < 1 || part.count > kMaxParts || part.index < 0 || part.index >= part.count) {
    return Refused(text, absl::StrCat("found part '", index, "' of '", count,
                                      "'; expected I from 0 to N - 1, and N at most ", kMaxParts));
  }
  return part;
}

std::string PartText(const BatchPart& part) { return absl::StrCat(part.index, "/", part.count); }

}  // namespace baton::batch
