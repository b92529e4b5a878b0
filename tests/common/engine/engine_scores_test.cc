// Scores of prompts: the same however a request ran. Each test asserts by a counter that its path
// was taken.
#include <gtest/gtest.h>

#include "tests/common/engine/harness.h"

namespace baton {
namespace {

constexpr int32_t kScoredPrompt = 37;  // tokens

SequenceSpec ScoredSpec(int32_t salt = 0, int32_t from = 1) {
  SequenceSpec spec = MakeSpec(kScoredPrompt, 6, salt);
  spec.sampling.num_top_logprobs = 2;
  spec.score_from = from;
  return spec;
}

// As a model scores that sees one history after the other.
void ExpectScores(const Seen& seen, const SequenceSpec& spec) {
  const FakeArena arena(1);
  const int32_t from = *spec.score_from;
  ASSERT_EQ(std::ssize(seen.scores), std::ssize(spec.prompt) - from);
  EXPECT_EQ(seen.first_scored, from);
  for (int32_t i = from; i < std::ssize(spec.prompt); ++i) {
    const auto at = static_cast<size_t>(i);
    const uint64_t hash = FakeHistoryHash(arena.kv().layout, std::span(spec.prompt).first(at));
    const TokenScore expected = FakeScore(hash, spec.prompt[at], spec.sampling.num_top_logprobs);
    const TokenScore& score = seen.scores[at - static_cast<size_t>(from)];
    ASSERT_EQ(score.logprob, expected.logprob) << i;
    ASSERT_EQ(score.top_logprobs.size(), 2u) << i;
  }
}

std::vector<TokenId> Unscored(int32_t salt = 0) {
  SequenceSpec spec = ScoredSpec(salt);
  spec.score_from.reset();
  EngineHarness harness(Defaults());
  return harness.Generate(spec);
}

const Seen& RunScored(EngineHarness* harness, const SequenceSpec& spec) {
  const SequenceId id = harness->Admit(spec);
  EXPECT_TRUE(harness->RunUntilOver(id));
  return harness->seen(id);
}

TEST(EngineScoresTest, EveryTokenButTheFirstHasOne) {
  auto options = Defaults();
  options.engine.max_num_seqs = 64;
  EngineHarness harness(options);
  const Seen& seen = RunScored(&harness, ScoredSpec());
  ExpectScores(seen, ScoredSpec());
  EXPECT_EQ(seen.tokens, Unscored());
  EXPECT_EQ(harness.figures().prefill_chunks, 0u);
}

TEST(EngineScoresTest, NoMoreAtOnceThanAStepHasRowsOfLogits) {
  for (const int32_t rows : {1, 3, 8}) {
    auto options = Defaults();
    options.engine.max_num_seqs = rows;
    EngineHarness harness(options);
    const Seen& seen = RunScored(&harness, ScoredSpec());
    ExpectScores(seen, ScoredSpec());
    EXPECT_EQ(seen.tokens, Unscored());
    const int32_t chunks = (kScoredPrompt + rows - 1) / rows;
    EXPECT_EQ(harness.figures().steps, static_cast<uint64_t>(chunks + 5)) << rows;
  }
}

TEST(EngineScoresTest, BesideOthers) {
  EngineHarness harness(Defaults());
  harness.control().Pause();
  std::vector<SequenceId> ids;
  for (int32_t i = 0; i < 12; ++i) {
    SequenceSpec spec = ScoredSpec(i);
    if (i % 3 == 0) spec.score_from.reset();
    ids.push_back(harness.Admit(spec));
  }
  harness.control().Resume();
  for (int32_t i = 0; i < 12; ++i) {
    const SequenceId id = ids[static_cast<size_t>(i)];
    ASSERT_TRUE(harness.RunUntilOver(id));
    EXPECT_EQ(harness.seen(id).tokens, Unscored(i)) << i;
    if (i % 3 != 0) ExpectScores(harness.seen(id), ScoredSpec(i));
  }
  EXPECT_GE(harness.figures().largest_batch, 3);
  EXPECT_TRUE(harness.AllBlocksBack());
}

TEST(EngineScoresTest, WhatIsCachedIsComputedAgainFromTheFirstScoreOn) {
  EngineHarness harness(Defaults());
  harness.Generate(MakeSpec(kScoredPrompt, 1));
  ExpectScores(RunScored(&harness, ScoredSpec()), ScoredSpec());
  EXPECT_EQ(harness.figures().prompt_tokens_cached, 0u);
  // The logits at position 22 score token 23; of the blocks of 4 before it five are whole.
  const Seen& rest = RunScored(&harness, ScoredSpec(0, 23));
  ExpectScores(rest, ScoredSpec(0, 23));
  EXPECT_EQ(rest.finished->cached_tokens, 20);
}

TEST(EngineScoresTest, PreemptedInMidPromptEachScoreComesOnce) {
  auto options = Defaults();
  options.num_blocks = 18;
  options.engine.max_num_seqs = 3;
  options.engine.enable_prefix_caching = false;
  EngineHarness harness(options);
  harness.control().Pause();
  SequenceSpec grows = MakeSpec(4, 60, 1);  // takes the blocks of the younger
  grows.stop.eos_policy = EosPolicy::kIgnoreContinue;
  const SequenceId a = harness.Admit(grows);
  const SequenceId b = harness.Admit(ScoredSpec(2));
  const SequenceId c = harness.Admit(ScoredSpec(3));
  harness.control().Resume();
  for (const SequenceId id : {a, b, c}) ASSERT_TRUE(harness.RunUntilOver(id));
  ExpectScores(harness.seen(b), ScoredSpec(2));
  ExpectScores(harness.seen(c), ScoredSpec(3));
  EXPECT_EQ(harness.seen(b).tokens, Unscored(2));
  EXPECT_TRUE(harness.AllBlocksBack());
}

TEST(EngineScoresTest, APrefillScoresAndAReservationDoesNot) {
  EngineHarness prefill(Defaults()), decode(Defaults());
  SequenceSpec spec = ScoredSpec();
  spec.kind = SequenceKind::kReserved;
  const SequenceId d = decode.Admit(spec);
  ASSERT_TRUE(decode.RunUntil([&] { return decode.seen(d).reserved.has_value(); }));
  spec.kind = SequenceKind::kPrefill;
  const Seen& first = RunScored(&prefill, spec);
  ExpectScores(first, spec);
  CopyBlocks(first, decode.seen(d));
  decode.engine().CommitImport(d, first.samples.at(0));
  ASSERT_TRUE(decode.RunUntilOver(d));
  EXPECT_TRUE(decode.seen(d).scores.empty());
  EXPECT_EQ(decode.seen(d).tokens.size(), 5u);
}

TEST(EngineScoresTest, AReplayGoesOnWithItsTokens) {
  const std::vector<TokenId> whole = Unscored();
  SequenceSpec spec = ScoredSpec(0, 30);
  spec.generated.assign(whole.begin(), whole.begin() + 2);
  EngineHarness harness(Defaults());
  const Seen& seen = RunScored(&harness, spec);
  ExpectScores(seen, spec);
  EXPECT_EQ(seen.tokens, std::vector<TokenId>(whole.begin() + 2, whole.end()));
}

TEST(EngineScoresTest, TheFirstTokenCannotBeScored) {
  EngineHarness harness(Defaults());
  EXPECT_EQ(harness.engine().Admit(ScoredSpec(0, 0)).status().code(),
            absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace baton
