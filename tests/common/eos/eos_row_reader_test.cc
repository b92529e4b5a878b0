#include "common/eos/eos_row_reader.h"

#include <cmath>
#include <fstream>
#include <limits>
#include <sstream>

#include "common/eos/eos_fields.h"
#include "common/eos/eos_row.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/common/eos/sample_eos_row.h"

namespace baton {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

std::string WrittenLine(const EosRow& row) {
  std::string line = EosLineOf(row);
  line.pop_back();
  return line;
}

// A good line in which `from` is replaced by `to`.
std::string ChangedLine(const std::string& from, const std::string& to) {
  std::string line = WrittenLine(SampleEosRow());
  const size_t at = line.find(from);
  EXPECT_NE(at, line.npos) << from;
  return line.replace(at, from.size(), to);
}

std::string Refusal(const std::string& line) {
  EosLogRow row;
  const absl::Status status = ReadEosRow(line, &row);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << line;
  return std::string(status.message());
}

TEST(EosRowReader, ReadsWhatIsWritten) {
  EosRow written = SampleEosRow();
  written.finish_reason = FinishReason::kStopEos;
  written.natural_end_step = 5;
  written.attempt = 2;
  EosLogRow row;
  ASSERT_TRUE(ReadEosRow(WrittenLine(written), &row).ok());
  EXPECT_EQ(row.request_id, "r1");
  EXPECT_EQ(row.timestamp, 1234567890.125);
  EXPECT_EQ(row.step, 5);
  EXPECT_EQ(row.token, 123);
  EXPECT_EQ(row.eos_token_id, 2);
  EXPECT_EQ(static_cast<float>(*row.eos_logprob), -2.302585F);
  EXPECT_NEAR(*row.eos_prob, 0.1, 1e-7);
  EXPECT_TRUE(row.is_finished);
  EXPECT_EQ(row.finish_reason, FinishReason::kStopEos);
  EXPECT_EQ(row.prompt_length, 20);
  EXPECT_EQ(row.output_length, 5);
  EXPECT_EQ(row.total_length, 25);
  EXPECT_EQ(row.eos_prob_sampling, 0.25);
  EXPECT_EQ(row.eos_rank, 3);
  EXPECT_EQ(row.entropy, 1.5);
  EXPECT_EQ(row.top1_prob, 0.75);
  EXPECT_EQ(row.policy, EosPolicy::kHonor);
  EXPECT_EQ(row.natural_end_step, 5);
  EXPECT_EQ(row.attempt, 2);
}

TEST(EosRowReader, ReadsEveryReasonAndPolicy) {
  for (int reason = 0; reason <= static_cast<int>(FinishReason::kError); ++reason) {
    EosRow written = SampleEosRow();
    written.finish_reason = static_cast<FinishReason>(reason);
    EosLogRow row;
    ASSERT_TRUE(ReadEosRow(WrittenLine(written), &row).ok()) << reason;
    EXPECT_EQ(row.finish_reason, written.finish_reason);
    EXPECT_EQ(row.is_finished, reason != 0);
  }
  for (const auto policy :
       {EosPolicy::kHonor, EosPolicy::kIgnoreContinue, EosPolicy::kIgnoreMask}) {
    EosRow written = SampleEosRow();
    written.request = std::make_shared<const EosRequestFacts>(
        EosRequestFacts{.request_id = "r1", .prompt_length = 20, .policy = policy});
    EosLogRow row;
    ASSERT_TRUE(ReadEosRow(WrittenLine(written), &row).ok());
    EXPECT_EQ(row.policy, policy);
  }
}

TEST(EosRowReader, WhatIsNullIsEmptyAlsoInARowThatIsUsedAgain) {
  EosRow written = SampleEosRow();
  EosLogRow row;
  ASSERT_TRUE(ReadEosRow(WrittenLine(written), &row).ok());
  const float nan = std::numeric_limits<float>::quiet_NaN();
  written.signal = {.eos_logprob = nan, .eos_prob_sampling = nan, .entropy = nan, .top1_prob = nan};
  written.request = std::make_shared<const EosRequestFacts>(
      EosRequestFacts{.request_id = "r1", .prompt_length = 20});
  ASSERT_TRUE(ReadEosRow(WrittenLine(written), &row).ok());
  EXPECT_FALSE(row.eos_token_id || row.eos_logprob || row.eos_prob || row.eos_prob_sampling ||
               row.eos_rank || row.entropy || row.top1_prob || row.natural_end_step);
}

TEST(EosRowReader, RequestIdsAreUnescaped) {
  for (const std::string id : {"a\"b\\\n\x01", "grüß dich", "", "{\"step\":1}"}) {
    EosRow written = SampleEosRow();
    written.request = std::make_shared<const EosRequestFacts>(
        EosRequestFacts{.request_id = id, .prompt_length = 20});
    EosLogRow row;
    ASSERT_TRUE(ReadEosRow(WrittenLine(written), &row).ok()) << id;
    EXPECT_EQ(row.request_id, id);
  }
  EosLogRow row;
  EXPECT_TRUE(ReadEosRow(ChangedLine("\"r1\"", "\"\\ud83d\\ude00\""), &row).ok());
  EXPECT_EQ(row.request_id, "😀");
}

TEST(EosRowReader, RowsOfEarlierVersionsAreOfTheFirstAnswer) {
  EosRow written = SampleEosRow();
  written.request = std::make_shared<const EosRequestFacts>(
      EosRequestFacts{.request_id = "r1", .index = 3, .prompt_length = 20});
  EosLogRow row;
  ASSERT_TRUE(ReadEosRow(WrittenLine(written), &row).ok());
  EXPECT_EQ(row.index, 3);
  ASSERT_TRUE(ReadEosRow(ChangedLine(",\"index\":0", ""), &row).ok());
  EXPECT_EQ(row.index, 0) << "also where the row is used again";
  EXPECT_THAT(Refusal(ChangedLine("\"index\":0", "\"index\":-1")), HasSubstr("index: found -1"));
}

TEST(EosRowReader, KeysMayStandInAnyOrderAndHaveSpaceAround) {
  const auto json = nlohmann::json::parse(WrittenLine(SampleEosRow()));
  const std::string sorted = "  " + json.dump() + "\t";
  EosLogRow row;
  EXPECT_TRUE(ReadEosRow(sorted, &row).ok());
  EXPECT_EQ(row.total_length, 25);
}

TEST(EosRowReader, AValueOutsideItsFieldIsNamedWithWhatWasExpected) {
  EXPECT_EQ(Refusal(ChangedLine("\"step\":5", "\"step\":0")),
            "step: found 0, expected an integer from 1 to 2147483647");
  EXPECT_THAT(Refusal(ChangedLine("\"step\":5", "\"step\":5.5")), HasSubstr("step: found 5.5"));
  EXPECT_THAT(Refusal(ChangedLine("\"step\":5", "\"step\":3000000000")), HasSubstr("found 3000"));
  EXPECT_EQ(Refusal(ChangedLine("\"eos_prob_sampling\":0.25", "\"eos_prob_sampling\":1.25")),
            "eos_prob_sampling: found 1.25, expected a number from 0 to 1 or null");
  EXPECT_EQ(Refusal(ChangedLine("\"eos_logprob\":-2.302584887", "\"eos_logprob\":0.5")),
            "eos_logprob: found 0.5, expected a number of at most 0 or null");
  EXPECT_EQ(Refusal(ChangedLine("\"entropy\":1.5", "\"entropy\":\"1.5\"")),
            "entropy: found \\\"1.5\\\", expected a number of at least 0 or null");
  EXPECT_THAT(Refusal(ChangedLine("\"is_finished\":false", "\"is_finished\":0")),
              HasSubstr("is_finished: found 0, expected true or false"));
  EXPECT_THAT(Refusal(ChangedLine("\"honor\"", "\"ignore\"")),
              AllOf(HasSubstr("eos_policy: found"), HasSubstr("one of honor, continue, mask")));
  EXPECT_THAT(Refusal(ChangedLine("\"r1\"", "7")), HasSubstr("request_id: found 7"));
  EXPECT_THAT(Refusal(ChangedLine("\"r1\"", "[1]")), HasSubstr("request_id: found ["));
  EXPECT_THAT(Refusal(ChangedLine("\"attempt\":1", "\"attempt\":null")),
              HasSubstr("attempt: found null"));
}

TEST(EosRowReader, EveryKeyIsThereOnceAndNoOther) {
  EXPECT_THAT(Refusal(ChangedLine("\"eos_rank\":3,", "")), HasSubstr("eos_rank: not in the row"));
  EXPECT_THAT(Refusal(ChangedLine("\"eos_rank\":3", "\"eos_rank\":3,\"eos_rank\":3")),
              HasSubstr("eos_rank: found twice"));
  EXPECT_THAT(Refusal(ChangedLine("\"eos_rank\":3", "\"eos_rank\":3,\"more\":3")),
              HasSubstr("more: found this key"));
  EXPECT_THAT(Refusal("{}"), HasSubstr("request_id: not in the row"));
}

TEST(EosRowReader, WhatIsTooSmallForADoubleIsZero) {
  const std::string tiny = "0." + std::string(500, '0') + "1";
  for (const std::string& number : {std::string("1e-400"), std::string("1E-400"), tiny}) {
    EosLogRow row;
    ASSERT_TRUE(ReadEosRow(ChangedLine("\"entropy\":1.5", "\"entropy\":" + number), &row).ok());
    EXPECT_EQ(row.entropy, 0) << number;
  }
}

TEST(EosRowReader, WhatIsNoJsonSaysWhere) {
  EXPECT_EQ(Refusal(""),
            "not JSON at byte 1: found the end of the line, expected one object without objects or "
            "arrays in it");
  EXPECT_THAT(Refusal("[1]"), HasSubstr("found [, expected one object"));
  EXPECT_THAT(Refusal(WrittenLine(SampleEosRow()) + std::string("\0{", 2)),
              HasSubstr("a zero byte"));
  EXPECT_THAT(Refusal("\xef\xbb\xbf" + WrittenLine(SampleEosRow())),
              HasSubstr("a byte order mark"));
  EXPECT_THAT(Refusal(WrittenLine(SampleEosRow()).substr(0, 40)), HasSubstr("not JSON at byte"));
  EXPECT_THAT(Refusal(WrittenLine(SampleEosRow()) + "x"), HasSubstr("}x'"));
  for (const char* number : {"05", "5.", ".5", "+5", "0x5", "inf", "nan", "-", "5e", "1e999"}) {
    EXPECT_THAT(Refusal(ChangedLine("\"entropy\":1.5", "\"entropy\":" + std::string(number))),
                HasSubstr("not JSON"))
        << number;
  }
  EXPECT_THAT(Refusal(ChangedLine("\"r1\"", "\"\xff\"")), HasSubstr("not JSON"));
  EXPECT_THAT(Refusal(ChangedLine("\"r1\"", "\"\\ud83d\"")), HasSubstr("not JSON"));
}

TEST(EosRowReader, MessagesAreBoundedAndPrintable) {
  const std::string message = Refusal("\x1b[2J" + std::string(100000, 'x'));
  EXPECT_LT(message.size(), 300U);
  EXPECT_EQ(message.find('\x1b'), message.npos);
}

TEST(EosFields, AreTheKeysOfTheLogInItsOrder) {
  const auto json = nlohmann::ordered_json::parse(WrittenLine(SampleEosRow()));
  std::vector<std::string> written;
  for (const auto& [key, value] : json.items()) written.push_back(key);
  std::vector<std::string> fields;
  for (const EosField& field : EosFields()) {
    EXPECT_EQ(static_cast<size_t>(field.key), fields.size());
    fields.emplace_back(field.name);
  }
  EXPECT_EQ(fields, written);
}

TEST(EosFields, TheirSchemaIsTheCommittedDocument) {
  std::ifstream file(BATON_SOURCE_DIR "/docs/eos_log.schema.json");
  std::stringstream committed;
  committed << file.rdbuf();
  EXPECT_EQ(committed.str(), EosRowSchema())
      << "baton eos validate --schema > docs/eos_log.schema.json";
}

}  // namespace
}  // namespace baton
