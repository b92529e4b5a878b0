#include "common/formats/module_targets.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "common/formats/json_reader.h"
#include "re2/re2.h"

namespace baton {
namespace {

constexpr std::string_view kPatternMark = "re:";
constexpr size_t kMostPatterns = 64;
// RE2 bounds what it keeps of a pattern, and not what it takes on the way there.
constexpr size_t kMostPatternBytes = 256;
constexpr int64_t kCompiledBytes = 64 << 10;

absl::Status RefusePattern(const std::string& pattern, const std::string& where,
                           const std::string& found) {
  return absl::InvalidArgumentError(absl::StrCat(where, " has the target ", ShownJson(pattern),
                                                 ", ", found,
                                                 ": write the names of the modules instead"));
}

absl::StatusOr<std::shared_ptr<const re2::RE2>> Compiled(const std::string& pattern,
                                                         const std::string& where) {
  if (pattern.size() > kMostPatternBytes) {
    return RefusePattern(
        pattern, where,
        absl::StrCat("of ", pattern.size(), " bytes; expected at most ", kMostPatternBytes));
  }
  if (pattern.find("{,") != std::string::npos) {
    return RefusePattern(pattern, where,
                         "whose \"{,\" stands for a number of repetitions in Python alone; "
                         "expected \"{0,\"");
  }
  re2::RE2::Options options;
  options.set_encoding(re2::RE2::Options::EncodingLatin1);  // names are ASCII
  options.set_log_errors(false);
  options.set_max_mem(kCompiledBytes);
  auto compiled = std::make_shared<const re2::RE2>(pattern, options);
  if (compiled->ok()) return compiled;
  return RefusePattern(
      pattern, where,
      absl::StrCat("which is no regular expression of RE2 that is small when it "
                   "is compiled (",
                   compiled->error(), "); expected one, without what RE2 lacks, as (?!…)"));
}

}  // namespace

absl::StatusOr<ModuleTargets> ModuleTargets::Read(const nlohmann::json& targets,
                                                  const std::string& where) {
  const bool texts = targets.is_array() &&
                     std::ranges::all_of(targets, [](const auto& one) { return one.is_string(); });
  if (!texts) {
    return absl::InvalidArgumentError(
        absl::StrCat(where, " has the targets ", ShownJson(targets),
                     "; expected a list of names of modules, as [\"Linear\", \"lm_head\"]"));
  }
  ModuleTargets read;
  for (const nlohmann::json& target : targets) {
    std::string name = target.get<std::string>();
    if (!name.starts_with(kPatternMark)) {
      read.linear_ = read.linear_ || name == "Linear";
      read.names_.insert(std::move(name));
      continue;
    }
    if (read.patterns_.size() == kMostPatterns) {
      return absl::InvalidArgumentError(
          absl::StrCat(where, " has more than ", kMostPatterns,
                       " regular expressions as targets; write the names of the modules instead"));
    }
    BATON_ASSIGN_OR_RETURN(auto pattern, Compiled(name.substr(kPatternMark.size()), where));
    read.instructions_ += pattern->ProgramSize();
    read.patterns_.push_back(std::move(pattern));
  }
  return read;
}

ModuleTargets::Match ModuleTargets::Matches(std::string_view module) const {
  if (names_.contains(absl::string_view(module.data(), module.size()))) return Match::kName;
  const re2::StringPiece text(module.data(), module.size());
  const bool by_pattern = std::ranges::any_of(patterns_, [&](const auto& pattern) {
    return pattern->Match(text, 0, text.size(), re2::RE2::ANCHOR_START, nullptr, 0);
  });
  if (by_pattern) return Match::kPattern;
  return linear_ ? Match::kClass : Match::kNone;
}

}  // namespace baton
