#include "tools/bench/report/progress_view.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace baton::bench {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

LoadProgress At(double elapsed_s, int64_t tokens) {
  return {.elapsed_s = elapsed_s,
          .planned = 10,
          .sent = 6,
          .done = 3,
          .failed = 1,
          .output_tokens = tokens,
          .last_ttft_ms = 12};
}

TEST(ProgressText, CountsWhatIsUnderWay) {
  EXPECT_EQ(ProgressText("run 1 of 1", At(2, 0), 50),
            "run 1 of 1  2.0 s  3 of 10 done, 2 under way, 1 failed  50 tok/s  TTFT 12 ms");
}

TEST(ProgressView, WritesPlainLinesWhereThereIsNoTerminal) {
  std::FILE* const pipe = std::tmpfile();  // no terminal, but with a descriptor
  ASSERT_NE(pipe, nullptr);
  {
    ProgressView view(pipe);
    view.Begin("a");
    view.Update(At(1, 100));   // too soon for a line of its own
    view.Update(At(6, 600));   // 600 tokens in 6 s
    view.Update(At(11, 700));  // 100 tokens in 5 s
    view.End();
  }
  const auto size = static_cast<size_t>(std::ftell(pipe));
  std::rewind(pipe);
  std::string written(size, '\0');
  EXPECT_EQ(std::fread(written.data(), 1, size, pipe), size);
  std::fclose(pipe);
  EXPECT_THAT(written, Not(HasSubstr("\r")));
  EXPECT_THAT(written, Not(HasSubstr("  1.0 s")));
  EXPECT_THAT(written, HasSubstr("6.0 s  3 of 10 done, 2 under way, 1 failed  100 tok/s"));
  EXPECT_THAT(written, HasSubstr("11.0 s  3 of 10 done, 2 under way, 1 failed  20 tok/s"));
  EXPECT_THAT(written, HasSubstr("64 tok/s"));  // of the whole, in the end
}

}  // namespace
}  // namespace baton::bench
