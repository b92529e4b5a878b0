#include "tools/batch/batch_input.h"

#include <sys/stat.h>

#include "gmock/gmock.h"
#include "tests/tools/batch/batch_files.h"

namespace baton::batch {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class BatchInputTest : public BatchFiles {
 protected:
  static std::vector<int64_t> NumbersOf(const BatchInput& input) {
    std::vector<int64_t> numbers;
    for (const InputLine& line : input.lines()) numbers.push_back(line.number);
    return numbers;
  }
  static std::string Refusal(const std::string& path, BatchPart part = {}) {
    const auto input = BatchInput::Open(path, part);
    EXPECT_TRUE(absl::IsInvalidArgument(input.status())) << input.status();
    return input.status().ToString();
  }
};

TEST_F(BatchInputTest, EachLineIsReadBackWhereverItStands) {
  // The last one lacks its line break; empty ones are none.
  const std::string text = RequestLine("a") + "\n \r\n" + RequestLine("b", 9) + "no json\n" +
                           RequestLine("c").substr(0, RequestLine("c").size() - 1);
  const auto input = BatchInput::Open(Write("in", text), {});
  ASSERT_TRUE(input.ok()) << input.status();
  EXPECT_THAT(NumbersOf(*input), ElementsAre(1, 4, 5, 6));
  const std::vector<std::string> ids = {"a", "b", "", "c"};
  for (size_t i = ids.size(); i-- > 0;) {
    const auto line = input->Read(input->lines()[i]);
    ASSERT_TRUE(line.ok()) << line.status();
    EXPECT_EQ(line->custom_id, ids[i]);
    EXPECT_EQ(line->wrong.ok(), !ids[i].empty());
  }
  EXPECT_EQ(input->lines()[1].limit, 9);
}

TEST_F(BatchInputTest, PiecesOfAFileMayEndInMidLine) {
  std::string text;
  for (int i = 0; i < 30'000; ++i) text += RequestLine("id" + std::to_string(i));
  ASSERT_GT(text.size(), size_t{2} << 20);
  const auto input = BatchInput::Open(Write("in", text), {});
  ASSERT_TRUE(input.ok()) << input.status();
  ASSERT_EQ(input->lines().size(), 30'000u);
  for (const size_t i : {0u, 11'111u, 29'999u}) {
    EXPECT_EQ(input->Read(input->lines()[i])->custom_id, "id" + std::to_string(i));
  }
}

TEST_F(BatchInputTest, PartsHaveEachLineOnce) {
  std::string text;
  for (int i = 0; i < 10; ++i) text += RequestLine("id" + std::to_string(i));
  const std::string path = Write("in", text);
  const auto part = [&](int32_t index) {
    return NumbersOf(*BatchInput::Open(path, {.index = index, .count = 3}));
  };
  EXPECT_THAT(part(0), ElementsAre(1, 4, 7, 10));
  EXPECT_THAT(part(1), ElementsAre(2, 5, 8));
  EXPECT_THAT(part(2), ElementsAre(3, 6, 9));
}

TEST_F(BatchInputTest, AnIdThatStandsTwiceIsRefusedInEveryPart) {
  const std::string path = Write("in", RequestLine("a") + RequestLine("b") + RequestLine("a"));
  for (const int32_t index : {0, 1}) {
    EXPECT_THAT(Refusal(path, {.index = index, .count = 2}),
                HasSubstr("in:3: custom_id 'a' stands in line 1 already"));
  }
}

TEST_F(BatchInputTest, WhatIsNoFileIsRefused) {
  EXPECT_THAT(Refusal(Path("none")), HasSubstr("No such file"));
  ASSERT_EQ(mkfifo(Path("pipe").c_str(), 0600), 0);
  EXPECT_THAT(Refusal(Path("pipe")), HasSubstr("it has to be a file"));
  EXPECT_THAT(Refusal(Path("")), HasSubstr("it has to be a file"));
}

TEST_F(BatchInputTest, AFileThatChangesIsNoticed) {
  const std::string path = Write("in", RequestLine("a") + RequestLine("b"));
  const auto input = BatchInput::Open(path, {});
  ASSERT_TRUE(input.ok());
  Write("in", RequestLine("a") + RequestLine("c"));
  EXPECT_TRUE(input->Read(input->lines()[0]).ok());
  EXPECT_TRUE(absl::IsDataLoss(input->Read(input->lines()[1]).status()));
  Write("in", "");
  EXPECT_TRUE(absl::IsDataLoss(input->Read(input->lines()[0]).status()));
}

TEST_F(BatchInputTest, ALineBeyondTheBoundIsItsOwnErrorOnly) {
  const std::string path =
      Write("in", RequestLine("a") + std::string(size_t{kMaxLineBytes} + 9, 'x') + "\n" +
                      RequestLine("b"));
  const auto input = BatchInput::Open(path, {});
  ASSERT_TRUE(input.ok()) << input.status();
  ASSERT_EQ(input->lines().size(), 3u);
  const auto wrong = input->Read(input->lines()[1]);
  ASSERT_TRUE(wrong.ok()) << wrong.status();
  EXPECT_THAT(wrong->wrong.ToString(), HasSubstr("more than"));
  EXPECT_EQ(input->Read(input->lines()[2])->custom_id, "b");
}

}  // namespace
}  // namespace baton::batch
