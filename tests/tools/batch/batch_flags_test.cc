#include "tools/batch/batch_flags.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/tools/run_tool.h"

namespace baton::batch {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(BatchFlags, ConcurrencyFillsOwnWorkersTwice) {
  const auto concurrency = [](const std::vector<std::string>& arguments) {
    BatchFlags flags;
    FlagSet set("baton batch", "batch", "");
    BindBatch(&set, &flags);
    const absl::Status parsed = set.Parse(arguments, {});
    EXPECT_TRUE(parsed.ok()) << parsed;
    return ConcurrencyOf(flags);
  };
  EXPECT_EQ(concurrency({"in", "out"}), 128);
  EXPECT_EQ(concurrency({"in", "out", "DIR", "--decode", "3", "--max-num-seqs", "10"}), 60);
  EXPECT_EQ(concurrency({"in", "out", "DIR", "--concurrency", "7"}), 7);
}

TEST(BatchFlags, OwnWorkersGetWhatWasGivenAndNoMore) {
  BatchFlags flags;
  FlagSet set("baton batch", "batch", "");
  BindBatch(&set, &flags);
  ASSERT_TRUE(set.Parse({"in", "out", "DIR", "--mode", "unified", "--threads", "2", "--patience",
                         "3s", "--eos-log", "rows"},
                        {})
                  .ok());
  EXPECT_THAT(ServeArguments(set, flags),
              ::testing::ElementsAre("DIR", "--host=127.0.0.1", "--port=0", "--admin-port=0",
                                     "--http-port=0", "--log-level=warn", "--eos-log=off",
                                     "--mode=unified", "--eos-log=rows", "--threads=2"));
}

TEST(BatchFlags, HelpNamesTheVariableThatItsKeyIsTakenFrom) {
  const std::string help = RunTool({"batch", "--help", "all"}).out;
  EXPECT_THAT(help, HasSubstr("OPENAI_API_KEY"));
  EXPECT_THAT(help, Not(HasSubstr("variable BATON_API_KEY")));
}

}  // namespace
}  // namespace baton::batch
