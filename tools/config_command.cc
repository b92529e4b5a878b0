#include <algorithm>
#include <filesystem>
#include <functional>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "common/config/edit_distance.h"
#include "common/config/exit_code.h"
#include "common/config/numbers.h"
#include "common/formats/gguf/gguf_file.h"
#include "common/sample/request_limits.h"
#include "nlohmann/json.hpp"
#include "tools/commands.h"
#include "tools/named_paths.h"
#include "tools/settings_of.h"

namespace baton {
namespace {

// The commands whose settings a file may hold, as they are typed here.
std::vector<std::string> CommandWords() {
  std::vector<std::string> words = ConfigurableCommands();
  words.insert(words.end(), {"generate", "chat", "bench"});
  return words;
}

bool IsCommandWord(const std::string& word) {
  const std::vector<std::string> words = CommandWords();
  return std::find(words.begin(), words.end(), word) != words.end();
}

absl::Status UnknownCommandWord(const std::string& found) {
  const std::string nearest = NearestName(found, CommandWords());
  return UsageError("found '" + found + "'",
                    "expected " + absl::StrJoin(CommandWords(), ", ") +
                        " as the first word, or a model directory or GGUF file",
                    nearest.empty() ? "serve" : nearest);
}

// Takes the command that is asked about out of `arguments`: their first word, where it is one; else
// it is "serve".
std::string TakeCommand(Arguments* arguments) {
  if (arguments->empty() || !IsCommandWord(arguments->front())) return "serve";
  std::string command = arguments->front();
  arguments->erase(arguments->begin());
  return command;
}

// Whether a file stands first in `rest`, and behind it what a command's line may have.
bool BeginsWithAFile(const Arguments& rest) {
  if (rest.empty() || rest[0].starts_with('-')) return false;
  return rest.size() == 1 || (!IsCommandWord(rest[1]) && !rest[1].ends_with(".toml"));
}

// That it does not. The words may be a file and its command the wrong way round.
absl::Status NoFileFirst(const Arguments& rest) {
  if (rest.empty() || rest[0].starts_with('-')) {
    return UsageError("FILE.toml is missing", "expected a configuration file in front of flags",
                      "baton config check serve FILE.toml DIR");
  }
  const auto word = std::find_if(rest.begin(), rest.end(), IsCommandWord);
  std::string command = word == rest.end() ? NearestName(rest.front(), CommandWords()) : *word;
  if (command.empty()) command = "serve";
  return UsageError(
      "found " + std::to_string(rest.size()) + " arguments: " + absl::StrJoin(rest, " "),
      "expected " + absl::StrJoin(CommandWords(), ", ") +
          " as the first word, or none, and one configuration file",
      "baton config check " + command + " FILE.toml");
}

// A model that is none is a command that was misspelled or does not stand first.
absl::Status CheckModelDir(const FlagSet& set) {
  for (const Flag& flag : set.flags()) {
    if (!flag.positional || set.SourceOf(flag.name) != FlagSource::kCommandLine) continue;
    const std::string given = flag.get().front();
    std::error_code ignored;
    const bool is_path = given.find('/') != given.npos || IsGgufPath(given);
    if (is_path || std::filesystem::exists(given + "/config.json", ignored)) continue;
    return UnknownCommandWord(given);
  }
  return absl::OkStatus();
}

// Takes out that model, workers and prompts have to be said.
void DropDemands(const std::string& command, FlagSet* set) {
  for (const Flag& flag : set->flags()) set->Edit(flag.name).required = false;
  if (command != "serve" && command != "prefill" && command != "decode") set->ClearChecks();
}

// What the command demands and neither the file nor the words behind it say. The message tells how
// to say it here; the command's own would not.
void DemandInFile(const std::string& command, const std::string& file, FlagSet* set) {
  for (const Flag& flag : set->flags()) {
    if (!flag.required) continue;
    set->Edit(flag.name).required = false;
    set->AddCheck([&flag, command, file, set] {
      if (set->Given(flag.name)) return absl::OkStatus();
      return UsageError(flag.value + " is missing",
                        "expected " + flag.help + ", as " + flag.name +
                            " in the file or as an argument behind it",
                        "baton config check " + command + " " + file + " " + flag.value);
    });
  }
}

// Hands the settings of `command` to `use` and returns what it returns.
int WithSettings(const std::string& command, const std::string& program,
                 const std::function<int(FlagSet*)>& use) {
  auto settings = SettingsOf(command, program);
  if (settings) return use(settings->set.get());
  int result = ToInt(ExitCode::kUsage);
  for (const Command& other : Commands()) {
    if (other.name != command) continue;
    other.run({.arguments = {}, .show_flags = [&](FlagSet& set) { result = use(&set); }});
  }
  return result;
}

std::string SourceName(FlagSource source) {
  switch (source) {
    case FlagSource::kDefault:
      return "default";
    case FlagSource::kFile:
      return "file";
    case FlagSource::kEnvironment:
      return "environment";
    case FlagSource::kCommandLine:
      return "command line";
  }
  return "";
}

// Quoted as JSON, which TOML shares. Bytes that are no text are replaced.
std::string Quoted(const nlohmann::json& value) {
  return value.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

// A TOML value.
std::string TomlValue(const Flag& flag) {
  const std::vector<std::string> values = flag.get();
  if (flag.repeatable) return Quoted(values);
  const std::string value = values.empty() ? "" : values.front();
  // TOML's integers have 64 bits with a sign; what is larger, such as a seed, is text.
  const bool bare = flag.value.empty() || ((flag.value == "N" || flag.value == "PORT") &&
                                           ParseNumber<int64_t>(value).has_value());
  return bare ? value : Quoted(value);
}

std::string TomlLine(const FlagSet& set, const Flag& flag) {
  const bool unset = !flag.repeatable && flag.get().empty();
  std::string line = (unset ? "# " : "") + flag.name + " = " + TomlValue(flag);
  line.resize(std::max<size_t>(line.size() + 2, 40), ' ');
  return line + "# " + SourceName(set.SourceOf(flag.name)) + "\n";
}

// By groups, in the order in which they begin; of several makers' flags a group may lie apart.
std::string AsToml(const FlagSet& set) {
  std::vector<std::pair<std::string, std::string>> groups;  // name and lines
  for (const Flag& flag : set.flags()) {
    if (flag.hidden || flag.name == "config") continue;
    auto group = std::ranges::find(groups, flag.group, &decltype(groups)::value_type::first);
    if (group == groups.end()) group = groups.insert(groups.end(), {flag.group, ""});
    group->second += TomlLine(set, flag);
  }
  std::string text;
  for (const auto& [name, lines] : groups) text += "\n# " + name + "\n" + lines;
  return text;
}

}  // namespace

int ConfigPrintCommand(const Invocation& call) {
  Arguments rest = call.arguments;
  const std::string program = "baton config print";
  const std::string command = TakeCommand(&rest);
  return WithSettings(command, program + " " + command, [&](FlagSet* set) {
    DropDemands(command, set);
    if (const auto exit = set->ParseOrExit(rest)) return *exit;
    const absl::Status status = CheckModelDir(*set);
    if (!status.ok()) return ReportUsage(program, status);
    Print("# Settings of `" + command +
          "`, each with its source. A file like this is for --config." + AsToml(*set) +
          RequestLimitsComment());
    return ToInt(ExitCode::kOk);
  });
}

int ConfigCheckCommand(const Invocation& call) {
  Arguments rest = call.arguments;
  const std::string program = "baton config check";
  if (std::ranges::any_of(rest, [](const auto& one) { return one == "--help" || one == "-h"; })) {
    Print(
        "Checks a configuration file, and what stands behind it on the command's line.\n\n"
        "Usage: baton config check [" +
        absl::StrJoin(CommandWords(), "|") + "] FILE.toml [ARGUMENT...]\n");
    return ToInt(ExitCode::kOk);
  }
  const std::string command = TakeCommand(&rest);
  if (!BeginsWithAFile(rest)) return ReportUsage(program, NoFileFirst(rest));
  const std::string file = rest[0];
  const bool starts = SettingsOf(command, "").has_value();
  const std::string checked = (command == "serve" || !starts ? "baton " : "baton-") + command;
  return WithSettings(command, checked, [&](FlagSet* set) {
    // What asks a service has its prompts from somewhere else each time.
    if (starts) {
      DemandInFile(command, file, set);
    } else {
      DropDemands(command, set);
    }
    set->AddCheck([set] { return CheckNamedPaths(*set); });
    rest.insert(rest.begin(), "--config");
    const absl::Status status = set->Parse(rest, {});
    if (!status.ok()) return ReportUsage(program, status);
    Print(file + ": ok for `" + command + "`\n");
    return ToInt(ExitCode::kOk);
  });
}

}  // namespace baton
