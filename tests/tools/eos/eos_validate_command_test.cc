#include "common/eos/eos_fields.h"
#include "common/eos/line_file.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/tools/eos/eos_rows.h"
#include "tests/tools/eos/log_files.h"
#include "tests/tools/run_tool.h"

namespace baton {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class EosValidateTest : public LogFilesTest {};

TEST_F(EosValidateTest, GoodLogsAreCounted) {
  const std::string one =
      File("one", EosLines("a", 3, FinishReason::kStopEos) + EosLine({.id = "b"}));
  const std::string two = File("two", EosLine({.reason = FinishReason::kLength}));
  const ToolRun run = RunTool({"eos", "validate", one, two});
  EXPECT_EQ(run.exit, 0) << run.out << run.err;
  EXPECT_EQ(run.out, one + ": 4 rows of 2 requests, 1 of them open: all rows are good\n" + two +
                         ": 1 row of 1 request, 0 of them open: all rows are good\n");
  EXPECT_EQ(RunTool({"eos", "validate", File("empty", "")}).exit, 0);
}

TEST_F(EosValidateTest, ABadRowIsToldWithPlaceAndRequest) {
  const std::string log = File("log", EosLine({.step = 1}) + EosLine({.step = 3}) + "{}\n" +
                                          EosLine({.step = 4, .eos_prob = 1.5}));
  const ToolRun run = RunTool({"eos", "validate", log});
  EXPECT_EQ(run.exit, 1);
  EXPECT_THAT(run.out, AllOf(HasSubstr(log + ":2: request r1: step: found 3, expected 2 after 1\n"),
                             HasSubstr(log + ":3: request_id: not in the row, expected a string\n"),
                             HasSubstr(log + ":4: request r1: eos_logprob: found"),
                             HasSubstr(": 4 rows of 1 request, 1 of them open: 3 bad rows\n")));
}

TEST_F(EosValidateTest, OneBadFileOfSeveralIsEnough) {
  const ToolRun run = RunTool({"eos", "validate", File("bad", "no row\n"),
                               File("good", EosLine({.reason = FinishReason::kLength}))});
  EXPECT_EQ(run.exit, 1);
  EXPECT_THAT(run.out, HasSubstr("all rows are good"));
}

TEST_F(EosValidateTest, WhatItTellsIsBounded) {
  std::string text;
  for (int i = 0; i < 50; ++i) text += "no row\n";
  const ToolRun run = RunTool({"eos", "validate", File("log", text)});
  EXPECT_THAT(run.out, AllOf(HasSubstr("log:20: "), Not(HasSubstr("log:21: ")),
                             HasSubstr("30 more bad rows, not shown"), HasSubstr("50 bad rows")));
  const std::string wide = std::string(100000, 'x') + "\n";
  EXPECT_THAT(RunTool({"eos", "validate", File("wide", wide)}).out,
              HasSubstr("found a line of more than 65536 bytes, expected a row"));
}

TEST_F(EosValidateTest, AnUnfinishedLastLineIsNoFaultWhileTheFileIsWritten) {
  const std::string half = EosLine({.step = 2}).substr(0, 100);
  const std::string log = File("log", "");
  auto writer = LineFile::Open(log);
  ASSERT_TRUE(writer.ok()) << writer.status();
  Append("log", EosLine({.step = 1}) + half);
  const ToolRun run = RunTool({"eos", "validate", log});
  EXPECT_EQ(run.exit, 0) << run.out;
  EXPECT_THAT(run.out,
              AllOf(HasSubstr(log + ":2: the last line has no end (100 bytes): it is not complete"),
                    HasSubstr("1 row of 1 request, 1 of them open: all rows are good")));
}

TEST_F(EosValidateTest, AnUnfinishedLastLineOfAFileThatNobodyWritesIsCutOff) {
  const std::string log = File("log", EosLine({.step = 1}) + "{\"request_id\"");
  const ToolRun run = RunTool({"eos", "validate", log});
  EXPECT_EQ(run.exit, 1);
  EXPECT_THAT(run.out, AllOf(HasSubstr("log:2: the last line has no end (13 bytes): it was cut"),
                             HasSubstr("all rows are good, the last line is cut off\n")));
}

TEST_F(EosValidateTest, ARequestIdCannotSpeakToTheTerminal) {
  const std::string log = File("log", EosLine({.id = "\x1b[2J", .step = 2}));
  EXPECT_THAT(RunTool({"eos", "validate", log}).out, Not(HasSubstr("\x1b")));
}

TEST_F(EosValidateTest, PrintsTheSchema) {
  const ToolRun run = RunTool({"eos", "validate", "--schema"});
  EXPECT_EQ(run.exit, 0);
  EXPECT_EQ(run.out, EosRowSchema());
}

TEST_F(EosValidateTest, WithoutAFileItSaysWhatToType) {
  const ToolRun none = RunTool({"eos", "validate"});
  EXPECT_EQ(none.exit, 2);
  EXPECT_THAT(none.err, HasSubstr("expected an EOS log"));
  const ToolRun missing = RunTool({"eos", "validate", Path("missing")});
  EXPECT_EQ(missing.exit, 4);
  EXPECT_THAT(missing.err, HasSubstr("cannot read " + Path("missing")));
}

}  // namespace
}  // namespace baton
