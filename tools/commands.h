#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

// The `baton` command: one function per subcommand, each in a file of its own. Each takes what
// follows its name and returns the number to exit with (ExitCode).
namespace baton {

using Arguments = std::vector<std::string>;

int ServeCommand(const Arguments& arguments);
int GenerateCommand(const Arguments& arguments);
int ChatCommand(const Arguments& arguments);
int BenchCommand(const Arguments& arguments);
int ProbeCommand(const Arguments& arguments);
int ModelInspectCommand(const Arguments& arguments);
int ModelMakeRandomCommand(const Arguments& arguments);
int ConfigPrintCommand(const Arguments& arguments);
int ConfigCheckCommand(const Arguments& arguments);
int MetricsListCommand(const Arguments& arguments);
int VersionCommand(const Arguments& arguments);

struct Command {
  std::string_view name;  // one word, or two: "model inspect"
  std::string_view summary;
  int (*run)(const Arguments& arguments);
};
std::span<const Command> Commands();

// Runs the subcommand that `arguments` name; an unknown one names the nearest and gives 2.
int RunBaton(const Arguments& arguments);

// To stdout, at once.
void Print(std::string_view text);

}  // namespace baton
