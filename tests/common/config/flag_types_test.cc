#include "common/config/flag_types.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace baton {
namespace {

using ::testing::ElementsAre;
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
}

TEST(FormatSize, RoundTrips) {
  for (const int64_t bytes :
       {int64_t{0}, int64_t{1}, int64_t{1024}, int64_t{5} << 20, int64_t{7} << 30, int64_t{1025}}) {
    EXPECT_EQ(*ParseSize(FormatSize(bytes)), bytes);
  }
  EXPECT_EQ(FormatSize(int64_t{512} << 20), "512MiB");
}

TEST(IntFlag, HoldsTheRangeAndSaysIt) {
  int32_t value = 3;
  const Flag flag = IntFlag("n", &value, {.min = 1, .max = 10});
  EXPECT_TRUE(flag.set({"10"}).ok());
  EXPECT_EQ(value, 10);
  EXPECT_THAT(flag.get(), ElementsAre("10"));
  for (const char* bad : {"0", "11", "x", "", "1.5", "99999999999999999999"}) {
    EXPECT_EQ(std::string(flag.set({bad}).message()),
              "found '" + std::string(bad) + "', expected an integer from 1 to 10");
  }
  EXPECT_EQ(value, 10);
}

TEST(ChoiceFlag, NamesTheWordsAndTheReasonOfARefusedOne) {
  int value = 0;
  const Flag flag =
      ChoiceFlag("c", &value, Choices<int>{{{"one", 1}, {"two", 2}}, {{"three", "it is odd"}}});
  EXPECT_EQ(flag.value, "one|two");
  EXPECT_TRUE(flag.set({"two"}).ok());
  EXPECT_EQ(value, 2);
  EXPECT_THAT(std::string(flag.set({"four"}).message()),
              HasSubstr("found 'four', expected one of one, two"));
  EXPECT_THAT(std::string(flag.set({"three"}).message()), HasSubstr("it is odd"));
}

TEST(SwitchFlag, TakesTheUsualWords) {
  bool value = false;
  const Flag flag = SwitchFlag("s", &value);
  EXPECT_TRUE(flag.set({"on"}).ok());
  EXPECT_TRUE(value);
  EXPECT_TRUE(flag.set({"0"}).ok());
  EXPECT_FALSE(value);
  EXPECT_FALSE(flag.set({"perhaps"}).ok());
}

TEST(CommaListFlag, JoinsOccurrences) {
  std::vector<std::string> value = {"old"};
  const Flag flag = CommaListFlag("l", &value);
  EXPECT_TRUE(flag.set({"a:1,b:2", "c:3"}).ok());
  EXPECT_THAT(value, ElementsAre("a:1", "b:2", "c:3"));
}

}  // namespace
}  // namespace baton
