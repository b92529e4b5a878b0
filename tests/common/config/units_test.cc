#include "common/config/units.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace baton {
namespace {

using ::testing::HasSubstr;

TEST(ParseSize, TakesBytesAndBinaryUnits) {
  EXPECT_EQ(*ParseSize("0"), 0);
  EXPECT_EQ(*ParseSize("1048576"), 1048576);
  EXPECT_EQ(*ParseSize("3KiB"), 3072);
  EXPECT_EQ(*ParseSize("512MiB"), int64_t{512} << 20);
  EXPECT_EQ(*ParseSize("0.5GiB"), int64_t{512} << 20);
  EXPECT_EQ(*ParseSize("9007199254740993"), 9007199254740993);
}

TEST(ParseSize, RefusesOtherUnitsSignsAndRubbish) {
  for (const char* text : {"", "-1", "1MB", "MiB", "1 MiB", "nan", "infGiB", "1e30GiB", "12x"}) {
    const auto parsed = ParseSize(text);
    ASSERT_FALSE(parsed.ok()) << text;
    EXPECT_THAT(std::string(parsed.status().message()), HasSubstr("512MiB")) << text;
  }
}

TEST(ParseDuration, TakesUnitsAndTheDefaultUnit) {
  using std::chrono::milliseconds;
  EXPECT_EQ(*ParseDuration("30", milliseconds(1000)), std::chrono::seconds(30));
  EXPECT_EQ(*ParseDuration("30", milliseconds(1)), milliseconds(30));
  EXPECT_EQ(*ParseDuration("500ms", milliseconds(1000)), milliseconds(500));
  EXPECT_EQ(*ParseDuration("1.5s", milliseconds(1)), milliseconds(1500));
  EXPECT_EQ(*ParseDuration("2m", milliseconds(1)), std::chrono::minutes(2));
  EXPECT_EQ(*ParseDuration("1h", milliseconds(1)), std::chrono::hours(1));
  EXPECT_FALSE(ParseDuration("-1s", milliseconds(1)).ok());
  EXPECT_FALSE(ParseDuration("soon", milliseconds(1)).ok());
  EXPECT_FALSE(ParseDuration("90000h", milliseconds(1)).ok()) << "more than a year";
}

TEST(FormatSize, RoundTrips) {
  for (const int64_t bytes :
       {int64_t{0}, int64_t{1}, int64_t{1024}, int64_t{5} << 20, int64_t{7} << 30, int64_t{1025}}) {
    EXPECT_EQ(*ParseSize(FormatSize(bytes)), bytes);
  }
  EXPECT_EQ(FormatSize(int64_t{512} << 20), "512MiB");
}

}  // namespace
}  // namespace baton
