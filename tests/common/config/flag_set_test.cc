#include "common/config/flag_set.h"

#include <cstdio>
#include <cstdlib>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/config/flag_types.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/fakes/scratch_folder.h"

namespace baton {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

class FlagSetTest : public ::testing::Test {
 protected:
  FlagSetTest() {
    Flag directory = TextFlag("model-dir", &directory_);
    directory.positional = directory.required = true;
    directory.value = "DIR";
    directory.help = "a directory";
    set_.Add(directory);
    set_.Add(Common(With(PortFlag("port", &port_), "Network", "where to listen")));
    set_.Add(With(IntFlag("max-num-seqs", &seqs_, {.min = 1}), "Batching", "sequences"));
    Flag tokens = OptionalInt64Flag("kv-tokens", &tokens_, {.min = 1, .max = 1000});
    tokens.exclusive_with = "kv-memory";
    tokens.aliases = {"kv-alias"};
    set_.Add(tokens);
    set_.Add(SizeFlag("kv-memory", &memory_, {.min = 1, .max = int64_t{1} << 40}));
    set_.Add(SwitchFlag("cache", &cache_));
    set_.Add(TextListFlag("stop", &stop_));
    Flag hidden = SwitchFlag("secret", &secret_);
    hidden.hidden = true;
    set_.Add(hidden);
  }
  std::string File(const std::string& text) { return folder_.Write("settings.toml", text); }
  std::string Error(const std::vector<std::string>& arguments,
                    const FlagSet::Environment& environment = {}) {
    const absl::Status status = set_.Parse(arguments, environment);
    EXPECT_FALSE(status.ok());
    return std::string(status.message());
  }

