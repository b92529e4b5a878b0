#pragma once

#include <algorithm>
#include <cstdint>
#include <random>
#include <span>
#include <utility>
#include <vector>

#include "kernels/sampling.h"

namespace baton::kernels {

// Random requests over one vocabulary; owns what the rows point to.
class RandomRows {
 public:
  RandomRows(size_t count, int vocab, uint32_t seed) : random_(seed), vocab_(vocab) {
    histories_.reserve(3 * count);
    biases_.reserve(count);
    masks_.reserve(count);
    ids_.reserve(count);
    for (size_t i = 0; i < count; ++i) rows_.push_back(Next());
  }
  const std::vector<SampleRow>& rows() const { return rows_; }

 private:
  int Uniform(int limit) { return static_cast<int>(random_() % static_cast<uint32_t>(limit)); }
  bool Chance(int percent) { return Uniform(100) < percent; }
  std::span<const int32_t> History(int length) {
    std::vector<int32_t>& ids = histories_.emplace_back();
    for (int i = 0; i < length; ++i) ids.push_back(Uniform(std::min(vocab_, 50)));
    return ids;
  }

  SampleRow Next() {
    SampleRow row;
    row.temperature = Chance(20) ? 0 : 0.2f + static_cast<float>(Uniform(20)) * 0.1f;
    if (Chance(50)) row.top_k = 1 + Uniform(Chance(50) ? 50 : 2 * vocab_);
    if (Chance(50)) row.top_p = 0.05f + static_cast<float>(Uniform(95)) * 0.01f;
    if (Chance(30)) row.min_p = static_cast<float>(Uniform(50)) * 0.01f;
    if (Chance(40)) row.repetition_penalty = 0.7f + static_cast<float>(Uniform(10)) * 0.1f;
    if (Chance(30)) row.presence_penalty = static_cast<float>(Uniform(40)) * 0.1f - 2;
    if (Chance(30)) row.frequency_penalty = static_cast<float>(Uniform(40)) * 0.1f - 2;
    if (Chance(30)) row.banned_ids = History(1 + Uniform(60));
    row.prompt = History(Uniform(60));
    row.output = History(Uniform(60));
    if (Chance(30)) {
      auto& bias = biases_.emplace_back();
      for (int i = 0; i < 5; ++i) bias.emplace_back(Uniform(vocab_), Uniform(20) - 10);
      row.logit_bias = bias;
    }
    auto& ids = ids_.emplace_back();
    for (int i = 0; i < 1 + Uniform(vocab_ / 4 + 1); ++i) ids.push_back(Uniform(vocab_));
    std::sort(ids.begin(), ids.end());
    ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
    row.stop_ids = ids;
    row.eos_ids =
        row.stop_ids.first(1 + static_cast<size_t>(Uniform(static_cast<int>(ids.size()))));
    if (Chance(30)) row.eos_bias = static_cast<float>(Uniform(400)) * 0.1f - 20;
    row.mask_stop_ids = Chance(15);
    row.redraw_eos = Chance(30);
    // Guides do not go together with policies that ignore EOS.
    if (!row.redraw_eos && Chance(30)) {
      auto& mask = masks_.emplace_back();
      for (int i = 0; i < (vocab_ + 31) / 32; ++i) {
        mask.push_back(Chance(30) ? 0 : static_cast<uint32_t>(random_() & random_()));
      }
      mask[0] |= 1;
      row.allowed = mask;
    }
    row.seed = random_();
    row.num_top_logprobs = Chance(20) ? Uniform(20) : 0;
    return row;
  }

  std::mt19937 random_;
  int vocab_;
  std::vector<std::vector<int32_t>> histories_;
  std::vector<std::vector<std::pair<int32_t, float>>> biases_;
  std::vector<std::vector<uint32_t>> masks_;
  std::vector<std::vector<int32_t>> ids_;
  std::vector<SampleRow> rows_;
};

}  // namespace baton::kernels
