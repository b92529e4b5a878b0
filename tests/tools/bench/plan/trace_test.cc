#include "tools/bench/plan/trace.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>

#include "tests/common/text/test_files.h"
#include "tests/fakes/scratch_folder.h"

namespace baton::bench {
namespace {

using baton::testing::SourcePath;
using std::chrono::milliseconds;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr std::string_view kHeader = "TIMESTAMP,ContextTokens,GeneratedTokens\n";

TEST(TraceTest, ReadsTheAzureExcerpt) {
  const auto rows = ReadTrace(SourcePath("tests/data/azure_llm_2023_conv_excerpt.csv"), {});
  ASSERT_TRUE(rows.ok()) << rows.status();
  ASSERT_EQ(rows->size(), 199U);
  EXPECT_EQ((*rows)[0].at, base::Duration::zero());
  EXPECT_EQ((*rows)[0].input_tokens, 374);
  EXPECT_EQ((*rows)[0].output_tokens, 44);
  EXPECT_EQ((*rows)[1].at, std::chrono::nanoseconds(4'314'579'000));
  EXPECT_EQ((*rows)[1].input_tokens, 396);
  EXPECT_TRUE((*rows)[1].hash_ids.empty());
}

TEST(TraceTest, CountsTimeOverMidnightAndMonths) {
  const ScratchFolder dir;
  const std::string path =
      dir.Write("t.csv", std::string(kHeader) +
                             "2024-02-29 23:59:59.5,1,2\r\n2024-03-01 00:00:00.25,3,4\r\n"
                             "2024-03-01T00:00:01.25+00:00,5,6");
  const auto rows = ReadTrace(path, {});
  ASSERT_TRUE(rows.ok()) << rows.status();
  ASSERT_EQ(rows->size(), 3U);
  EXPECT_EQ((*rows)[1].at, milliseconds(750));
  EXPECT_EQ((*rows)[2].at, milliseconds(1750));
  EXPECT_EQ((*rows)[2].output_tokens, 6);
}

TEST(TraceTest, ReadsMooncakeLines) {
  const ScratchFolder dir;
  const std::string path = dir.Write(
      "t.jsonl",
      R"({"timestamp": 27482, "input_length": 1025, "output_length": 52, "hash_ids": [46, 47, 48]})"
      "\n"
      R"({"timestamp": 30535.5, "input_length": 7, "output_length": 26, "turn": 3})"
      "\n\n");
  const auto rows = ReadTrace(path, {});
  ASSERT_TRUE(rows.ok()) << rows.status();
  ASSERT_EQ(rows->size(), 2U);
  EXPECT_THAT((*rows)[0].hash_ids, ElementsAre(46, 47, 48));
  EXPECT_EQ((*rows)[1].at, std::chrono::microseconds(3'053'500));
  EXPECT_EQ((*rows)[1].input_tokens, 7);
}

TEST(TraceTest, ScalesTimesAndLeavesOutWhatComesLater) {
  const ScratchFolder dir;
  std::string text;
  for (int i = 0; i < 10; ++i) {
    text += R"({"timestamp": )" + std::to_string(1000 * i) +
            R"(, "input_length": 1, "output_length": 1})" + "\n";
  }
  const std::string path = dir.Write("t.jsonl", text);
  const auto twice = ReadTrace(path, {.time_scale = 0.5, .duration = std::chrono::seconds(2)});
  ASSERT_TRUE(twice.ok()) << twice.status();
  ASSERT_EQ(twice->size(), 4U);
  EXPECT_EQ(twice->back().at, milliseconds(1500));
  const auto three = ReadTrace(path, {.rows = 3});
  ASSERT_TRUE(three.ok());
  EXPECT_EQ(three->size(), 3U);
  EXPECT_EQ(three->back().at, milliseconds(2000));
}

TEST(TraceTest, SortsRowsByTime) {
  const ScratchFolder dir;
  const std::string path =
      dir.Write("t.csv", std::string(kHeader) +
                             "2024-01-01 00:00:02,1,1\n2024-01-01 00:00:01,2,2\n"
                             "2024-01-01 00:00:01,3,3\n");
  const auto rows = ReadTrace(path, {});
  ASSERT_TRUE(rows.ok()) << rows.status();
  EXPECT_EQ((*rows)[0].input_tokens, 2);
  EXPECT_EQ((*rows)[1].input_tokens, 3);
  EXPECT_EQ((*rows)[2].at, std::chrono::seconds(1));
}

struct Defect {
  std::string text;
  std::string line;  // ":2"
  std::string found;
  std::string expected;
};

class TraceDefectTest : public ::testing::TestWithParam<Defect> {};

TEST_P(TraceDefectTest, IsNamedWithFileAndLine) {
  const ScratchFolder dir;
  const std::string path = dir.Write("t", GetParam().text);
  const auto rows = ReadTrace(path, {});
  ASSERT_FALSE(rows.ok());
  EXPECT_EQ(rows.status().code(), absl::StatusCode::kInvalidArgument);
  const std::string message(rows.status().message());
  EXPECT_THAT(message, HasSubstr(path + GetParam().line));
  EXPECT_THAT(message, HasSubstr(GetParam().found));
  EXPECT_THAT(message, HasSubstr(GetParam().expected));
}

std::string Csv(const std::string& row) {
  return std::string(kHeader) + "2024-01-01 00:00:00,1,1\n" + row + "\n";
}

std::string Jsonl(const std::string& row) {
  return R"({"timestamp": 0, "input_length": 1, "output_length": 1})" + std::string("\n") + row;
}

INSTANTIATE_TEST_SUITE_P(
    All, TraceDefectTest,
    ::testing::Values(
        Defect{"", "", "no requests", "at least one"},
        Defect{std::string(kHeader), "", "no requests", "at least one"},
        Defect{"time,in,out\n1,2,3\n", ":1", "time,in,out", "TIMESTAMP,ContextTokens"},
        Defect{"\x7f"
               "ELF\x01",
               ":1", "'\\x7f\\x45LF\\x01'", "TIMESTAMP,ContextTokens"},
        Defect{Csv("\x1b[2J" + std::string(75, 'x') + "€"), ":3", "'\\x1b[2Jxxx", "three fields"},
        Defect{Csv("\x1b[2J" + std::string(75, 'x') + "€"), ":3", "xxx…'", "three fields"},
        Defect{Csv("2024-01-01 00:00:01,12"), ":3", "2024-01-01 00:00:01,12", "three fields"},
        Defect{Csv("2024-01-01 00:00:01,1,2,3"), ":3", ",1,2,3", "three fields"},
        Defect{Csv("2024-01-01 00:00:01,,3"), ":3", "''", "ContextTokens"},
        Defect{Csv("2024-01-01 00:00:01,5,x3"), ":3", "'x3'", "GeneratedTokens"},
        Defect{Csv("2024-01-01 00:00:01,5,0"), ":3", "'0'", "from 1"},
        Defect{Csv("2024-01-01 00:00:01,-5,1"), ":3", "'-5'", "from 1"},
        Defect{Csv("2024-13-01 00:00:01,5,1"), ":3", "2024-13-01", "a time"},
        Defect{Csv("2024-01-01 25:00:01,5,1"), ":3", "25:00", "a time"},
        Defect{Csv("2024-01-01 00:00:01.,5,1"), ":3", "00:01.", "a time"},
        Defect{Csv("2024-01-01,5,1"), ":3", "2024-01-01", "a time"},
        Defect{Jsonl("{\"timestamp\": 1, \"input_le"), ":2", "input_le", "a JSON object"},
        Defect{Jsonl("[1,2]"), ":2", "[1,2]", "a JSON object"},
        Defect{Jsonl(R"({"input_length": 1, "output_length": 1})"), ":2", "nothing", "timestamp"},
        Defect{Jsonl(R"({"timestamp": "x", "input_length": 1, "output_length": 1})"), ":2", "x",
               "milliseconds"},
        Defect{Jsonl(R"({"timestamp": -8.9e12, "input_length": 1, "output_length": 1})"), ":2",
               "-89", "milliseconds"},
        Defect{Jsonl(R"({"timestamp": 1, "input_length": 1.5, "output_length": 1})"), ":2", "1.5",
               "input_length"},
        Defect{Jsonl(R"({"timestamp": 1, "input_length": 1})"), ":2", "nothing", "output_length"},
        Defect{
            Jsonl(R"({"timestamp": 1, "input_length": 1, "output_length": 1, "hash_ids": [1, 2]})"),
            ":2", "2 hash_ids", "block size"},
        Defect{
            Jsonl(R"({"timestamp": 1, "input_length": 1, "output_length": 1, "hash_ids": ["a"]})"),
            ":2", "a", "integers"}));

TEST(TraceTest, RefusesALineThatNestsVeryDeeply) {
  const ScratchFolder dir;
  const std::string deep = std::string(200'000, '[') + std::string(200'000, ']');
  const auto rows = ReadTrace(dir.Write("t", R"({"timestamp": )" + deep + "}"), {});
  const std::string message(rows.status().message());
  EXPECT_THAT(message, HasSubstr(":1: found '{"));
  EXPECT_THAT(message, HasSubstr(": [[["));
}

TEST(TraceTest, RefusesAbsentFilesAndBadScales) {
  EXPECT_EQ(ReadTrace("/nowhere/trace.csv", {}).status().code(), absl::StatusCode::kNotFound);
  for (const double scale : {0.0, -1.0}) {
    EXPECT_FALSE(ReadTrace("/nowhere/trace.csv", {.time_scale = scale}).ok());
  }
}

}  // namespace
}  // namespace baton::bench
