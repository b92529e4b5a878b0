#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "kernels/cuda/device/runtime.h"
#include "kernels/cuda/sample/sampler.h"

namespace baton::kernels::cuda {

// CudaSampler with the logits on the host, for the suites.
class GpuSampler {
 public:
  explicit GpuSampler(const SamplerLimits& limits) : limits_(limits) {
    const auto device = OpenDevice(0);
    EXPECT_TRUE(device.ok()) << device.status();
    auto stream = Stream::Create();
    EXPECT_TRUE(stream.ok()) << stream.status();
    if (!stream.ok()) return;
    stream_ = std::make_unique<Stream>(*std::move(stream));
    auto sampler = CudaSampler::Create(limits, stream_->handle());
    EXPECT_TRUE(sampler.ok()) << sampler.status();
    auto logits = DeviceMemory::Allocate(sizeof(float) * static_cast<size_t>(limits.vocab) *
                                         static_cast<size_t>(limits.rows));
    EXPECT_TRUE(logits.ok()) << logits.status();
    if (!sampler.ok() || !logits.ok()) return;
    sampler_ = *std::move(sampler);
    logits_ = *std::move(logits);
  }

  // The next step is staged before the tokens of the last are collected.
  void set_overlap(bool overlap) { overlap_ = overlap; }

  std::vector<SampledToken> Sample(std::span<const float> logits, std::span<const SampleRow> rows) {
    if (sampler_ == nullptr) return std::vector<SampledToken>(rows.size());
    const Matrix matrix = Matrix::Dense(logits_->data(), DType::kF32,
                                        static_cast<int64_t>(rows.size()), limits_.vocab);
    Expect(CopyToDevice(logits_->data(), logits.data(), logits.size_bytes(), stream_->handle()));
    Expect(sampler_->Stage(rows));
    if (waiting_ > 0) Collect();
    Expect(sampler_->Launch(matrix));
    Expect(sampler_->Finish(matrix));
    waiting_ = rows.size();
    Expect(stream_->Synchronize());
    std::vector<SampledToken> tokens(rows.size());
    if (!overlap_) return Collect();
    // Only the tokens, from the slots: the results are collected after the next step was staged.
    for (size_t i = 0; i < rows.size(); ++i) tokens[i].token = last_token(rows[i].slot);
    return tokens;
  }

  int32_t last_token(int32_t slot) const {
    int32_t token = -1;
    if (sampler_ == nullptr) return token;
    Expect(CopyToHost(&token, sampler_->last_tokens() + slot, sizeof(token), stream_->handle()));
    Expect(stream_->Synchronize());
    return token;
  }

 private:
  static void Expect(const absl::Status& status) { EXPECT_TRUE(status.ok()) << status; }

  std::vector<SampledToken> Collect() {
    std::vector<SampledToken> tokens(std::exchange(waiting_, 0));
    Expect(sampler_->Collect(tokens));
    return tokens;
  }

  SamplerLimits limits_;
  std::unique_ptr<Stream> stream_;
  std::unique_ptr<CudaSampler> sampler_;
  std::unique_ptr<DeviceMemory> logits_;
  size_t waiting_ = 0;
  bool overlap_ = false;
};

}  // namespace baton::kernels::cuda
