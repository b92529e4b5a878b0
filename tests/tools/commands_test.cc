#include "tools/commands.h"

#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_split.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/fakes/scratch_folder.h"
#include "tests/tools/run_tool.h"

namespace baton {
namespace {

using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

TEST(RunBaton, AnUnknownCommandNamesTheNearest) {
  const ToolRun run = RunTool({"generat"});
  EXPECT_EQ(run.exit, 2);
  EXPECT_THAT(run.err, HasSubstr("Try: baton generate"));
  EXPECT_THAT(RunTool({"model", "inspekt"}).err, HasSubstr("Try: baton model inspect"));
  EXPECT_EQ(RunTool({"model"}).exit, 2);
}

TEST(RunBaton, HelpListsEveryCommand) {
  const ToolRun run = RunTool({"--help"});
  EXPECT_EQ(run.exit, 0);
  for (const Command& command : Commands()) {
    EXPECT_THAT(run.out, HasSubstr(std::string(command.name)));
  }
  EXPECT_EQ(RunTool({}).exit, 2);
}

TEST(RunBaton, AFirstWordListsItsCommands) {
  const ToolRun help = RunTool({"model", "--help"});
  EXPECT_EQ(help.exit, 0);
  EXPECT_THAT(help.out, HasSubstr("model inspect"));
  EXPECT_THAT(help.out, HasSubstr("model make-random"));
  EXPECT_THAT(help.out, ::testing::Not(HasSubstr("serve")));
  const ToolRun alone = RunTool({"config"});
  EXPECT_EQ(alone.exit, 2);
  EXPECT_THAT(alone.err, HasSubstr("config print"));
}

TEST(RunBaton, ConfigPrintEndsWithTheLimitsOfARequest) {
  EXPECT_THAT(RunTool({"config", "print", "router"}).out,
              HasSubstr("#   spec.stop.stop_token_ids: at most 256 entries\n"));
}

TEST(RunBaton, AFolderThatWasRemovedUnderACommandIsSaid) {
  const std::filesystem::path before = std::filesystem::current_path();
  const ScratchFolder scratch;
  const std::string config = scratch.Write("config.toml", "[decode]\n");
  const std::string gone = scratch / "gone";
  std::filesystem::create_directory(gone);
  std::filesystem::current_path(gone);
  std::filesystem::remove(gone);
  const ToolRun bench = RunTool({"bench", "--out", "x.json", "--concurrency", "1"});
  const ToolRun check = RunTool({"config", "check", "decode", config, "nowhere"});
  std::filesystem::current_path(before);
  EXPECT_EQ(bench.exit, 2);
  EXPECT_THAT(bench.err, HasSubstr("the folder that this runs in is no longer there"));
  EXPECT_EQ(check.exit, 2);
  EXPECT_THAT(check.err, HasSubstr("from a folder that is no longer there"));
}

TEST(RunBaton, EveryCommandHasHelp) {
  for (const Command& command : Commands()) {
    Arguments arguments;
    const std::string name(command.name);
    const size_t space = name.find(' ');
    arguments.push_back(name.substr(0, space));
    if (space != std::string::npos) arguments.push_back(name.substr(space + 1));
    arguments.emplace_back("--help");
    const ToolRun run = RunTool(arguments);
    EXPECT_EQ(run.exit, 0) << name;
    EXPECT_THAT(run.out, HasSubstr("Usage: baton " + name)) << name;
    EXPECT_FALSE(run.out.starts_with("\n")) << name << " says nothing of what it is";
  }
}

TEST(VersionCommand, SaysWhatItIs) {
  EXPECT_THAT(RunTool({"version"}).out, StartsWith("baton 0."));
  const auto json = nlohmann::json::parse(RunTool({"version", "--json"}).out);
  EXPECT_TRUE(json["version"].is_string());
  EXPECT_EQ(RunTool({"version", "--jsn"}).exit, 2);
}

TEST(MetricsListCommand, HasThreeForms) {
  EXPECT_THAT(RunTool({"metrics", "list"}).out, HasSubstr("baton_time_to_first_token_seconds"));
  EXPECT_THAT(RunTool({"metrics", "list", "--markdown"}).out, StartsWith("# Metrics"));
  EXPECT_TRUE(nlohmann::json::parse(RunTool({"metrics", "list", "--json"}).out).is_array());
  EXPECT_EQ(RunTool({"metrics", "list", "--json", "--markdown"}).exit, 2);
}

class ConfigCommand : public ::testing::Test {
 protected:
  std::string File(const std::string& text) { return folder_.Write("settings.toml", text); }
  const ScratchFolder folder_;
  // A model as far as paths say it.
  std::string MakeModel() const {
    std::filesystem::create_directory(folder_ / "model");
    folder_.Write("model/config.json", "{}");
    return folder_ / "model";
  }
  const std::string file_ = folder_ / "settings.toml";
  const std::string model_ = MakeModel();
};

TEST_F(ConfigCommand, PrintShowsValuesAndSources) {
  const ToolRun run =
      RunTool({"config", "print", "--port", "7", "--config", File("prefill = 3\n")});
  EXPECT_EQ(run.exit, 0) << run.err;
  EXPECT_THAT(run.out, ::testing::ContainsRegex("port = 7 +# command line"));
  EXPECT_THAT(run.out, ::testing::ContainsRegex("prefill = 3 +# file"));
  EXPECT_THAT(run.out, ::testing::ContainsRegex("client-buffer = \"4MiB\" +# default"));
  EXPECT_THAT(run.out, ::testing::ContainsRegex("ignore-eos = \"allow\" +# default"));
}

TEST_F(ConfigCommand, PrintHasEachGroupOnce) {
  for (const char* command : {"serve", "router", "prefill", "decode", "bench"}) {
    const ToolRun run = RunTool({"config", "print", command});
    std::set<std::string> headings;
    for (const std::string& line : std::vector<std::string>(absl::StrSplit(run.out, '\n'))) {
      // Settings that nobody set and limits of requests are comments, too.
      const bool heading = line.starts_with("# ") && line.find_first_of("=`") == line.npos;
      EXPECT_TRUE(!heading || headings.insert(line).second) << command << ": " << line;
    }
    EXPECT_GT(headings.size(), 3u);
  }
}

TEST_F(ConfigCommand, WhatPrintWritesCheckAccepts) {
  for (const char* command : {"serve", "router", "prefill", "decode"}) {
    const ToolRun print = RunTool({"config", "print", command, model_});
    ASSERT_EQ(print.exit, 0) << print.err;
    Arguments check = {"config", "check", command, File(print.out)};
    if (command == std::string("router")) check.emplace_back("--decode-workers=b:2");
    const ToolRun run = RunTool(check);
    EXPECT_EQ(run.exit, 0) << run.err << print.out;
  }
  for (const char* command : {"generate", "chat", "bench"}) {
    const ToolRun print = RunTool({"config", "print", command});
    ASSERT_EQ(print.exit, 0) << print.err;
    const ToolRun check = RunTool({"config", "check", command, File(print.out)});
    EXPECT_EQ(check.exit, 0) << check.err << print.out;
  }
}

TEST_F(ConfigCommand, ALargeSeedIsReadAgain) {
  const ToolRun print = RunTool({"config", "print", "router", "--seed", "18446744073709551615"});
  ASSERT_EQ(print.exit, 0) << print.err;
  EXPECT_EQ(
      RunTool({"config", "check", "router", File(print.out), model_, "--decode-workers=b:2"}).exit,
      0);
}

TEST_F(ConfigCommand, TheFirstWordIsTheCommand) {
  EXPECT_THAT(RunTool({"config", "print"}).out, HasSubstr("# Settings of `serve`"));
  const ToolRun serve = RunTool({"config", "print", "serve"});
  EXPECT_THAT(serve.out, HasSubstr("# Settings of `serve`"));
  EXPECT_THAT(serve.out, HasSubstr("# model-dir = \"\""));
  EXPECT_THAT(RunTool({"config", "print", "router", "--port=9", "/models/demo"}).out,
              AllOf(HasSubstr("# Settings of `router`"), ContainsRegex("port = 9 +# command line"),
                    ContainsRegex("model-dir = \"/models/demo\" +# command line")));
  EXPECT_THAT(RunTool({"config", "print", "bench", "--runs=3"}).out,
              AllOf(HasSubstr("# Settings of `bench`"), ContainsRegex("runs = 3 +# comm")));
  EXPECT_THAT(RunTool({"config", "print", "serve", "model.gguf"}).out,
              ContainsRegex("model-dir = \"model.gguf\" +# command line"));
  EXPECT_THAT(RunTool({"config", "print", folder_.path()}).out,
              AllOf(HasSubstr("# Settings of `serve`"), HasSubstr(folder_.path())));
}

TEST_F(ConfigCommand, AWrongWordNamesTheRightOnes) {
  for (const Arguments& wrong : {Arguments{"config", "print", "rooter"},
                                 Arguments{"config", "print", "--port", "5", "router"}}) {
    const ToolRun run = RunTool(wrong);
    EXPECT_EQ(run.exit, 2);
    EXPECT_EQ(run.out, "");
    EXPECT_THAT(run.err, AllOf(HasSubstr("expected serve, router, prefill, decode"),
                               HasSubstr("Try: router")));
  }
}

TEST_F(ConfigCommand, CheckTakesOneFileBehindItsCommand) {
  for (const Arguments& wrong : {Arguments{"config", "check", "rooter", "f.toml"},
                                 Arguments{"config", "check", "f.toml", "router"}}) {
    const ToolRun run = RunTool(wrong);
    EXPECT_EQ(run.exit, 2);
    EXPECT_THAT(run.err, AllOf(HasSubstr("found 2 arguments: " + wrong[2] + " " + wrong[3]),
                               HasSubstr("expected serve, router, prefill, decode"),
                               HasSubstr("Try: baton config check router FILE.toml")));
  }
}

TEST_F(ConfigCommand, EveryCommandMayHaveASection) {
  for (const Command& command : Commands()) {
    const std::string word(command.name.substr(0, command.name.find(' ')));
    if (word == "config") continue;
    const std::string text = "[serve]\ndecode = 1\n[" + word + "]\n";
    const std::string file = File(word == "serve" ? "[serve]\ndecode = 1\n" : text);
    const ToolRun run = RunTool({"config", "check", file, model_});
    EXPECT_EQ(run.exit, 0) << run.err;
  }
  EXPECT_THAT(RunTool({"config", "check", File("[batsch]\n")}).err, HasSubstr("Try: [batch]"));
}

TEST_F(ConfigCommand, CheckNamesFilesThatAreNotThere) {
  const ToolRun none = RunTool({"config", "check", "/nowhere.toml"});
  EXPECT_EQ(none.exit, 2);
  EXPECT_THAT(none.err, AllOf(HasSubstr("/nowhere.toml: it does not exist"),
                              HasSubstr("Try: the path of a TOML file that is there"),
                              HasSubstr("baton config print")));
  const std::string here = File(
      "model-dir = \"/nowhere/m\"\ndecode-workers = \"b:2\"\napi-keys = \"/nowhere/keys\"\n"
      "tls-cert = \"/nowhere/cert\"\ntls-key = \"k\"\ntls-ca = \"" +
      folder_.path() + "\"\neos-log = \"/nowhere/log\"\n");
  const ToolRun named = RunTool({"config", "check", "router", here});
  EXPECT_EQ(named.exit, 2);
  EXPECT_EQ(named.out, "");
  for (const std::string& line : {std::string("model-dir = /nowhere/m: there is no such model"),
                                  std::string("tls-cert = /nowhere/cert: there is no such file"),
                                  std::string("tls-key = k: there is no such file"),
                                  "tls-ca = " + folder_.path() + ": it is a folder",
                                  std::string("api-keys = /nowhere/keys: there is no such file"),
                                  std::string("eos-log = /nowhere/log: there is no folder")}) {
    EXPECT_THAT(named.err, HasSubstr("baton config check: fatal: " + line));
  }
}

TEST_F(ConfigCommand, CheckLooksAtPathsAsTheProcessDoes) {
  const auto check = [&](const std::string& command, const std::string& text) {
    return RunTool({"config", "check", command, File(text), model_}).err;
  };
  EXPECT_EQ(check("decode", "predictor = \"auto\"\n"), "");
  EXPECT_THAT(check("decode", "predictor = \"autos\"\n"), HasSubstr("predictor = autos"));
  EXPECT_EQ(check("decode", "predictor = \"/proc/self/exe\"\n"), "");
  EXPECT_EQ(check("decode", "predictor = \"/dev/null\"\n"), "") << "it can be read";
  EXPECT_THAT(check("decode", "draft-model = \"" + folder_.path() + "\"\n"),
              HasSubstr("it has no config.json"));
  EXPECT_EQ(check("serve", "eos-log = \"" + (folder_ / "eos.jsonl") + "\"\n"), "");
  EXPECT_EQ(check("serve", "eos-log = \"off\"\n"), "");
  EXPECT_THAT(check("serve", "eos-log = \"" + (folder_ / "no/eos.jsonl") + "\"\n"),
              HasSubstr("there is no folder " + folder_ / "no"));
  EXPECT_THAT(check("serve", "eos-log = \"" + folder_.path() + "\"\n"),
              HasSubstr("it is a folder"));
}

TEST_F(ConfigCommand, CheckRefusesWhatTheProcessRefuses) {
  const ToolRun bare = RunTool({"config", "check", "router", File("tls-cert = \"/dev/null\"\n")});
  EXPECT_EQ(bare.exit, 2);
  EXPECT_THAT(bare.err, AllOf(HasSubstr("DIR is missing: expected a model directory"),
                              HasSubstr("Try: baton config check router " + file_ + " DIR"),
                              HasSubstr("--decode-workers is missing"),
                              HasSubstr("only some of --tls-cert, --tls-key and --tls-ca")));
  EXPECT_THAT(RunTool({"config", "check", File("")}).err, HasSubstr("DIR is missing"));
  const std::string file = File("decode-workers = \"b:2\"\n");
  EXPECT_EQ(RunTool({"config", "check", "router", file, model_}).out,
            file_ + ": ok for `router`\n");
  EXPECT_THAT(RunTool({"config", "check", "router", file, model_, "--port=x"}).err,
              HasSubstr("--port: found 'x'"));
  EXPECT_EQ(RunTool({"config", "check", "generate", File("seed = 1\n")}).exit, 0)
      << "prompts come with the command";
}

TEST_F(ConfigCommand, CheckNamesWhatIsWrong) {
  const ToolRun run = RunTool({"config", "check", File("prot = 5\n")});
  EXPECT_EQ(run.exit, 2);
  EXPECT_THAT(run.err, HasSubstr("'prot'"));
  EXPECT_THAT(run.err, HasSubstr("Try: port"));
  EXPECT_EQ(RunTool({"config", "check", File("port = 99999\n")}).exit, 2);
  EXPECT_EQ(RunTool({"config", "check"}).exit, 2);
  EXPECT_EQ(RunTool({"config", "check", "/nowhere.toml"}).exit, 2);
  const ToolRun two = RunTool({"config", "check", "router", File("prot = 5\nseed = \"x\"\n")});
  EXPECT_THAT(two.err, AllOf(HasSubstr("baton config check: fatal: " + file_ + ":1: unknown key"),
                             HasSubstr("no setting of 'router' has this name"),
                             HasSubstr("baton config check: fatal: " + file_ + ":2: seed:")));
}

}  // namespace
}  // namespace baton