  FlagSet set_{"baton-test", "decode", "A test."};
  std::string directory_;
  int32_t port_ = 1;
  int32_t seqs_ = 2;
  std::optional<int64_t> tokens_;
  int64_t memory_ = 3;
  bool cache_ = true;
  bool secret_ = false;
  std::vector<std::string> stop_;
  const ScratchFolder folder_;
  const std::string file_ = folder_ / "settings.toml";
};

TEST(FlagSet, APositionalArgumentThatIsAListTakesAllValues) {
  std::vector<std::string> files;
  bool json = false;
  FlagSet set("baton test", "test", "A test.");
  Flag positional = TextListFlag("test-file", &files);
  positional.value = "FILE…";
  positional.help = "files";
  positional.positional = positional.required = true;
  set.Add(positional);
  set.Add(SwitchFlag("json", &json));
  ASSERT_TRUE(set.Parse({"a", "b", "--json", "c"}, {}).ok());
  EXPECT_THAT(files, ElementsAre("a", "b", "c"));
  EXPECT_TRUE(json);
  ASSERT_TRUE(set.Parse({"--json", "a"}, {}).ok());
  EXPECT_THAT(files, ElementsAre("a"));
  EXPECT_FALSE(set.Parse({"--json"}, {}).ok());
}

TEST_F(FlagSetTest, ReadsFlagsInBothSpellings) {
  ASSERT_TRUE(set_.Parse({"dir", "--port", "5", "--max-num-seqs=6", "--no-cache"}, {}).ok());
  EXPECT_EQ(directory_, "dir");
  EXPECT_EQ(port_, 5);
  EXPECT_EQ(seqs_, 6);
  EXPECT_FALSE(cache_);
  EXPECT_EQ(set_.SourceOf("port"), FlagSource::kCommandLine);
  EXPECT_FALSE(set_.Given("stop"));
}

TEST_F(FlagSetTest, KeepsEveryOccurrenceOfARepeatableFlagAndTheLastOfOthers) {
  ASSERT_TRUE(
      set_.Parse({"--stop", "a b", "--stop", "--b", "dir", "--port", "5", "--port", "6"}, {}).ok());
  EXPECT_THAT(stop_, ElementsAre("a b", "--b"));
  EXPECT_EQ(port_, 6);
}

TEST_F(FlagSetTest, FlagsWinOverEnvironmentOverFileOverDefaults) {
  const std::string file = File("port = 10\nmax-num-seqs = 20\nkv_memory = \"1KiB\"\n");
  ASSERT_TRUE(set_.Parse({"dir", "--config", file, "--port", "30"},
                         {{"BATON_PORT", "31"}, {"BATON_MAX_NUM_SEQS", "32"}})
                  .ok());
  EXPECT_EQ(port_, 30);
  EXPECT_EQ(seqs_, 32);
  EXPECT_EQ(memory_, 1024);
  EXPECT_TRUE(cache_);
  EXPECT_EQ(set_.SourceOf("max-num-seqs"), FlagSource::kEnvironment);
  EXPECT_EQ(set_.SourceOf("kv-memory"), FlagSource::kFile);
  EXPECT_EQ(set_.SourceOf("cache"), FlagSource::kDefault);
}

TEST_F(FlagSetTest, TheFileMayBeNamedByTheEnvironment) {
  ASSERT_TRUE(set_.Parse({"dir"}, {{"BATON_CONFIG", File("port = 10\n")}}).ok());
  EXPECT_EQ(port_, 10);
}

TEST_F(FlagSetTest, UnknownFlagNamesTheNearest) {
  EXPECT_THAT(Error({"dir", "--max-num-seq", "4"}),
              AllOf(HasSubstr("unknown flag --max-num-seq"), HasSubstr("Try: --max-num-seqs")));
  EXPECT_THAT(Error({"dir", "--zzzzzzzzzzzz=4"}), HasSubstr("--help all"));
  EXPECT_THAT(Error({"dir", "--secre"}), Not(HasSubstr("--secret")));
}

TEST_F(FlagSetTest, AFlagOfOtherProgramsIsAnsweredWithOurs) {
  set_.AddForeign("max-num-seq", "--elsewhere");
  EXPECT_THAT(Error({"--max-num-seq=3"}),
              AllOf(HasSubstr("unknown flag --max-num-seq:"), HasSubstr("Try: --elsewhere")));
}

TEST_F(FlagSetTest, UnknownKeyNamesTheNearest) {
  EXPECT_THAT(Error({"dir", "--config", File("max-nums-seqs = 4\n")}),
              AllOf(HasSubstr("max-nums-seqs"), HasSubstr(file_), HasSubstr("Try: max-num-seqs")));
  EXPECT_THAT(Error({"dir", "--config", File("[decod]\nport = 4\n")}),
              AllOf(HasSubstr("[decod]"), HasSubstr("Try: [decode]")));
}

TEST_F(FlagSetTest, UnknownVariablesAndServiceLinksAreIgnored) {
  ASSERT_TRUE(set_.Parse({"dir"}, {{"BATON_PORT", "tcp://10.0.0.1:50051"},
                                   {"BATON_SERVICE_HOST", "10.0.0.1"},
                                   {"BATON_MAX_NUM_SEQS", ""}})
                  .ok());
  EXPECT_EQ(port_, 1);
  EXPECT_EQ(seqs_, 2);
}

TEST_F(FlagSetTest, AMisspelledVariableIsAWarning) {
  ASSERT_TRUE(set_.Parse({"dir"}, {{"BATON_KV_ALIA", "5"},
                                   {"BATON_MAX_NUM_SEGS", "5"},
                                   {"BATON_MODEL_DRI", "d"},
                                   {"BATON_PORT", "tcp://10.0.0.1:50051"},
                                   {"BATON_PORT_8000_TCP", "tcp://10.0.0.1:8000"},
                                   {"BATON_SECRET", "true"}})
                  .ok());
  EXPECT_EQ(seqs_, 2);
  EXPECT_THAT(set_.warnings(),
              ElementsAre(HasSubstr("Try: BATON_KV_ALIAS"), HasSubstr("Try: BATON_MAX_NUM_SEQS"),
                          HasSubstr("Try: BATON_MODEL_DIR")));
  ASSERT_TRUE(set_.Parse({"dir"}, {}).ok());
  EXPECT_THAT(set_.warnings(), ElementsAre());
}

TEST_F(FlagSetTest, WarningsGoToStandardError) {
  setenv("BATON_MAX_NUM_SEQ", "3", 1);
  ::testing::internal::CaptureStderr();
  EXPECT_EQ(set_.ParseOrExit({"dir"}), std::nullopt);
  unsetenv("BATON_MAX_NUM_SEQ");
  EXPECT_EQ(::testing::internal::GetCapturedStderr(),
            "baton-test: warning: BATON_MAX_NUM_SEQ is ignored: no setting has this name. "
            "Try: BATON_MAX_NUM_SEQS\n");
}

TEST_F(FlagSetTest, SectionsHoldForTheirCommandAndWinOverTheTop) {
  const std::string file =
      File("[decode]\nport = 5 # a comment\n[prefill]\nport = 6\nnot-known-here = 7\n");
  ASSERT_TRUE(set_.Parse({"dir", "--config", file}, {}).ok());
  EXPECT_EQ(port_, 5);
}

TEST_F(FlagSetTest, ReadsArraysOfTheFile) {
  const std::string file = File("stop = [\"a, b\",\n \"c\"]\nmodel-dir = \"from file\"\n");
  ASSERT_TRUE(set_.Parse({"--config", file}, {}).ok());
  EXPECT_THAT(stop_, ElementsAre("a, b", "c"));
  EXPECT_EQ(directory_, "from file");
}

TEST_F(FlagSetTest, RefusesBadFiles) {
  EXPECT_THAT(Error({"dir", "--config", "/nowhere.toml"}), HasSubstr("/nowhere.toml"));
  EXPECT_THAT(Error({"dir", "--config", folder_.path()}), HasSubstr("not a file"));
  EXPECT_THAT(Error({"dir", "--config", File("model-dir = \"open # quote\n")}),
              HasSubstr(file_ + ":1:"));
  EXPECT_THAT(Error({"dir", "--config", File("port = [1, 2]\n")}),
              HasSubstr(file_ + ":1: port: found a list, expected one value"));
}

TEST_F(FlagSetTest, WhatIsNoTomlIsToldWithItsLine) {
  const std::string open =
      Error({"dir", "--config", File("port = 5\nstop = [\"a\",\ncache = 1\n")});
  EXPECT_THAT(open, AllOf(HasSubstr(file_ + ":3:"), HasSubstr("every list closed"),
                          Not(HasSubstr("unknown"))));
  EXPECT_THAT(Error({"dir", "--config", File("port = 5\n\nmodel-dir = dir\n")}),
              AllOf(HasSubstr(file_ + ":3:"), HasSubstr("text in quotes")));
  EXPECT_THAT(Error({"dir", "--config", File("port = 5\nport = 6\n")}), HasSubstr(file_ + ":2:"));
}

TEST_F(FlagSetTest, LettersOutsideOfTextAreNoToml) {
  EXPECT_THAT(Error({"dir", "--config", File("max-num-seqs = -c\u00e9\n")}),
              HasSubstr(file_ + ":1:"));
  EXPECT_THAT(Error({"dir", "--config", File("port\u00e9 = 5\n")}), HasSubstr(file_ + ":1:"));
  ASSERT_TRUE(
      set_.Parse({"--config", File("model-dir = \"mod\u00e8le\" # \u00e9t\u00e9\n")}, {}).ok());
  EXPECT_EQ(directory_, "mod\u00e8le");
}

TEST_F(FlagSetTest, AFlagWithoutItsValueIsNamed) {
  for (const std::vector<std::string>& arguments :
       {std::vector<std::string>{"dir", "--stop="}, std::vector<std::string>{"dir", "--stop"}}) {
    EXPECT_EQ(
        Error(arguments),
        "found no value of --stop: expected one behind it. Try: --stop VALUE; an empty one is "
        "--stop ''");
  }
  ASSERT_TRUE(set_.Parse({"dir", "--stop", ""}, {}).ok());
  EXPECT_THAT(stop_, ElementsAre(""));
}

TEST_F(FlagSetTest, ANumberBehindANegatedSwitchMayBeTooLarge) {
  EXPECT_EQ(Error({"dir", "--no-cache=5555555555555555555555555555555555"}),
            "found a number too large behind a switch --no-NAME: expected the switch alone. Try: "
            "--no-NAME, or --NAME=false");
}

TEST_F(FlagSetTest, NothingIsNearAFlagOfOneLetter) {
  EXPECT_THAT(Error({"dir", "-p", "x"}),
              AllOf(HasSubstr("unknown flag -p"), HasSubstr("Try: baton-test --help all")));
  EXPECT_THAT(Error({"dir", "--", "x"}), HasSubstr("Try: baton-test --help"));
}

TEST_F(FlagSetTest, EveryErrorOfAFileIsToldWithItsLine) {
  const std::string error = Error({"dir", "--config",
                                   File("prot = 5\n"
                                        "max-num-seqs = 0\n"
                                        "cache = 1979-05-27\n"
                                        "port = 1\n"
                                        "stop = [\"a\", [\"b\"]]\n"
                                        "[decod]\n"
                                        "port = 4\n"
                                        "[decode]\n"
                                        "kv-memory = \"5XiB\"\n"
                                        "max_num_seqs = 3\n"
                                        "max-num-seqs = 4\n"
                                        "[decode.more]\n"
                                        "port = 4\n")});
  EXPECT_THAT(std::vector<std::string>(absl::StrSplit(error, '\n')),
              ElementsAre(HasSubstr(file_ + ":1: unknown key 'prot'"),
                          HasSubstr(file_ + ":3: cache: found a date"),
                          HasSubstr(file_ + ":5: stop: found a list in a list"),
                          HasSubstr(file_ + ":6: unknown section [decod]"),
                          HasSubstr(file_ + ":11: max-num-seqs: it is set twice"),
                          HasSubstr(file_ + ":12: unknown section [decode.more]"),
                          HasSubstr(file_ + ":9: kv-memory: found '5XiB'")));
}

TEST_F(FlagSetTest, ErrorsOfAllSourcesAreToldTogetherUpToABound) {
  std::string text;
  for (int i = 0; i < 9; ++i) text += absl::StrCat("key-", i, " = 1\n");
  const std::string error =
      Error({"dir", "--prot", "5", "--seqs=3", "--config", File(text)}, {{"BATON_PORT", "x"}});
  const std::vector<std::string> lines = absl::StrSplit(error, '\n');
  ASSERT_EQ(lines.size(), 11u);
  EXPECT_THAT(lines[0], HasSubstr("unknown flag --prot"));
  EXPECT_THAT(lines[1], HasSubstr("unknown flag --seqs"));
  EXPECT_THAT(lines[2], HasSubstr(file_ + ":1: unknown key 'key-0'"));
  EXPECT_EQ(lines[10], "... and 2 more errors");
}

TEST_F(FlagSetTest, ValuesOfTheFileKeepTheirType) {
  EXPECT_THAT(Error({"dir", "--config", File("port = 5.0\n")}), HasSubstr("found '5.0'"));
  ASSERT_TRUE(set_.Parse({"dir", "--config", File("port = 0x10\ncache = false\n")}, {}).ok());
  EXPECT_EQ(port_, 16);
  EXPECT_FALSE(cache_);
}

TEST_F(FlagSetTest, AWrongValueNamesItsSource) {
  EXPECT_THAT(Error({"dir", "--port", "70000"}),
              HasSubstr("--port: found '70000', expected an integer from 0 to 65535"));
  EXPECT_THAT(Error({"dir"}, {{"BATON_PORT", "x"}}), HasSubstr("BATON_PORT: found 'x'"));
  EXPECT_THAT(Error({"dir", "--config", File("port = \"y\"\n")}),
              HasSubstr(file_ + ":1: port: found 'y', expected an integer from 0 to 65535"));
}

TEST_F(FlagSetTest, ExclusiveFlagsAreRefusedTogether) {
  EXPECT_THAT(Error({"dir", "--kv-tokens", "5", "--kv-memory", "5"}),
              AllOf(HasSubstr("--kv-tokens"), HasSubstr("--kv-memory"), HasSubstr("exclude")));
}

TEST_F(FlagSetTest, AnExclusiveFlagOverridesItsRivalOfALowerSource) {
  ASSERT_TRUE(set_.Parse({"dir", "--kv-alias", "5"}, {{"BATON_KV_MEMORY", "7"}}).ok());
  EXPECT_EQ(tokens_, 5);
  EXPECT_EQ(memory_, 3);
}

TEST_F(FlagSetTest, MissingAndSurplusArgumentsAreErrors) {
  EXPECT_THAT(Error({}), AllOf(HasSubstr("DIR is missing"), HasSubstr("Try: baton-test DIR")));
  EXPECT_THAT(Error({"dir", "more"}), HasSubstr("unexpected argument 'more'"));
  EXPECT_THAT(Error({"dir", "--port"}), HasSubstr("--port"));
}

TEST_F(FlagSetTest, TheHintForWhatIsMissingHasAllArguments) {
  FlagSet set("baton-test", "test", "d");
  std::string in, out, more;
  for (const auto& [name, target] : {std::pair{"in", &in}, std::pair{"out", &out}}) {
    Flag flag = TextFlag(name, target);
    flag.value = name == std::string("in") ? "IN" : "OUT";
    flag.help = "a file";
    flag.positional = flag.required = true;
    set.Add(std::move(flag));
  }
  Flag flag = Valued(TextFlag("more", &more), "FILE");
  flag.required = true;
  set.Add(With(std::move(flag), "Group", "one more file"));
  const std::string error(set.Parse({"a"}, {}).message());
  EXPECT_THAT(error, HasSubstr("OUT is missing: expected a file. Try: baton-test IN OUT\n"));
  EXPECT_THAT(error, HasSubstr("--more is missing: expected one more file. Try: baton-test IN OUT "
                               "--more FILE"));
}

TEST_F(FlagSetTest, HelpCountsCharactersNotBytes) {
  FlagSet set("baton-test", "test", "d");
  std::vector<std::string> names, plain;
  set.Add(With(Valued(TextListFlag("names", &names), "NAME,\u2026"), "Group",
               std::string(62, 'x') + " \u2026\u2026\u2026"));
  set.Add(With(Valued(TextListFlag("plain", &plain), "NAME"), "Group", "y"));
  const std::string help = set.Help(true);
  EXPECT_THAT(help, HasSubstr("  --names NAME,\u2026" + std::string(18, ' ') + "xxx"));
  EXPECT_THAT(help, HasSubstr("  --plain NAME" + std::string(20, ' ') + "y\n"));
  EXPECT_THAT(help, HasSubstr("xxx \u2026\u2026\u2026\n")) << "66 characters fit the line";
}

TEST_F(FlagSetTest, ChecksSeeTheFinalValues) {
  set_.AddCheck(
      [&] { return port_ == 9 ? UsageError("nine", "is wrong", "eight") : absl::OkStatus(); });
  EXPECT_EQ(Error({"dir", "--port", "9"}), "nine: is wrong. Try: eight");
}

TEST_F(FlagSetTest, ShortHelpListsTheCommonFlagsOnly) {
  EXPECT_THAT(set_.Help(false), AllOf(HasSubstr("--port PORT"), HasSubstr("--help all"),
                                      Not(HasSubstr("--max-num-seqs"))));
  EXPECT_THAT(set_.Help(true), AllOf(HasSubstr("--max-num-seqs N"), HasSubstr("Batching"),
                                     HasSubstr("--kv-alias"), Not(HasSubstr("secret"))));
}

TEST_F(FlagSetTest, ExitsWithTheDocumentedCodes) {
  EXPECT_EQ(set_.ParseOrExit({"--help"}), 0);
  EXPECT_EQ(set_.ParseOrExit({"--help", "all"}), 0);
  FlagSet fresh("baton-test", "decode", "A test.");
  EXPECT_EQ(fresh.ParseOrExit({"--nonsense"}), 2);
  EXPECT_EQ(fresh.ParseOrExit(std::vector<std::string>{}), std::nullopt);
}

}  // namespace
}  // namespace baton
