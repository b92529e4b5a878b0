// The command line of a worker, one argument a line, and behind a line "%%" its TOML file.
#include <string>
#include <vector>

#include "absl/strings/str_split.h"
#include "common/config/bind.h"
#include "tests/fakes/scratch_folder.h"
#include "tests/fuzz/fuzz_target.h"

namespace baton::fuzz {
namespace {

// A worker's settings as they are bound for `baton-decode`.
struct Settings {
  Settings() { BindWorker(&set, &flags); }

  WorkerFlags flags = DefaultDecodeFlags();
  FlagSet set{"baton-decode", "decode", "A decode worker."};
};

// The settings as they would be given: all of them, so that nothing is left to a default.
std::vector<std::string> AsArguments(const FlagSet& set) {
  std::vector<std::string> arguments;
  for (const Flag& flag : set.flags()) {
    if (flag.name == "config") continue;
    for (const std::string& value : flag.get()) {
      if (flag.positional) {
        arguments.push_back(value);
      } else if (set.Given(flag.name)) {
        arguments.push_back("--" + flag.name + "=" + value);
      }
    }
  }
  return arguments;
}

}  // namespace

FUZZ_TARGET(flags) {
  static const ScratchFolder folder;
  std::vector<std::string> arguments;
  const std::string_view typed = TakeSection(&input);
  if (!typed.empty()) {
    arguments = absl::StrSplit(absl::string_view(typed.data(), typed.size()), '\n');
  }
  for (const std::string& argument : arguments) {
    if (argument.find("--config") != argument.npos) return;  // the files of others are not fuzzed
  }
  arguments.push_back("--config=" + folder.Write("baton.toml", input));
  Settings settings;
  if (!Accepted(settings.set.Parse(arguments, {}))) return;
  // Help was asked for: nothing was set, and nothing can be repeated.
  if (settings.flags.model_dir.empty()) return;
  const std::vector<std::string> given = AsArguments(settings.set);
  Settings again;
  const absl::Status parsed = again.set.Parse(given, {});
  BATON_CHECK(parsed.ok()) << parsed.ToString();
  BATON_CHECK(AsArguments(again.set) == given);
}

}  // namespace baton::fuzz
