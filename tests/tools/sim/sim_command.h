#pragma once

#include <gtest/gtest.h>

#include <fstream>
#include <string>

#include "nlohmann/json.hpp"
#include "tests/tools/eos/log_files.h"
#include "tests/tools/run_tool.h"
#include "tools/sim/step_cost.h"

namespace baton {

// `baton sim` with files of the test's own.
class SimCommandTest : public LogFilesTest {
 protected:
  ToolRun Sim(Arguments arguments) const {
    const Arguments front = {"sim", "--step-cost", cost_};
    arguments.insert(arguments.begin(), front.begin(), front.end());
    return RunTool(arguments);
  }
  nlohmann::json Json(Arguments arguments) const {
    arguments.push_back("--json");
    const ToolRun run = Sim(arguments);
    EXPECT_EQ(run.exit, 0) << run.err;
    return nlohmann::json::parse(run.out, nullptr, false);
  }

  const std::string cost_ = File(
      "cost.json", simulator::CostJson({.step = 1000, .row = 50, .prompt_token = 10}, "a test"));
};

// A predictor file of that name among the vectors.
inline std::string PredictorNamed(const std::string& name) {
  std::ifstream in(BATON_SOURCE_DIR "/tests/common/eos/predict/vectors/" + name + ".json");
  return nlohmann::json::parse(in).at("predictor").get<std::string>();
}

}  // namespace baton
