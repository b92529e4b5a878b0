// The sampling kernels, run thread by thread on the host.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>

#include "kernels/cuda/cta/sample_draw.h"
#include "tests/kernels/cuda/sample/emulated_sampler.h"
#include "tests/kernels/cuda/sample/sampling_suite.h"

namespace baton::kernels::cuda {

INSTANTIATE_TYPED_TEST_SUITE_P(Emulated, SamplingSuite, EmulatedSampler);

namespace {

std::vector<SampledToken> Emulate(std::span<const float> logits, std::span<const SampleRow> rows,
                                  HostCta::Order order = HostCta::Order::kForward) {
  EmulatedSampler sampler({.vocab = static_cast<int32_t>(logits.size() / rows.size()),
                           .rows = static_cast<int32_t>(rows.size())},
                          order);
  return sampler.Sample(logits, rows);
}

// A phase whose threads depend on each other would show here.
TEST(SamplingEmulatedTest, TheOrderOfThreadsDoesNotMatter) {
  const RandomRows random(40, 5003, 12);
  const std::vector<float> logits = Repeated(Logits(5003, 78, 3), 40);
  const auto forward = Emulate(logits, random.rows());
  for (const auto order : {HostCta::Order::kBackward, HostCta::Order::kShuffled}) {
    const auto other = Emulate(logits, random.rows(), order);
    for (size_t i = 0; i < forward.size(); ++i) {
      ASSERT_EQ(other[i].token, forward[i].token);
      ASSERT_EQ(other[i].logprob, forward[i].logprob);
      ASSERT_EQ(other[i].eos.entropy, forward[i].eos.entropy);
      ASSERT_EQ(other[i].eos.eos_prob_sampling, forward[i].eos.eos_prob_sampling);
      ASSERT_EQ(other[i].top_logprobs.size(), forward[i].top_logprobs.size());
    }
  }
}

// The draw in tiles must give way where its rounding could choose another id than the plain loop.
TEST(SamplingEmulatedTest, ACoinAtABoundaryFallsAsThePlainLoopSays) {
  for (const int vocab : {3, 2048, 10007}) {
    // So far apart that a double cannot hold the sums exactly.
    const std::vector<float> logits = Logits(vocab, 21, 9);
    RowView view;
    view.logits = logits.data();
    view.vocab = vocab;
    view.highest = *std::max_element(logits.begin(), logits.end());
    const auto shared = std::make_unique<DrawShared>();
    HostCta cta(kDrawThreads);
    double total = 0;
    std::vector<double> running;
    for (int id = 0; id < vocab; ++id) running.push_back(total += view.Weight(id));
    std::mt19937 random(4);
    for (int i = 0; i < 30; ++i) {
      const int id = static_cast<int>(random() % static_cast<uint32_t>(vocab));
      for (double coin : {running[id] / total, std::nextafter(running[id] / total, 0.0),
                          std::nextafter(running[id] / total, 2.0)}) {
        coin = std::min(coin, 1 - 0x1.0p-53);
        const auto past = std::upper_bound(running.begin(), running.end(), coin * total);
        const auto expected = std::min<int64_t>(past - running.begin(), vocab - 1);
        const Drawn drawn = TossCoin(cta, view, coin, *shared);
        ASSERT_EQ(drawn.token, expected) << "vocab " << vocab << " id " << id;
        ASSERT_EQ(drawn.total, total) << "the plain sum";
      }
    }
  }
}

}  // namespace
}  // namespace baton::kernels::cuda
