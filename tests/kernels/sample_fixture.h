#pragma once

#include <vector>

#include "kernels/sampling.h"
#include "tests/kernels/kernel_fixture.h"

namespace baton::kernels {

// Raw logits with a spread as trained models have it, coarse enough that ties occur.
inline std::vector<float> RandomLogits(size_t vocab, uint32_t seed, float spread = 3) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0, spread);
  std::vector<float> logits(vocab);
  for (float& x : logits) x = std::round(normal(random) * 64) / 64;
  return logits;
}

// Samples `rows` from copies of `logits`, one each.
inline std::vector<SampledToken> SampleAll(Backend& backend, const std::vector<float>& logits,
                                           const std::vector<SampleRow>& rows) {
  const auto vocab = static_cast<int64_t>(logits.size());
  TestMatrix matrix(DType::kF32, static_cast<int64_t>(rows.size()), vocab);
  for (size_t i = 0; i < rows.size(); ++i) {
    std::memcpy(matrix.view().row(static_cast<int64_t>(i)), logits.data(),
                logits.size() * sizeof(float));
  }
  std::vector<SampledToken> results(rows.size());
  backend.Sample(matrix.view(), rows, results);
  const absl::Status end = backend.EndStep();
  EXPECT_TRUE(end.ok()) << end;
  return results;
}

inline SampledToken SampleOne(Backend& backend, const std::vector<float>& logits,
                              const SampleRow& row) {
  return SampleAll(backend, logits, {row})[0];
}

// Every way to sample, the reference included.
inline std::vector<Way> SamplingWays() {
  std::vector<Way> ways = {{Device::kReference, "auto", DType::kF32}};
  for (const Way& way : CpuWays()) {
    if (way.dtype == DType::kF32) ways.push_back(way);
  }
  return ways;
}

}  // namespace baton::kernels
