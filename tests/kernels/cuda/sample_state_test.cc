// What stays on the device between steps: last tokens and penalty counts.
#include <gtest/gtest.h>

#include <random>

#include "kernels/reference/sample.h"
#include "tests/kernels/cuda/emulated_sampler.h"

namespace baton::kernels::cuda {
namespace {

constexpr int32_t kVocab = 300;

std::vector<float> StepLogits(uint32_t step, size_t rows) {
  std::mt19937 random(step);
  std::normal_distribution<float> normal(0, 2);
  std::vector<float> logits(rows * kVocab);
  for (float& x : logits) x = normal(random);
  return logits;
}

struct Sequence {
  std::vector<int32_t> prompt;
  std::vector<int32_t> output;
  SampleRow row;

  SampleRow Row() const {
    SampleRow full = row;
    full.prompt = prompt;
    full.output = output;
    return full;
  }
  // The row of the step after one whose token the host has not seen.
  SampleRow PendingRow() const {
    SampleRow full = Row();
    full.output = full.output.first(full.output.size() - 1);
    full.pending_output = true;
    return full;
  }
};

Sequence NewSequence(int32_t slot, uint64_t seed) {
  Sequence sequence;
  for (int i = 0; i < 20; ++i) sequence.prompt.push_back(static_cast<int32_t>(seed * 7 + i) % 40);
  sequence.row = {.temperature = 0.9f,
                  .top_k = 12,
                  .repetition_penalty = 1.4f,
                  .presence_penalty = 0.3f,
                  .frequency_penalty = 0.8f,
                  .slot = slot,
                  .seed = seed};
  return sequence;
}

int32_t ReferenceToken(std::span<const float> logits, const SampleRow& row) {
  SampleProcessors processors;
  SampledToken token;
  EXPECT_TRUE(reference::SampleRowInto(row, logits, processors, token));
  return token.token;
}

class SampleStateTest : public testing::Test {
 protected:
  // Samples one step of `sequences` and checks every token; `row_of` makes the rows.
  template <typename RowOf>
  void Step(std::vector<Sequence*> sequences, RowOf row_of) {
    std::vector<SampleRow> rows;
    for (const Sequence* s : sequences) rows.push_back(row_of(*s));
    const std::vector<float> logits = StepLogits(++step_, rows.size());
    const auto tokens = sampler_.Sample(logits, rows);
    ASSERT_EQ(tokens.size(), rows.size());
    for (size_t i = 0; i < rows.size(); ++i) {
      const int32_t expected =
          ReferenceToken(std::span(logits).subspan(i * kVocab, kVocab), sequences[i]->Row());
      ASSERT_EQ(tokens[i].token, expected) << "step " << step_ << " row " << i;
      if (rows[i].slot >= 0) {
        ASSERT_EQ(sampler_.last_token(rows[i].slot), expected);
      }
      sequences[i]->output.push_back(expected);
    }
  }
  static SampleRow Known(const Sequence& s) { return s.Row(); }
  static SampleRow Pending(const Sequence& s) { return s.PendingRow(); }

