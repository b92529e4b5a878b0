#include "common/formats/module_targets.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "common/formats/json_reader.h"
#include "re2/re2.h"

namespace baton {
namespace {

constexpr std::string_view kExpressionMark = "re:";
constexpr size_t kMostExpressions = 128;
constexpr int64_t kExpressionBytes = 256 << 10;

absl::StatusOr<std::shared_ptr<const re2::RE2>> Compiled(std::string_view pattern,
                                                         const std::string& where) {
  re2::RE2::Options options;
  options.set_log_errors(false);
  options.set_max_mem(kExpressionBytes);
  auto compiled =
      std::make_shared<const re2::RE2>(re2::StringPiece(pattern.data(), pattern.size()), options);
  if (compiled->ok()) return compiled;
  return absl::InvalidArgumentError(absl::StrCat(
      where, " has the target ", ShownJson(std::string(pattern)),
      ", which is no regular expression of RE2 of at most 256 KiB (", compiled->error(),
      "); expected one without what RE2 lacks, as (?!…): write the names of the modules instead"));
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
    if (!name.starts_with(kExpressionMark)) {
      read.linear_ = read.linear_ || name == "Linear";
      read.names_.insert(std::move(name));
      continue;
    }
    if (read.patterns_.size() == kMostExpressions) {
      return absl::InvalidArgumentError(
          absl::StrCat(where, " has more than ", kMostExpressions,
                       " regular expressions as targets; write the names of the modules instead"));
    }
    BATON_ASSIGN_OR_RETURN(auto pattern,
                           Compiled(std::string_view(name).substr(kExpressionMark.size()), where));
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
