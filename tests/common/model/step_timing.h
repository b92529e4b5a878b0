#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "kernels/machine_limits.h"
#include "nlohmann/json.hpp"
#include "tests/common/model/model_harness.h"

namespace baton::test {

// How long `work` takes by the clock.
double Seconds(const std::function<void()>& work);

// The CPU time that all threads of the process have taken so far: what a phase costs on a machine
// that others use too.
double CpuSeconds();

// Times the steps of a loaded model through its runner, for the program bench_model. Each method
// prints a line and adds its figures to `figures`.
class StepTiming final {
 public:
  StepTiming(LoadedModel& model, nlohmann::json* figures) : model_(model), figures_(*figures) {}

  // What the device can do at best; shares of it are printed from then on.
  void SetLimits(const kernels::MachineLimits& limits);
  // Times one step of `count` whole prompts.
  void Prefill(int32_t count, int32_t tokens);
  // Decode steps of `batch` sequences behind `context` tokens, as an engine launches them: on a
  // device that takes two steps, the host never waits for a token before it launches the next. The
  // seconds of a step.
  double Decode(int32_t batch, int32_t context);
  // What the EOS figures of `batch` rows cost on the CPU, as a share of a step of `step_seconds`:
  // greedy sampling with them, and without the pass over the logits that they need.
  void EosFigures(int32_t batch, double step_seconds);

 private:
  std::vector<TestSequence> Prompts(int32_t count, int32_t tokens) const;
  // Seconds per step, the median of a few.
  double SecondsPerStep(RunnerDriver& driver, const std::vector<TestSequence*>& sequences);
  // Bytes that a decode step reads at least: every projection, and K and V of the context.
  double DecodeBytes(int32_t batch, double context) const;

  LoadedModel& model_;
  nlohmann::json& figures_;
  kernels::MachineLimits limits_;
};

}  // namespace baton::test
