#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>

#include <array>
#include <cstdio>
#include <string>

#include "common/base/cores.h"
#include "nlohmann/json.hpp"
#include "tests/tools/eos/log_files.h"
#include "tests/tools/run_tool.h"

namespace baton {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

// Runs the program, since a plan for this machine starts it again.
class MeasuredPlanTest : public LogFilesTest {
 protected:
  MeasuredPlanTest() {
    // One core, so that one way to divide it is measured.
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(static_cast<size_t>(base::CpusOfThisThread().front()), &one);
    EXPECT_EQ(sched_setaffinity(0, sizeof one, &one), 0);
    EXPECT_EQ(RunTool({"model", "make-random", Path("model"), "--layers", "2", "--hidden", "64",
                       "--heads", "4", "--kv-heads", "2", "--head-dim", "16", "--ffn", "128",
                       "--vocab", "300", "--max-positions", "256"})
                  .exit,
              0);
  }

  // What `baton` prints, and how it ends.
  ToolRun Baton(const std::string& arguments) const {
    const std::string command = BATON_BINARY " " + arguments + " 2>" + Path("err");
    ToolRun run;
    FILE* const pipe = popen(command.c_str(), "r");
    std::array<char, 4096> piece{};
    while (const size_t read = fread(piece.data(), 1, piece.size(), pipe)) {
      run.out.append(piece.data(), read);
    }
    run.exit = WEXITSTATUS(pclose(pipe));
    run.err = Content(Path("err"));
    return run;
  }
};

TEST_F(MeasuredPlanTest, MeasuresStepsThatCanBeFitted) {
  const ToolRun run = Baton("sim measure " + Path("model") + " --threads 1");
  ASSERT_EQ(run.exit, 0) << run.err;
  const auto json = nlohmann::json::parse(run.out);
  EXPECT_EQ(json["threads"], 1);
  EXPECT_EQ(json["prefill"].size(), 4U);  // 16 to 128 tokens; 256 leave no room for an answer
  // Up to 14; on a busy machine the first sequences of a batch may be over before the last ones
  // come.
  EXPECT_GE(json["decode"].size(), 4U);
  for (const auto& step : json["decode"]) EXPECT_GT(step["ms"], 0);
  EXPECT_EQ(RunTool({"sim", "fit", File("steps", run.out)}).exit, 0);
  EXPECT_EQ(Baton("sim measure " + Path("absent")).exit, 3);
}

TEST_F(MeasuredPlanTest, PlansForThisMachine) {
  const ToolRun run = Baton("plan " + Path("model") +
                            " --hardware measured --concurrency 2 --input-tokens 32 "
                            "--output-tokens 16 --requests 20 --runs 1 --slo e2e=1h --json");
  ASSERT_EQ(run.exit, 0) << run.err;
  EXPECT_THAT(run.err, HasSubstr("measuring 1 worker of 1 thread"));
  const auto json = nlohmann::json::parse(run.out);
  EXPECT_EQ(json["hardware"], "measured");
  const auto& plan = json["plan"];
  EXPECT_TRUE(plan["keeps"]);
  EXPECT_EQ(plan["threads"], 1);
  EXPECT_GT(plan["step_cost_us"]["step"].get<double>() + plan["step_cost_us"]["row"].get<double>(),
            0);
  EXPECT_TRUE(plan["expected"]["joules_per_output_token"].is_null());
  EXPECT_THAT(json["serve"].get<std::string>(), HasSubstr("--kv-cache-memory"));
  EXPECT_THAT(json["bench"].get<std::string>(), HasSubstr("--concurrency 2"));
}

TEST_F(MeasuredPlanTest, RefusesAKvCacheThatDoesNotFitBeforeItMeasures) {
  ASSERT_EQ(RunTool({"model", "make-random", Path("narrow"), "--layers", "1", "--hidden", "64",
                     "--heads", "8", "--kv-heads", "2", "--head-dim", "8", "--ffn", "128",
                     "--vocab", "300", "--max-positions", "256"})
                .exit,
            0);
  const ToolRun run = Baton("plan " + Path("narrow") +
                            " --hardware measured --rate 1 --slo e2e=1h --kv-dtype int8");
  EXPECT_EQ(run.exit, 2) << run.out;
  EXPECT_THAT(run.err, AllOf(HasSubstr("heads of 8"), Not(HasSubstr("measuring"))));
}

TEST_F(MeasuredPlanTest, RefusesWhatOtherMachinesWouldNeed) {
  const ToolRun run =
      Baton("plan " + Path("model") + " --hardware measured --rate 1 --slo e2e=1h --max-devices 4");
  EXPECT_EQ(run.exit, 2);
  EXPECT_THAT(run.err, HasSubstr("--hardware FILE"));
  EXPECT_EQ(Baton("plan " + Path("model") +
                  " --hardware measured --rate 1 --slo e2e=1h --quantization fp8")
                .exit,
            2);
}

}  // namespace
}  // namespace baton
