// Predictor files: what is accepted can be evaluated on any row, and gives chances. The input is
// the body, which is sealed here: no fuzzer finds a checksum.
#include <cmath>
#include <limits>
#include <string>

#include "common/eos/predict/predictor_file.h"
#include "common/eos/predict/sealed_json.h"
#include "tests/fuzz/fuzz_target.h"

namespace baton::fuzz {
namespace {

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

void CheckEstimate(const EndChances& chances, double tail_mean) {
  double before = 0;
  for (const double chance : chances) {
    BATON_CHECK(chance >= before - 1e-12 && chance <= 1) << chance << " behind " << before;
    before = chance;
  }
  const EndEstimate estimate = EstimateOf(chances, tail_mean, 1, PredictorKind::kSum);
  BATON_CHECK(estimate.expected_remaining >= 0.99f) << estimate.expected_remaining;
  BATON_CHECK(estimate.p50 >= 1 && estimate.p90 >= estimate.p50) << estimate.p90;
}

}  // namespace

FUZZ_TARGET(predictor) {
  Accepted(ParsePredictorFile(input).status());
  const auto file = ParsePredictorFile(SealJson(kPredictorFormat, kPredictorVersion, input));
  if (!Accepted(file.status())) return;
  SignalFeatures features({.prompt_tokens = 7, .temperature = 1, .length_class = "story"});
  std::vector<double> state(file->model->state_size());
  for (const SignalRow& row :
       {SignalRow{.eos_logprob = -3, .eos_prob_sampling = 0.1, .entropy = 2, .token = 5},
        SignalRow{.eos_logprob = kNone,
        .eos_prob_sampling = 1,
        .entropy = kNone,
        .token = 5,
        .ends_line = true}}) {
    features.Add(row);
    const auto chances = file->Step({features, "story"}, state);
    if (chances) CheckEstimate(*chances, file->tail_mean);
  }
}

}  // namespace baton::fuzz
