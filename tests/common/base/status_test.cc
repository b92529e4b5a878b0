#include "common/base/status.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

namespace baton {
namespace {

constexpr Reason kLast = Reason::kDeviceFault;

TEST(Reason, NamesAreUniqueAndReadBack) {
  std::set<std::string> names;
  for (int i = 1; i <= static_cast<int>(kLast); ++i) {
    const auto reason = static_cast<Reason>(i);
    const std::string name(ReasonName(reason));
    EXPECT_FALSE(name.empty()) << i;
    EXPECT_TRUE(names.insert(name).second) << name;
    EXPECT_EQ(ReasonFromName(name), reason) << name;
    EXPECT_EQ(name.find_first_not_of("ABCDEFGHIJKLMNOPQRSTUVWXYZ_"), std::string::npos) << name;
  }
  EXPECT_EQ(ReasonName(Reason::kNone), "");
  EXPECT_EQ(ReasonFromName(""), Reason::kNone);
  EXPECT_EQ(ReasonFromName("too_long"), Reason::kNone);
}

TEST(Reason, IsSpelledAsOnTheWire) {
  EXPECT_EQ(ReasonName(Reason::kTooLong), "TOO_LONG");
  EXPECT_EQ(ReasonName(Reason::kInvalidTokenId), "INVALID_TOKEN_ID");
  EXPECT_EQ(ReasonName(Reason::kInvalidApiKey), "INVALID_API_KEY");
  EXPECT_EQ(ReasonName(Reason::kRequestKilledWorkers), "REQUEST_KILLED_WORKERS");
}

TEST(MakeError, CarriesEveryDetail) {
  const absl::Status status = MakeError(absl::StatusCode::kResourceExhausted,
                                        {.reason = Reason::kQueueFull,
                                         .field = "prompt",
                                         .values = {{"have", "9"}, {"limit", "4"}},
                                         .retry_after = std::chrono::milliseconds(250)},
                                        "the queue is full");
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(status.message(), "the queue is full");
  const ErrorDetail detail = DetailOf(status);
  EXPECT_EQ(detail.reason, Reason::kQueueFull);
  EXPECT_EQ(detail.field, "prompt");
  ASSERT_EQ(detail.values.size(), 2u);
  EXPECT_EQ(detail.values[1], (std::pair<std::string, std::string>{"limit", "4"}));
  EXPECT_EQ(detail.retry_after, std::chrono::milliseconds(250));
  EXPECT_EQ(ReasonOf(absl::Status(status)), Reason::kQueueFull);  // copies keep it
}

TEST(MakeError, KeepsTextOfAnyKindInValues) {
  constexpr char kOdd[] = "quote \" newline \n nul \0 é";
  const std::string odd(kOdd, sizeof(kOdd) - 1);
  const absl::Status status =
      MakeError(absl::StatusCode::kInvalidArgument,
                {.reason = Reason::kInvalidText, .field = odd, .values = {{odd, odd}}}, "odd");
  EXPECT_EQ(DetailOf(status).field, odd);
  ASSERT_EQ(DetailOf(status).values.size(), 1u);
  EXPECT_EQ(DetailOf(status).values[0].second, odd);
}

TEST(InvalidArgument, NamesFieldAndReason) {
  const absl::Status status = InvalidArgument(Reason::kInvalidSampling, "top_p", "top_p is 2");
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(DetailOf(status).field, "top_p");
  EXPECT_EQ(ReasonOf(status), Reason::kInvalidSampling);
  EXPECT_EQ(DetailOf(status).retry_after, std::nullopt);
}

TEST(DetailOf, IsEmptyForOtherStatuses) {
  for (const absl::Status& status : {absl::OkStatus(), absl::NotFoundError("x")}) {
    EXPECT_EQ(ReasonOf(status), Reason::kNone);
    EXPECT_EQ(DetailOf(status).field, "");
    EXPECT_TRUE(DetailOf(status).values.empty());
  }
}

TEST(CodeName, IsCanonical) {
  EXPECT_EQ(CodeName(absl::StatusCode::kOk), "OK");
  EXPECT_EQ(CodeName(absl::StatusCode::kInvalidArgument), "INVALID_ARGUMENT");
  EXPECT_EQ(CodeName(absl::StatusCode::kResourceExhausted), "RESOURCE_EXHAUSTED");
  EXPECT_EQ(CodeName(absl::StatusCode::kUnavailable), "UNAVAILABLE");
  EXPECT_EQ(CodeName(absl::StatusCode::kCancelled), "CANCELLED");
}

absl::StatusOr<int> Half(int value) {
  if (value % 2 != 0) return absl::InvalidArgumentError("odd");
  return value / 2;
}
absl::Status Quarter(int value, int* result) {
  BATON_ASSIGN_OR_RETURN(const int half, Half(value));
  BATON_ASSIGN_OR_RETURN(*result, Half(half));
  BATON_RETURN_IF_ERROR(*result > 100 ? absl::OutOfRangeError("large") : absl::OkStatus());
  return absl::OkStatus();
}

TEST(StatusMacros, ReturnTheFirstErrorAndAssignOtherwise) {
  int result = 0;
  EXPECT_TRUE(Quarter(12, &result).ok());
  EXPECT_EQ(result, 3);
  EXPECT_EQ(Quarter(5, &result).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(Quarter(6, &result).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(Quarter(800, &result).code(), absl::StatusCode::kOutOfRange);
}

}  // namespace
}  // namespace baton