  EmulatedSampler sampler_{{.vocab = kVocab, .rows = 4, .slots = 6, .list_capacity = 90},
                           HostCta::Order::kShuffled};
  uint32_t step_ = 0;
};

TEST_F(SampleStateTest, CountsAreBuiltOnceAndThenKeptByTheDevice) {
  Sequence a = NewSequence(5, 1);
  Sequence b = NewSequence(0, 2);
  for (int i = 0; i < 30; ++i) {
    Step({&a, &b}, Known);
    if (HasFatalFailure()) return;
  }
  EXPECT_EQ(sampler_.resets(), 2);
  for (const int32_t id : a.output) EXPECT_GE(sampler_.counts(5)[id], 3u);
  for (const int32_t id : a.prompt) EXPECT_EQ(sampler_.counts(5)[id] & 1, 1u);
}

TEST_F(SampleStateTest, TheLastTokenIsReadOnTheDevice) {
  Sequence a = NewSequence(3, 1);
  Sequence b = NewSequence(2, 2);
  sampler_.set_overlap(true);
  Step({&a, &b}, Known);
  for (int i = 0; i < 20; ++i) {
    Step({&b, &a}, Pending);
    if (HasFatalFailure()) return;
  }
  EXPECT_EQ(sampler_.resets(), 2);
}

TEST_F(SampleStateTest, ATokenThatArrivedAfterTheRowWasMadeIsTheSame) {
  Sequence a = NewSequence(3, 1);
  Step({&a}, Known);
  for (int i = 0; i < 5; ++i) {
    Step({&a}, Pending);
    if (HasFatalFailure()) return;
  }
  EXPECT_EQ(sampler_.resets(), 1);
}

TEST_F(SampleStateTest, AnEntryIsFilledWhileTheLastTokenIsPending) {
  Sequence a = NewSequence(3, 1);
  a.row.repetition_penalty = 1;
  a.row.presence_penalty = a.row.frequency_penalty = 0;
  sampler_.set_overlap(true);
  Step({&a}, Known);  // no penalties yet: nothing is counted
  a.row.repetition_penalty = 1.4f;
  a.row.frequency_penalty = 2;
  for (int i = 0; i < 5; ++i) {
    Step({&a}, Pending);
    if (HasFatalFailure()) return;
  }
  EXPECT_EQ(sampler_.resets(), 1);
}

TEST_F(SampleStateTest, ASlotThatChangesHandsIsCountedAnew) {
  Sequence a = NewSequence(1, 1);
  for (int i = 0; i < 5; ++i) Step({&a}, Known);
  Sequence b = NewSequence(1, 2);
  b.output = a.output;  // as long as the other's, so only the ids tell
  for (int i = 0; i < 5; ++i) Step({&b}, Known);
  a.output.resize(3);  // replayed from an earlier token
  Step({&a}, Known);
  if (HasFatalFailure()) return;
  EXPECT_EQ(sampler_.resets(), 3);
}

TEST_F(SampleStateTest, RowsWithoutASlotNeedNoState) {
  Sequence a = NewSequence(-1, 1);
  Sequence b = NewSequence(-1, 2);
  Sequence c = NewSequence(5, 3);
  for (int i = 0; i < 6; ++i) Step({&a, &c, &b}, Known);
  if (HasFatalFailure()) return;
  EXPECT_EQ(sampler_.resets(), 13) << "the slot's counts were left alone";
}

TEST_F(SampleStateTest, RowsThatDoNotFitTogetherAreLaunchedInTurn) {
  std::vector<Sequence> all;
  for (int32_t slot = 0; slot < 4; ++slot) all.push_back(NewSequence(slot, 10 + slot));
  for (Sequence& s : all) s.prompt.resize(45, 3);  // two histories fill the lists
  Step({&all[0], &all[1], &all[2], &all[3]}, Known);
  Step({&all[0], &all[1], &all[2], &all[3]}, Known);
}

TEST(SamplePackerTest, RefusesWhatNoKernelCanSample) {
  const SamplerLimits limits{.vocab = 10, .rows = 2, .slots = 1, .list_capacity = 8};
  SamplePacker packer(limits);
  std::vector<SampleParams> params(2);
  std::vector<int32_t> lists(8);
  std::vector<SamplePacker::Drawing> drawings(2);
  const auto code = [&](const SampleRow& row) {
    return packer.Pack({&row, 1}, 0, params, lists, drawings).status().code();
  };
  const std::vector<int32_t> history(9, 1);
  EXPECT_EQ(code({}), absl::StatusCode::kOk);
  EXPECT_EQ(code({.slot = 1}), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(code({.num_top_logprobs = 21}), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(code({.no_repeat_ngram_size = 2, .pending_output = true, .slot = 0}),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(code({.repetition_penalty = 2, .prompt = history}),
            absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(code({.repetition_penalty = 2, .prompt = std::span(history).first(8)}),
            absl::StatusCode::kOk);
  EXPECT_FALSE((SamplerLimits{.vocab = 0, .rows = 1}).Check().ok());
  EXPECT_FALSE((SamplerLimits{.vocab = kMaxVocab + 1, .rows = 1}).Check().ok());
}

}  // namespace
}  // namespace baton::kernels::cuda
