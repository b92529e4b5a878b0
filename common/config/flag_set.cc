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
#include "common/config/usage_errors.h"

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
  UsageErrors errors;
  ReadCommandLine(arguments, &raw, &errors);
  if (help_asked_) return absl::OkStatus();
  const bool command_line_read = errors.empty();
  ReadEnvironment(environment, &raw);
  if (const auto config = raw.find("config"); config != raw.end()) {
    ReadFile(config->second.values.back(), &raw, &errors);
  }
  DropExcluded(&raw, &errors);
  // What is missing may be spelled wrong.
  if (command_line_read) CheckRequired(raw, &errors);
  Apply(raw, &errors);
  if (!errors.empty()) return errors.status();
  for (const auto& check : checks_) errors.Add(check());
  return errors.status();
}

void FlagSet::DropExcluded(RawValues* raw, UsageErrors* errors) const {
  for (const Flag& flag : flags_) {
    if (flag.exclusive_with.empty()) continue;
    const auto one = raw->find(flag.name);
    const auto other = raw->find(flag.exclusive_with);
    if (one == raw->end() || other == raw->end()) continue;
    if (one->second.source == other->second.source) {
      errors->Add(UsageError(
          absl::StrCat("both ", one->second.origin, " and ", other->second.origin, " are given"),
          "they exclude each other", "only one of them"));
    } else {
      raw->erase(one->second.source < other->second.source ? one : other);
    }
  }
}

void FlagSet::CheckRequired(const RawValues& raw, UsageErrors* errors) const {
  for (const Flag& flag : flags_) {
    if (!flag.required || raw.contains(flag.name)) continue;
    const std::string name = flag.positional ? flag.value : "--" + flag.name;
    const std::string given = flag.positional ? "" : " " + name + " " + flag.value;
    errors->Add(UsageError(name + " is missing", "expected " + flag.help, Usage() + given));
  }
}

void FlagSet::Apply(const RawValues& raw, UsageErrors* errors) {
  for (const Flag& flag : flags_) {
    const auto given = raw.find(flag.name);
    if (given == raw.end()) continue;
    const auto& [source, origin, values, origins, in_section] = given->second;
    sources_[flag.name] = source;
    const auto tell = [&](const std::string& where, const absl::Status& status) {
      if (status.ok()) return;
      errors->Add(UsageError(where, std::string(status.message().data(), status.message().size()),
                             program_ + " --help all"));
    };
    const absl::Status status = flag.set(values);
    if (status.ok()) continue;
    // Which of a file's values is wrong shows when each is set alone.
    const size_t before = errors->count();
    for (size_t i = 0; i < origins.size(); ++i) tell(origins[i], flag.set({values[i]}));
    if (errors->count() == before) tell(origin, status);
  }
}

std::optional<int> FlagSet::ParseOrExit(int argc, const char* const* argv) {
  return ParseOrExit(std::vector<std::string>(argv + (argc > 0 ? 1 : 0), argv + argc));
}

std::optional<int> FlagSet::ParseOrExit(const std::vector<std::string>& arguments) {
  const absl::Status status = Parse(arguments, ProcessEnvironment());
  for (const std::string& warning : warnings_) {
    const std::string line = program_ + ": warning: " + warning + "\n";
    std::fwrite(line.data(), 1, line.size(), stderr);
  }
  if (!status.ok()) return ReportUsage(program_, status);
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
