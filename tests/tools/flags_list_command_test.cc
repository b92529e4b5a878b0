#include <fstream>
#include <iterator>
#include <sstream>

#include "common/config/unknown_variables.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/tools/run_tool.h"
#include "tools/settings_of.h"

namespace baton {
namespace {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

std::string Page() { return RunTool({"flags", "list", "--markdown"}).out; }

// The page's lines about a flag that `command` takes; "--port" finds "--port PORT", not "--port-x".
std::string LinesOf(const std::string& page, const std::string& flag, const std::string& command) {
  std::istringstream lines(page);
  std::string found;
  for (std::string line; std::getline(lines, line);) {
    const size_t end = line.find('`', 3);
    if (!line.starts_with("| `" + flag) || end == std::string::npos) continue;
    const char next = line[3 + flag.size()];
    const size_t taker = line.find(" | ", end) + 3;
    const std::string takers = ", " + line.substr(taker, line.find(" | ", taker) - taker) + ", ";
    if ((next == ' ' || next == '`' || next == ',') &&
        takers.find(", " + command + ", ") != std::string::npos) {
      found += line + "\n";
    }
  }
  return found;
}

TEST(FlagsListCommand, MarkdownIsTheCommittedDocument) {
  std::ifstream file(BATON_SOURCE_DIR "/docs/flags.md");
  ASSERT_TRUE(file.good());
  const std::string committed{std::istreambuf_iterator<char>(file),
                              std::istreambuf_iterator<char>()};
  EXPECT_EQ(committed, Page()) << "type: baton flags list --markdown > docs/flags.md";
}

TEST(FlagsListCommand, HasEveryFlagThatTheHelpOfACommandLists) {
  const std::string page = Page();
  for (const Command& command : Commands()) {
    const std::string name(command.name);
    if (name.starts_with("config ")) continue;  // takes the flags of the command it is asked about
    std::istringstream words(name + " --help all");
    std::istringstream help(
        RunTool({std::istream_iterator<std::string>(words), std::istream_iterator<std::string>()})
            .out);
    int flags = 0;
    for (std::string line; std::getline(help, line);) {
      if (!line.starts_with("  --")) continue;
      const std::string flag = line.substr(2, line.find_first_of(" ,", 2) - 2);
      EXPECT_NE(LinesOf(page, flag, name), "") << flag << " of " << name;
      ++flags;
    }
    EXPECT_GT(flags, 0) << name;
  }
}

TEST(FlagsListCommand, HasEveryFlagOfTheServers) {
  const std::string page = Page();
  for (const std::string server : {"router", "prefill", "decode"}) {
    const auto settings = SettingsOf(server, "");
    ASSERT_TRUE(settings.has_value());
    for (const Flag& flag : settings->set->flags()) {
      if (flag.hidden || flag.positional) continue;
      EXPECT_NE(LinesOf(page, "--" + flag.name, "baton-" + server), "") << flag.name;
    }
  }
}

TEST(FlagsListCommand, SharedFlagsStandOnceWithTheirDefaults) {
  const std::string page = Page();
  EXPECT_EQ(LinesOf(page, "--port", "serve"), LinesOf(page, "--port", "baton-decode"));
  EXPECT_THAT(LinesOf(page, "--port", "serve"),
              HasSubstr("| 50051; baton-prefill: 50052; baton-decode: 50053 | `BATON_PORT` |"));
  EXPECT_NE(LinesOf(page, "--seed", "bench"), LinesOf(page, "--seed", "generate"));
  EXPECT_THAT(LinesOf(page, "--mode", "serve"), HasSubstr("`--mode split\\|unified`"));
}

// The variables of every command.
std::vector<std::vector<std::string>> VariablesByCommand() {
  std::vector<std::vector<std::string>> all;
  const auto add = [&all](const FlagSet& set) {
    all.emplace_back();
    for (const Flag& flag : set.flags()) {
      all.back().push_back(EnvironmentName(flag.name));
      for (const std::string& alias : flag.aliases) all.back().push_back(EnvironmentName(alias));
    }
  };
  for (const std::string& server : ConfigurableCommands()) add(*SettingsOf(server, "")->set);
  for (const Command& command : Commands()) {
    if (command.name.starts_with("config ")) continue;
    command.run({.arguments = {}, .show_flags = add});
  }
  return all;
}

TEST(UnknownVariables, ASettingOfOneCommandIsNoMisspeltOneOfAnother) {
  const auto all = VariablesByCommand();
  FlagSet::Environment environment;
  for (const auto& variables : all) {
    for (const std::string& variable : variables) environment[variable] = "1";
  }
  for (const auto& known : all) {
    EXPECT_THAT(UnknownVariableWarnings(environment, known), IsEmpty()) << known.back();
  }
}

TEST(FlagsListCommand, LeavesOutWhatNoHelpShows) {
  EXPECT_THAT(Page(), Not(HasSubstr("failpoint")));
}

TEST(FlagsListCommand, HasAPlainForm) {
  EXPECT_THAT(RunTool({"flags", "list"}).out,
              ContainsRegex("--max-num-seqs N  \\(serve, .*\\)  BATON_MAX_NUM_SEQS  \\[64\\]"));
}

}  // namespace
}  // namespace baton
