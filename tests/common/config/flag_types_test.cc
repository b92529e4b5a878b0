#include "common/config/flag_types.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace baton {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

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

TEST(DoubleFlag, HoldsTheRangeAndSaysIt) {
  double value = 0.5;
  const Flag flag = DoubleFlag("x", &value, {.min = 0, .max = 10});
  EXPECT_TRUE(flag.set({"2.25"}).ok());
  EXPECT_EQ(value, 2.25);
  EXPECT_THAT(flag.get(), ElementsAre("2.25"));
  for (const char* bad : {"-1", "11", "x", "", "nan", "inf"}) {
    EXPECT_EQ(std::string(flag.set({bad}).message()),
              "found '" + std::string(bad) + "', expected a number from 0 to 10");
  }
  EXPECT_EQ(value, 2.25);
}

TEST(ChoiceFlag, TakesItsWordsAndNamesThemWhenItFindsAnother) {
  int value = 0;
  const Flag flag = ChoiceFlag("c", &value, Choices<int>{{"one", 1}, {"two", 2}});
  EXPECT_EQ(flag.value, "one|two");
  EXPECT_TRUE(flag.set({"two"}).ok());
  EXPECT_EQ(value, 2);
  EXPECT_THAT(std::string(flag.set({"four"}).message()),
              HasSubstr("found 'four', expected one of one, two"));
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
