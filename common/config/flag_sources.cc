// Where settings come from: the command line and the file through CLI11, and the environment.
#include <algorithm>
#include <array>
#include <cctype>
#include <filesystem>
#include <utility>

#include "CLI/CLI.hpp"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/status.h"
#include "common/config/edit_distance.h"
#include "common/config/flag_set.h"

namespace baton {
namespace {

// Commands that may have a section of their own in a configuration file.
constexpr std::array<std::string_view, 6> kSections = {"router", "prefill",  "decode",
                                                       "serve",  "generate", "chat"};

// A section [tenant.NAME] of a configuration file says what `--tenant NAME:…` does.
constexpr char kTenantSection[] = "tenant";

bool IsServiceLink(std::string_view value) {
  return value.starts_with("tcp://") || value.starts_with("udp://") || value.starts_with("sctp://");
}

// A flag's names as CLI11 takes them: "--name,--alias", with "!--no-name" for a switch; a bare name
// for a positional argument.
std::string CliNames(const Flag& flag) {
  if (flag.positional) return flag.name;
  std::string names = "--" + flag.name;
  for (const std::string& alias : flag.aliases) names += ",--" + alias;
  if (flag.value.empty()) names += ",!--no-" + flag.name;
  return names;
}

CLI::Option* AddToApp(CLI::App* app, const Flag& flag) {
  const bool is_switch = flag.value.empty();
  CLI::Option* option = is_switch ? app->add_flag(CliNames(flag)) : app->add_option(CliNames(flag));
  if (!is_switch) option->type_size(1)->expected(1);
  option->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  return option;
}

absl::Status FileError(const std::string& path, std::string_view why) {
  return UsageError("cannot read the configuration file " + path, why,
                    "--config with a TOML file, or none");
}

std::string Nearest(std::string_view name, const std::vector<std::string>& candidates,
                    std::string_view otherwise) {
  const std::string nearest = NearestName(name, candidates);
  return nearest.empty() ? std::string(otherwise) : nearest;
}

}  // namespace

std::string EnvironmentName(std::string_view flag) {
  std::string name = "BATON_";
  for (const char c : flag) {
    name += c == '-' ? '_' : static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  }
  return name;
}

absl::Status FlagSet::CheckRemaining(const std::vector<std::string>& remaining) const {
  if (remaining.empty()) return absl::OkStatus();
  const auto unknown = std::find_if(remaining.begin(), remaining.end(), [](const auto& argument) {
    return argument.size() > 1 && argument[0] == '-';
  });
  if (unknown == remaining.end()) {
    return UsageError("unexpected argument '" + remaining.front() + "'",
                      program_ + " takes no more of them", program_ + " --help");
  }
  const std::string flag = unknown->substr(0, unknown->find('='));
  return UsageError("unknown flag " + flag, program_ + " has no such flag",
                    Nearest(flag, VisibleNames("--"), program_ + " --help all"));
}

absl::Status FlagSet::ReadCommandLine(const std::vector<std::string>& arguments, RawValues* raw) {
  CLI::App app;
  app.set_help_flag();
  app.allow_extras();
  const CLI::Option* help = app.add_flag("-h,--help");
  std::vector<std::pair<const Flag*, CLI::Option*>> options;
  for (const Flag& flag : flags_) options.emplace_back(&flag, AddToApp(&app, flag));
  try {
    app.parse(std::vector<std::string>(arguments.rbegin(), arguments.rend()));
  } catch (const CLI::ParseError& error) {
    return UsageError("cannot read the command line", error.what(), program_ + " --help");
  }
  help_asked_ = help->count() > 0;
  if (help_asked_) {
    const auto all = std::find(arguments.begin(), arguments.end(), "all");
    help_all_ = all != arguments.end() && all != arguments.begin() &&
                (*(all - 1) == "--help" || *(all - 1) == "-h");
    return absl::OkStatus();
  }
  BATON_RETURN_IF_ERROR(CheckRemaining(app.remaining()));
  for (const auto& [flag, option] : options) {
    if (option->count() == 0) continue;
    (*raw)[flag->name] = {.source = FlagSource::kCommandLine,
                          .origin = flag->positional ? flag->value : "--" + flag->name,
                          .values = option->results()};
  }
  return absl::OkStatus();
}

void FlagSet::ReadEnvironment(const Environment& environment, RawValues* raw) const {
  for (const Flag& flag : flags_) {
    if (raw->contains(flag.name)) continue;
    std::vector<std::string> names = {flag.name};
    names.insert(names.end(), flag.aliases.begin(), flag.aliases.end());
    for (const std::string& name : names) {
      const auto variable = environment.find(EnvironmentName(name));
      if (variable == environment.end() || variable->second.empty()) continue;
      if (flag.is_port && IsServiceLink(variable->second)) continue;
      (*raw)[flag.name] = {.source = FlagSource::kEnvironment,
                           .origin = variable->first,
                           .values = {variable->second}};
      break;
    }
  }
}

absl::Status FlagSet::ReadFile(const std::string& path, RawValues* raw) const {
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(path, ignored)) {
    return FileError(path, "it does not exist or is not a file");
  }
  std::vector<CLI::ConfigItem> items;
  try {
    items = CLI::ConfigTOML().from_file(path);
  } catch (const CLI::Error& error) {
    return FileError(path, error.what());
  }
  // What stands at the top first, so that the command's own section wins; tenants last, because
  // they add to what a list of them has.
  std::ranges::stable_sort(items, {}, [](const CLI::ConfigItem& item) {
    if (item.parents.empty()) return 0;
    return item.parents.front() == kTenantSection ? 2 : 1;
  });
  for (CLI::ConfigItem& item : items) {
    if (item.name == "--") continue;  // the end of a section
    FileKey key{.sections = item.parents, .name = item.name, .values = item.inputs};
    BATON_RETURN_IF_ERROR(ReadFileKey(path, key, raw));
  }
  return absl::OkStatus();
}

