#include <errno.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <string>
#include <type_traits>
#include <unordered_set>

#include "absl/container/flat_hash_set.h"
#include "common/base/check.h"
#include "common/base/clock.h"
#include "common/base/ids.h"
#include "common/base/log.h"
#include "common/base/mutex.h"
#include "nlohmann/json.hpp"

namespace baton::base {
namespace {

TEST(StrongId, TypesDoNotMix) {
  static_assert(!std::is_convertible_v<int, BlockId>);
  static_assert(!std::is_convertible_v<BlockId, int>);
  static_assert(!std::is_constructible_v<BlockId, SequenceId>);
  static_assert(sizeof(BlockId) == 4 && sizeof(SequenceId) == 8);
  EXPECT_EQ(BlockId(7).value(), 7);
}

TEST(StrongId, IsNoneUntilGivenAValue) {
  EXPECT_FALSE(BlockId().valid());
  EXPECT_FALSE(SequenceId::None().valid());
  EXPECT_TRUE(BlockId(0).valid());
  EXPECT_TRUE(BlockId(-1).valid());
  EXPECT_EQ(BlockId(), BlockId::None());
}

TEST(StrongId, ComparesAndHashesByValue) {
  EXPECT_LT(BlockId(1), BlockId(2));
  EXPECT_NE(BlockId(1), BlockId(2));
  const std::unordered_set<BlockId> standard = {BlockId(1), BlockId(1), BlockId(2)};
  EXPECT_EQ(standard.size(), 2u);
  const absl::flat_hash_set<SequenceId> flat = {SequenceId(1), SequenceId(1), SequenceId(2)};
  EXPECT_EQ(flat.size(), 2u);
}

TEST(ManualClock, MovesOnlyWhenTold) {
  ManualClock clock;
  const Instant start = clock.Now();
  const double unix_start = clock.UnixNow();
  EXPECT_EQ(clock.Now(), start);
  clock.Advance(std::chrono::milliseconds(1500));
  EXPECT_DOUBLE_EQ(Seconds(clock.Now() - start), 1.5);
  EXPECT_DOUBLE_EQ(Milliseconds(clock.Now() - start), 1500);
  EXPECT_NEAR(clock.UnixNow() - unix_start, 1.5, 1e-6);
  EXPECT_LT(clock.Now(), kNever);
}

TEST(SteadyClock, DoesNotGoBack) {
  const SteadyClock clock;
  const Instant first = clock.Now();
  EXPECT_GE(clock.Now(), first);
  EXPECT_GT(clock.UnixNow(), 1.5e9);
}

TEST(CheckDeathTest, EndsTheProcessWithConditionAndValues) {
  const int have = 3;
  EXPECT_DEATH(BATON_CHECK(have > 4) << "have " << have, "have > 4.*have 3");
}

TEST(Check, EvaluatesItsConditionOnceAndTheMessageNever) {
  int evaluated = 0;
  int printed = 0;
  BATON_CHECK(++evaluated > 0) << ++printed;
  EXPECT_EQ(evaluated, 1);
  EXPECT_EQ(printed, 0);
}

TEST(CondVar, WaitUntilReportsThatTheDeadlinePassed) {
  Mutex mutex;
  CondVar changed;
  MutexLock lock(&mutex);
  EXPECT_FALSE(changed.WaitUntil(&mutex, std::chrono::steady_clock::now()));
}

TEST(InitLog, RefusesAnUnknownLevel) {
  const absl::Status status = InitLog(LogFormat::kText, "loud");
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(status.message().find("loud"), absl::string_view::npos);
}

TEST(InitLog, MayBeCalledAgainAndTheLastCallCounts) {
  ::testing::internal::CaptureStderr();
  ASSERT_TRUE(InitLog(LogFormat::kJson, "error").ok());
  spdlog::warn("first");
  ASSERT_TRUE(InitLog(LogFormat::kText, "warn").ok());
  spdlog::warn("second");
  const std::string text = ::testing::internal::GetCapturedStderr();
  EXPECT_EQ(text.find("first"), std::string::npos);
  EXPECT_NE(text.find("W second\n"), std::string::npos) << text;
}

TEST(InitLog, WritesOneLineOfTextWhateverTheMessage) {
  ::testing::internal::CaptureStderr();
  ASSERT_TRUE(InitLog(LogFormat::kText, "warn").ok());
  spdlog::warn("{}", "a\n2026-11-29 00:00:00.000 E forged\r\t\x1b[2J\x7f\xc2\x9b");
  spdlog::warn("{}", "caf\u00e9 \u20ac \xff");
  spdlog::default_logger()->flush();
  const std::string lines = ::testing::internal::GetCapturedStderr();
  EXPECT_EQ(std::count(lines.begin(), lines.end(), '\n'), 2) << lines;
  EXPECT_NE(lines.find(" W a\\n2026-11-29 00:00:00.000 E forged\\r\\t\\x1b[2J\\x7f\\xc2\\x9b\n"),
            std::string::npos)
      << lines;
  EXPECT_NE(lines.find(" W caf\u00e9 \u20ac \xff\n"), std::string::npos) << "no control: " << lines;
}

TEST(InitLog, WritesOneJsonObjectPerLineWhateverTheMessage) {
  ::testing::internal::CaptureStderr();
  ASSERT_TRUE(InitLog(LogFormat::kJson, "warn").ok());
  const std::string message = "a \"quoted\"\nmessage \xFF";
  spdlog::info("below the level");
  spdlog::warn("{}", message);
  spdlog::default_logger()->flush();
  const std::string lines = ::testing::internal::GetCapturedStderr();
  EXPECT_EQ(std::count(lines.begin(), lines.end(), '\n'), 1) << lines;
  const auto json = nlohmann::json::parse(lines, nullptr, false);
  ASSERT_TRUE(json.is_object()) << lines;
  EXPECT_EQ(json["level"], "warning");
  EXPECT_EQ(json["msg"], "a \"quoted\"\nmessage \xEF\xBF\xBD");
  EXPECT_TRUE(json.contains("ts"));
  EXPECT_EQ(json["program"], program_invocation_short_name);
  EXPECT_EQ(json["pid"], getpid());
}

}  // namespace
}  // namespace baton::base
