#include "tools/batch/batch_order.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace baton::batch {
namespace {

using ::testing::ElementsAre;

std::vector<int64_t> Ordered(std::vector<InputLine> lines) {
  for (size_t i = 0; i < lines.size(); ++i) lines[i].number = static_cast<int64_t>(i);
  OrderByCost(&lines);
  std::vector<int64_t> numbers;
  for (const InputLine& line : lines) numbers.push_back(line.number);
  return numbers;
}

TEST(BatchOrder, LongAnswersGoFirstAndEqualOnesAsTheyCame) {
  EXPECT_THAT(Ordered({{.limit = 5}, {.limit = 900}, {.limit = 5}, {.limit = 20}}),
              ElementsAre(1, 3, 0, 2));
}

TEST(BatchOrder, PromptsCountLessThanAnswers) {
  EXPECT_THAT(Ordered({{.prompt = 100, .limit = 10}, {.prompt = 0, .limit = 20}}),
              ElementsAre(1, 0));
  EXPECT_THAT(Ordered({{.prompt = 10, .limit = 10}, {.prompt = 20, .limit = 10}}),
              ElementsAre(1, 0));
}

TEST(BatchOrder, WithoutALimitAnAnswerMayBeAsLongAsTheLongest) {
  const std::vector<InputLine> lines = {
      {.limit = 3000}, {.prompt = 160, .limit = -1}, {.limit = 7}};
  EXPECT_EQ(LongestLimit(lines), 3000);
  EXPECT_EQ(ExpectedCost(lines[1], 3000), 3010);
  EXPECT_THAT(Ordered(lines), ElementsAre(1, 0, 2));
  EXPECT_EQ(LongestLimit({{.limit = 7}}), 1024);
}

}  // namespace
}  // namespace baton::batch