absl::Status FlagSet::ReadTenantKey(const std::string& path, const FileKey& key,
                                    RawValues* raw) const {
  if (key.name == "++" || Find(kTenantSection) == nullptr) return absl::OkStatus();
  if (key.sections.size() < 2 || key.values.size() != 1) {
    return UsageError(absl::StrCat("key '", key.name, "' of section [tenant] in ", path),
                      "expected sections of single tenants with one value for each key",
                      "[tenant.NAME] and max-running = 8");
  }
  Raw& entry = (*raw)[kTenantSection];
  if (entry.source > FlagSource::kFile) return absl::OkStatus();
  entry.source = FlagSource::kFile;
  entry.origin = absl::StrCat("tenant in ", path);
  // A name may have dots.
  const std::string name = absl::StrJoin(key.sections.begin() + 1, key.sections.end(), ".");
  std::string setting = key.name;
  std::replace(setting.begin(), setting.end(), '_', '-');
  entry.values.push_back(absl::StrCat(name, ":", setting, "=", key.values.front()));
  return absl::OkStatus();
}

absl::Status FlagSet::ReadFileKey(const std::string& path, const FileKey& key,
                                  RawValues* raw) const {
  if (!key.sections.empty() && key.sections.front() == kTenantSection) {
    return ReadTenantKey(path, key, raw);
  }
  if (!key.sections.empty()) {
    const std::string& section = key.sections.front();
    const bool known = std::find(kSections.begin(), kSections.end(), section) != kSections.end();
    if (!known || key.sections.size() > 1) {
      return UsageError("unknown section [" + section + "] in " + path,
                        "sections are named like commands",
                        Nearest(section, {kSections.begin(), kSections.end()}, "[serve]"));
    }
    if (section != section_ || key.name == "++") return absl::OkStatus();  // "++" opens a section
  }
  std::string name = key.name;
  std::replace(name.begin(), name.end(), '_', '-');
  const Flag* flag = Find(name);
  if (flag == nullptr || flag->name == "config") {
    return UsageError("unknown key '" + key.name + "' in " + path,
                      program_ + " has no such setting",
                      Nearest(name, VisibleNames(""), program_ + " --help all"));
  }
  for (const std::string& value : key.values) {
    if (!value.empty() && (value.front() == '"' || value.front() == '\'')) {
      return UsageError(key.name + " in " + path, "its quotes do not close",
                        "a quoted value on one line, without '#'");
    }
  }
  Raw& entry = (*raw)[flag->name];
  if (entry.source > FlagSource::kFile) return absl::OkStatus();
  entry = {.source = FlagSource::kFile, .origin = key.name + " in " + path, .values = key.values};
  return absl::OkStatus();
}

}  // namespace baton
