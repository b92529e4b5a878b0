// An engine whose model computes what is no number: for one prompt, or for all.
#include <gtest/gtest.h>

#include "common/base/status.h"
#include "common/sched/draw_health.h"
#include "tests/common/engine/harness.h"

namespace baton {
namespace {

EngineHarness::Options Spoiling(std::function<bool(const kernels::SampleRow&)> spoils) {
  auto options = Defaults();
  options.model.spoils = std::move(spoils);
  return options;
}

TEST(EngineSpoiltTest, OnePromptAgainAndAgainStopsNothing) {
  const SequenceSpec poison = MakeSpec(10, 5, 3);
  EngineHarness harness(
      Spoiling([&](const kernels::SampleRow& row) { return row.prompt[0] == poison.prompt[0]; }));
  for (size_t i = 0; i < 3 * DrawHealth::kMostSpoilt; ++i) {
    const SequenceId id = harness.Admit(poison);
    ASSERT_TRUE(harness.RunUntilOver(id));
    EXPECT_EQ(ReasonOf(harness.seen(id).finished->status), Reason::kLogitsNotFinite);
  }
  const SequenceId other = harness.Admit(MakeSpec(10, 5, 4));
  ASSERT_TRUE(harness.RunUntilOver(other));
  EXPECT_EQ(harness.seen(other).tokens.size(), 5u);
  EXPECT_EQ(harness.figures().ends_not_finite, 3 * DrawHealth::kMostSpoilt);
  EXPECT_FALSE(harness.fault().has_value());
  EXPECT_TRUE(harness.AllBlocksBack());
}

// Everything that is asked for overflows, but what the engine asks itself does not.
TEST(EngineSpoiltTest, ManyPromptsWithNothingBetweenThemStopNoDeviceThatIsWell) {
  for (const bool overlap : {false, true}) {
    EngineHarness::Options options =
        Spoiling([](const kernels::SampleRow& row) { return row.prompt.size() == 10; });
    options.engine.overlap = overlap;
    options.engine.max_num_queued_reqs = 1;
    EngineHarness harness(options);
    constexpr size_t kPrompts = 5 * DrawHealth::kMostSpoilt;
    for (size_t i = 0; i < kPrompts; ++i) {
      SequenceSpec spec = MakeSpec(10, 5);
      spec.prompt[0] = static_cast<TokenId>(i);
      const SequenceId id = harness.Admit(spec);
      ASSERT_TRUE(harness.RunUntilOver(id));
      EXPECT_EQ(ReasonOf(harness.seen(id).finished->status), Reason::kLogitsNotFinite);
    }
    EXPECT_TRUE(harness.AllBlocksBack());
    EXPECT_FALSE(harness.fault().has_value());
    EXPECT_EQ(harness.sequences_seen(), kPrompts);
    EXPECT_EQ(harness.figures().ends_not_finite, kPrompts);
    EXPECT_GE(harness.figures().generated_tokens, 4u);  // of the tests
    EXPECT_EQ(harness.Generate(MakeSpec(11, 5)).size(), 5u);
  }
}

TEST(EngineSpoiltTest, ManyPromptsWithNothingBetweenThemAreADeviceFault) {
  EngineHarness harness(Spoiling([](const kernels::SampleRow&) { return true; }));
  std::vector<SequenceId> ids;
  for (size_t i = 0; i < DrawHealth::kMostSpoilt; ++i) {
    EXPECT_FALSE(harness.fault().has_value());
    SequenceSpec spec = MakeSpec(10, 5);
    spec.prompt[0] = static_cast<TokenId>(i);
    ids.push_back(harness.Admit(spec));
    ASSERT_TRUE(harness.RunUntilOver(ids.back()));
  }
  ASSERT_TRUE(harness.RunUntil([&] { return harness.fault().has_value(); }));
  EXPECT_EQ(ReasonOf(*harness.fault()), Reason::kDeviceFault);
  EXPECT_NE(harness.fault()->message().find("not finite"), absl::string_view::npos);
  for (const SequenceId id : ids) {
    EXPECT_EQ(ReasonOf(harness.seen(id).finished->status), Reason::kLogitsNotFinite);
  }
}

}  // namespace
}  // namespace baton
