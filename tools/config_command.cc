#include <cstdio>

#include "common/base/status.h"
#include "common/config/exit_code.h"
#include "common/config/flag_types.h"
#include "common/sample/request_limits.h"
#include "nlohmann/json.hpp"
#include "tools/commands.h"
#include "tools/settings_of.h"

namespace baton {
namespace {

int Fail(const std::string& program, const absl::Status& status) {
  const std::string message(status.message().data(), status.message().size());
  std::fputs((program + ": fatal: " + message + "\n").c_str(), stderr);
  return ToInt(ExitCode::kUsage);
}

// Takes `--for COMMAND` out of `arguments`; "serve" when it is not there.
std::string TakeFor(Arguments* arguments) {
  std::string command = "serve";
  for (size_t i = 0; i < arguments->size();) {
    const std::string& argument = (*arguments)[i];
    const auto here = arguments->begin() + static_cast<ptrdiff_t>(i);
    if (argument.starts_with("--for=")) {
      command = argument.substr(6);
      arguments->erase(here);
    } else if (argument == "--for" && i + 1 < arguments->size()) {
      command = (*arguments)[i + 1];
      arguments->erase(here, here + 2);
    } else {
      ++i;
    }
  }
  return command;
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

// A TOML value; strings quoted as JSON, which TOML shares.
std::string TomlValue(const Flag& flag) {
  const std::vector<std::string> values = flag.get();
  if (flag.repeatable) return nlohmann::json(values).dump();
  const std::string value = values.empty() ? "" : values.front();
  const bool bare =
      flag.value.empty() || ((flag.value == "N" || flag.value == "PORT") && !value.empty());
  return bare ? value : nlohmann::json(value).dump();
}

std::string AsToml(const FlagSet& set) {
  std::string text;
  std::string group;
  for (const Flag& flag : set.flags()) {
    if (flag.hidden || flag.name == "config") continue;
    if (flag.group != group) {
      group = flag.group;
      text += "\n# " + group + "\n";
    }
    const bool unset = !flag.repeatable && flag.get().empty();
    std::string line = (unset ? "# " : "") + flag.name + " = " + TomlValue(flag);
    line.resize(std::max<size_t>(line.size() + 2, 40), ' ');
    text += line + "# " + SourceName(set.SourceOf(flag.name)) + "\n";
  }
  return text;
}

}  // namespace

int ConfigPrintCommand(const Invocation& call) {
  Arguments rest = call.arguments;
  const std::string command = TakeFor(&rest);
  const std::string program = "baton config print";
  auto settings = SettingsOf(command, program);
  if (!settings.ok()) return Fail(program, settings.status());
  // What is in force is of interest even where nothing names a model or workers yet.
  if (command == "router") settings->set->ClearChecks();
  settings->set->Edit("model-dir").required = false;
  if (const auto exit = settings->set->ParseOrExit(rest)) return *exit;
  Print("# Settings of `" + command + "`, each with its source. A file like this is for --config." +
        AsToml(*settings->set) + RequestLimitsComment());
  return 0;
}

int ConfigCheckCommand(const Invocation& call) {
  Arguments rest = call.arguments;
  const std::string command = TakeFor(&rest);
  const std::string program = "baton config check";
  if (rest.size() == 1 && (rest[0] == "--help" || rest[0] == "-h")) {
    Print(
        "Checks a configuration file.\n\nUsage: baton config check FILE.toml "
        "[--for serve|router|prefill|decode]\n");
    return 0;
  }
  if (rest.size() != 1) {
    return Fail(program, UsageError("FILE.toml is missing", "expected one configuration file",
                                    "baton config check FILE.toml --for serve"));
  }
  auto settings = SettingsOf(command, program);
  if (!settings.ok()) return Fail(program, settings.status());
  // A file need not say everything: model and workers may stand on the command line.
  if (command == "router") settings->set->ClearChecks();
  settings->set->Edit("model-dir").required = false;
  const absl::Status status = settings->set->Parse({"--config", rest[0]}, {});
  if (!status.ok()) return Fail(program, status);
  Print(rest[0] + ": ok for `" + command + "`\n");
  return 0;
}

}  // namespace baton
