#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/config/flag_set.h"

// The `baton` command: one function per subcommand, each in a file of its own. Each reads its flags
// before it does anything else, and returns the number to exit with (ExitCode).
namespace baton {

using Arguments = std::vector<std::string>;

// One use of a subcommand.
struct Invocation {
  Arguments arguments;  // what follows the command's name
  // When set, it is shown the command's flags, and the command does nothing else.
  std::function<void(FlagSet& flags)> show_flags = nullptr;

  // Reads the arguments into `flags`. Empty when the command should go on; else what it returns.
  std::optional<int> Read(FlagSet* flags) const;
};

int ServeCommand(const Invocation& call);
int GenerateCommand(const Invocation& call);
int ChatCommand(const Invocation& call);
int BenchCommand(const Invocation& call);
int BatchCommand(const Invocation& call);
int SimCommand(const Invocation& call);
int SimFitCommand(const Invocation& call);
int SimMeasureCommand(const Invocation& call);
int PlanCommand(const Invocation& call);
int ProbeCommand(const Invocation& call);
int EosTailCommand(const Invocation& call);
int EosStatsCommand(const Invocation& call);
int EosConvertCommand(const Invocation& call);
int EosValidateCommand(const Invocation& call);
int EosMakeProbeCommand(const Invocation& call);
int EosCollectCommand(const Invocation& call);
int ModelInspectCommand(const Invocation& call);
int ModelMakeRandomCommand(const Invocation& call);
int ModelQuantizeCommand(const Invocation& call);
int ConfigPrintCommand(const Invocation& call);
int ConfigCheckCommand(const Invocation& call);
int FlagsListCommand(const Invocation& call);
int MetricsListCommand(const Invocation& call);
int VersionCommand(const Invocation& call);

struct Command {
  std::string_view name;  // one word, or two: "model inspect"
  std::string_view summary;
  int (*run)(const Invocation& call);
};
std::span<const Command> Commands();

// Runs the subcommand that `arguments` name; an unknown one names the nearest and gives 2. A
// command that went well gives 4 nevertheless when stdout did not take all that it printed.
int RunBaton(const Arguments& arguments);

// Writes `text` to stdout and flushes it. False when stdout did not take it: what a command would
// print after that is lost, too, and RunBaton says so at its end.
bool Print(std::string_view text);
// Whether what stdout leads to was closed, as by `| head`.
bool ReaderIsGone();

}  // namespace baton
