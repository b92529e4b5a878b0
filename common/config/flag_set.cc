#include "common/config/flag_set.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/status.h"
#include "common/config/exit_code.h"
#include "common/config/flag_types.h"

namespace baton {

absl::Status UsageError(std::string_view what, std::string_view why, std::string_view next) {
  std::string message = std::string(what) + ": " + std::string(why) + ".";
  if (!next.empty()) message += " Try: " + std::string(next);
  return absl::InvalidArgumentError(message);
}

FlagSet::FlagSet(std::string program, std::string section, std::string description)
    : program_(std::move(program)),
      section_(std::move(section)),
      description_(std::move(description)) {
  Flag config = TextFlag("config", &config_file_);
  config.value = "FILE.toml";
  config.help = "settings for what neither flags nor BATON_* variables say";
  config.common = true;
  Add(std::move(config));
}

void FlagSet::Add(Flag flag) {
  BATON_CHECK(Find(flag.name) == nullptr) << flag.name << " is there already";
  if (flag.group.empty()) flag.group = "General";
  flags_.push_back(std::move(flag));
}

void FlagSet::Remove(std::string_view name) {
  const auto removed = std::erase_if(flags_, [&](const Flag& flag) { return flag.name == name; });
  BATON_CHECK(removed == 1) << name;
}

Flag& FlagSet::Edit(std::string_view name) {
  const auto flag = std::find_if(flags_.begin(), flags_.end(),
                                 [&](const Flag& candidate) { return candidate.name == name; });
  BATON_CHECK(flag != flags_.end()) << name;
  return *flag;
}

const Flag* FlagSet::Find(std::string_view name) const {
  for (const Flag& flag : flags_) {
    if (flag.name == name) return &flag;
    if (std::find(flag.aliases.begin(), flag.aliases.end(), name) != flag.aliases.end()) {
      return &flag;
    }
  }
  return nullptr;
}

std::vector<std::string> FlagSet::VisibleNames(std::string_view prefix) const {
  std::vector<std::string> names;
  for (const Flag& flag : flags_) {
    if (flag.hidden || flag.positional) continue;
    names.push_back(std::string(prefix) + flag.name);
    for (const std::string& alias : flag.aliases) names.push_back(std::string(prefix) + alias);
  }
  return names;
}

FlagSource FlagSet::SourceOf(std::string_view name) const {
  const auto found = sources_.find(name);
  return found == sources_.end() ? FlagSource::kDefault : found->second;
}

absl::Status FlagSet::Parse(const std::vector<std::string>& arguments,
                            const Environment& environment) {
  RawValues raw;
  BATON_RETURN_IF_ERROR(ReadCommandLine(arguments, &raw));
  if (help_asked_) return absl::OkStatus();
  ReadEnvironment(environment, &raw);
  if (const auto config = raw.find("config"); config != raw.end()) {
    BATON_RETURN_IF_ERROR(ReadFile(config->second.values.back(), &raw));
  }
  BATON_RETURN_IF_ERROR(DropExcluded(&raw));
  BATON_RETURN_IF_ERROR(CheckRequired(raw));
  BATON_RETURN_IF_ERROR(Apply(raw));
  for (const auto& check : checks_) BATON_RETURN_IF_ERROR(check());
  return absl::OkStatus();
}

absl::Status FlagSet::DropExcluded(RawValues* raw) const {
  for (const Flag& flag : flags_) {
    if (flag.exclusive_with.empty()) continue;
    const auto one = raw->find(flag.name);
    const auto other = raw->find(flag.exclusive_with);
    if (one == raw->end() || other == raw->end()) continue;
    if (one->second.source == other->second.source) {
      return UsageError(
          absl::StrCat("both ", one->second.origin, " and ", other->second.origin, " are given"),
          "they exclude each other", "only one of them");
    }
    raw->erase(one->second.source < other->second.source ? one : other);
  }
  return absl::OkStatus();
}

absl::Status FlagSet::CheckRequired(const RawValues& raw) const {
  for (const Flag& flag : flags_) {
    if (!flag.required || raw.contains(flag.name)) continue;
    if (flag.positional) {
      return UsageError(absl::StrCat(flag.value, " is missing"),
                        absl::StrCat("expected ", flag.help),
                        absl::StrCat(program_, " ", flag.value));
    }
    return UsageError(absl::StrCat("--", flag.name, " is missing"),
                      absl::StrCat("expected ", flag.help),
                      absl::StrCat(program_, " --", flag.name, " ", flag.value));
  }
  return absl::OkStatus();
}

absl::Status FlagSet::Apply(const RawValues& raw) {
  for (const Flag& flag : flags_) {
    const auto given = raw.find(flag.name);
    if (given == raw.end()) continue;
    if (given->second.values.size() > 1 && !flag.repeatable &&
        given->second.source == FlagSource::kFile) {
      return UsageError(given->second.origin, "found several values, expected one",
                        "one value, in quotes if it holds spaces or commas");
    }
    const absl::Status status = flag.set(given->second.values);
    if (!status.ok()) {
      return UsageError(given->second.origin,
                        std::string(status.message().data(), status.message().size()),
                        absl::StrCat(program_, " --help all"));
    }
    sources_[flag.name] = given->second.source;
  }
  return absl::OkStatus();
}

std::optional<int> FlagSet::ParseOrExit(int argc, const char* const* argv) {
  return ParseOrExit(std::vector<std::string>(argv + (argc > 0 ? 1 : 0), argv + argc));
}

std::optional<int> FlagSet::ParseOrExit(const std::vector<std::string>& arguments) {
  const absl::Status status = Parse(arguments, ProcessEnvironment());
  if (!status.ok()) {
    const std::string message(status.message().data(), status.message().size());
    const std::string line = program_ + ": fatal: " + message + "\n";
    std::fwrite(line.data(), 1, line.size(), stderr);
    return ToInt(ExitCode::kUsage);
  }
  if (!help_asked_) return std::nullopt;
  const std::string help = Help(help_all_);
  std::fwrite(help.data(), 1, help.size(), stdout);
  return ToInt(ExitCode::kOk);
}

FlagSet::Environment FlagSet::ProcessEnvironment() {
  Environment result;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    const size_t equals = text.find('=');
    if (equals == std::string_view::npos) continue;
    result[std::string(text.substr(0, equals))] = std::string(text.substr(equals + 1));
  }
  return result;
}

}  // namespace baton
