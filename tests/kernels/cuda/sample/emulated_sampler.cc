#include "tests/kernels/cuda/sample/emulated_sampler.h"

#include <gtest/gtest.h>

#include "kernels/cuda/cta/sample_counts.h"
#include "kernels/cuda/cta/sample_draw.h"
#include "kernels/cuda/cta/sample_results.h"
#include "kernels/cuda/cta/sample_survey.h"

namespace baton::kernels::cuda {

EmulatedSampler::EmulatedSampler(const SamplerLimits& limits, HostCta::Order order)
    : limits_(limits),
      order_(order),
      packer_(limits),
      params_(static_cast<size_t>(limits.rows)),
      lists_(static_cast<size_t>(limits.list_capacity)),
      // Garbage on purpose: nothing may rely on fresh memory.
      counts_(static_cast<size_t>(limits.entries()) * limits.vocab, 0xabcdabcd),
      last_tokens_(static_cast<size_t>(limits.slots), -7),
      processed_(static_cast<size_t>(limits.rows) * limits.vocab, 3e38f),
      partials_(static_cast<size_t>(limits.rows) * NumTiles(limits.vocab)),
      results_(static_cast<size_t>(limits.rows)),
      top_logprobs_(static_cast<size_t>(limits.rows) * limits.max_top_logprobs) {
  EXPECT_TRUE(limits.Check().ok()) << limits.Check();
}

void EmulatedSampler::Launch(std::span<const float> logits, int32_t rows) {
  SampleLaunch launch{.logits = logits.data(),
                      .stride = limits_.vocab,
                      .rows = rows,
                      .vocab = limits_.vocab,
                      .params = params_.data(),
                      .lists = lists_.data(),
                      .counts = counts_.data(),
                      .last_tokens = last_tokens_.data(),
                      .processed = processed_.data(),
                      .partials = partials_.data(),
                      .results = results_.data(),
                      .top_logprobs = top_logprobs_.data(),
                      .max_top_logprobs = limits_.max_top_logprobs};
  HostCta survey(kSurveyThreads, order_);
  HostCta draw(kDrawThreads, order_);
  const auto survey_shared = std::make_unique<SurveyShared>();
  const auto draw_shared = std::make_unique<DrawShared>();
  for (int32_t row = 0; row < rows; ++row) {
    for (int32_t tile = 0; tile < NumTiles(launch.vocab); ++tile) {
      SurveyTile(survey, launch, row, tile, *survey_shared);
    }
  }
  for (int32_t row = 0; row < rows; ++row) FinishRow(draw, launch, row, *draw_shared);
}

void EmulatedSampler::SeeTokens() {
  for (size_t i = 0; i < drawings_.size(); ++i) packer_.Seen(drawings_[i], results_[i].token);
  drawings_.clear();
}

std::vector<SampledToken> EmulatedSampler::Sample(std::span<const float> logits,
                                                  std::span<const SampleRow> rows) {
  std::vector<SamplePacker::Drawing> drawings(rows.size());
  const auto count = static_cast<int32_t>(rows.size());
  for (int32_t first = 0; first < count;) {
    const auto packed = packer_.Pack(rows, first, params_, lists_, drawings);
    EXPECT_TRUE(packed.ok()) << packed.status();
    if (!packed.ok()) return {};
    for (const CountsReset& reset : packed->resets) {
      uint32_t* const entry = counts_.data() + static_cast<size_t>(reset.entry) * limits_.vocab;
      if (reset.append == 0) {
        ++resets_;
        for (int32_t id = 0; id < limits_.vocab; ++id) entry[id] = 0;
      }
      for (int32_t i = CountedIds(reset) - 1; i >= 0; --i) {
        CountId(reset, i, lists_.data(), last_tokens_.data(), limits_.vocab, entry);
      }
    }
    SeeTokens();
    Launch(logits, count);
    first = packed->end;
  }
  std::vector<SampledToken> tokens(rows.size());
  for (size_t i = 0; i < rows.size(); ++i) {
    const size_t top = i * static_cast<size_t>(limits_.max_top_logprobs);
    FillSampledToken(results_[i], top_logprobs_.data() + top, &tokens[i]);
  }
  drawings_ = drawings;
  if (!overlap_) SeeTokens();
  return tokens;
}

}  // namespace baton::kernels::cuda
