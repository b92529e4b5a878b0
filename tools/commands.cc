#include "tools/commands.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>

#include "common/config/edit_distance.h"
#include "common/config/exit_code.h"

namespace baton {
namespace {

constexpr std::array<Command, 24> kCommands = {{
    {"serve", "start router and workers for a model directory", &ServeCommand},
    {"generate", "send prompts and print the answers", &GenerateCommand},
    {"chat", "talk to a served model", &ChatCommand},
    {"bench", "load a server, measure it, find the highest load within limits", &BenchCommand},
    {"batch", "answer a file of requests, and go on where it was interrupted", &BatchCommand},
    {"plan", "how many workers of which kind a load needs", &PlanCommand},
    {"sim measure", "time the steps of one worker on this machine", &SimMeasureCommand},
    {"sim fit", "how long steps take, from measured ones", &SimFitCommand},
    {"sim", "simulate a cluster under a load", &SimCommand},
    {"probe", "ask a server for its health", &ProbeCommand},
    {"model inspect", "what a model directory holds and what it costs", &ModelInspectCommand},
    {"model make-random", "write a model of a shape with random weights", &ModelMakeRandomCommand},
    {"model quantize", "write a model with weights of 4 or 8 bits", &ModelQuantizeCommand},
    {"eos tail", "show rows of an EOS log, and those that are added", &EosTailCommand},
    {"eos stats", "what EOS logs say of answers and their ends", &EosStatsCommand},
    {"eos convert", "write an EOS log as CSV", &EosConvertCommand},
    {"eos validate", "check every row of EOS logs", &EosValidateCommand},
    {"eos collect", "ask a service many prompts and keep how the answers end", &EosCollectCommand},
    {"eos make-probe", "write a probe file of random directions", &EosMakeProbeCommand},
    {"config print", "show every setting and where it came from", &ConfigPrintCommand},
    {"config check", "check a configuration file", &ConfigCheckCommand},
    {"flags list", "every flag with the commands that take it", &FlagsListCommand},
    {"metrics list", "every metric with its labels and meaning", &MetricsListCommand},
    {"version", "what this binary is", &VersionCommand},
}};

std::string UsageLine(const Command& command) {
  std::string name = "  " + std::string(command.name);
  name.resize(22, ' ');
  return name + std::string(command.summary) + "\n";
}

std::string Usage() {
  std::string text =
      "Baton serves large language models with prefill and decode in separate services.\n\n"
      "Usage: baton COMMAND [arguments]\n\n";
  for (const Command& command : kCommands) text += UsageLine(command);
  return text + "\nbaton COMMAND --help says what a command takes.\n";
}

// How many leading arguments spell the command's name; 0 = they do not.
size_t MatchedWords(const Command& command, const Arguments& arguments) {
  const size_t space = command.name.find(' ');
  if (space == std::string_view::npos) {
    return !arguments.empty() && arguments[0] == command.name ? 1 : 0;
  }
  return arguments.size() >= 2 && arguments[0] == command.name.substr(0, space) &&
                 arguments[1] == command.name.substr(space + 1)
             ? 2
             : 0;
}

// The commands that begin with `word`, for `baton model --help`; empty when none does.
std::string UsageOfGroup(const std::string& word) {
  std::string text;
  for (const Command& command : kCommands) {
    if (command.name.starts_with(word + " ")) text += UsageLine(command);
  }
  return text.empty() ? text : "Usage: baton " + word + " COMMAND [arguments]\n\n" + text;
}

bool IsHelp(const std::string& argument) {
  return argument == "--help" || argument == "-h" || argument == "help";
}

int UnknownCommand(const Arguments& arguments) {
  std::string given = arguments[0];
  std::vector<std::string> candidates;
  bool first_word_known = false;
  for (const Command& command : kCommands) {
    candidates.emplace_back(command.name);
    first_word_known |= command.name.starts_with(arguments[0] + " ");
  }
  if (first_word_known && arguments.size() > 1) given += " " + arguments[1];
  const std::string nearest = NearestName(given, candidates);
  return ReportFatal("baton", {.code = ExitCode::kUsage,
                               .what = "unknown command '" + given + "'",
                               .why = "baton has no such command",
                               .next = nearest.empty() ? "baton --help" : "baton " + nearest});
}

int RunCommand(const Arguments& arguments) {
  for (const Command& command : kCommands) {
    const size_t words = MatchedWords(command, arguments);
    if (words == 0) continue;
    return command.run({.arguments = Arguments(arguments.begin() + static_cast<ptrdiff_t>(words),
                                               arguments.end())});
  }
  if (arguments.empty()) {
    std::fputs(Usage().c_str(), stderr);
    return ToInt(ExitCode::kUsage);
  }
  if (IsHelp(arguments[0])) {
    Print(Usage());
    return ToInt(ExitCode::kOk);
  }
  if (arguments[0] == "--version") return VersionCommand({});
  const std::string group = UsageOfGroup(arguments[0]);
  if (!group.empty() && arguments.size() > 1 && IsHelp(arguments[1])) {
    Print(group);
    return ToInt(ExitCode::kOk);
  }
  if (!group.empty() && arguments.size() == 1) {
    std::fputs(group.c_str(), stderr);
    return ToInt(ExitCode::kUsage);
  }
  return UnknownCommand(arguments);
}

// Why stdout did not take what was written; 0 = it did, or nobody knows why. stdio keeps that
// something failed, but not why.
int output_error = 0;

bool Flush() {
  errno = 0;
  if (std::fflush(stdout) == 0) return std::ferror(stdout) == 0;
  if (output_error == 0) output_error = errno;
  return false;
}

}  // namespace

std::optional<int> Invocation::Read(FlagSet* flags) const {
  if (show_flags == nullptr) return flags->ParseOrExit(arguments);
  show_flags(*flags);
  return ToInt(ExitCode::kOk);
}

std::span<const Command> Commands() { return kCommands; }

bool Print(std::string_view text) {
  errno = 0;
  if (std::fwrite(text.data(), 1, text.size(), stdout) == text.size()) return Flush();
  if (output_error == 0) output_error = errno;
  return false;
}

bool ReaderIsGone() {
  pollfd out = {.fd = STDOUT_FILENO, .events = 0, .revents = 0};
  return poll(&out, 1, 0) > 0 && (out.revents & (POLLERR | POLLHUP)) != 0;
}

int RunBaton(const Arguments& arguments) {
  std::clearerr(stdout);
  output_error = 0;
  const int exit = RunCommand(arguments);
  // A reader that went away had all that it wanted.
  if (Flush() || exit != ToInt(ExitCode::kOk) || ReaderIsGone()) return exit;
  return ReportFatal("baton", {.code = ExitCode::kResources,
                               .what = "cannot write the output",
                               .why = output_error == 0 ? "standard output did not take all of it"
                                                        : std::strerror(output_error),
                               .next = "another place for it, or room where it is"});
}

}  // namespace baton
