#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <random>
#include <span>
#include <vector>

#include "kernels/cuda/sample/sample_packer.h"
#include "kernels/reference/sample.h"

// What stays on the device between steps: last tokens and penalty counts. A Sampler is as for
// SamplingSuite, and has set_overlap and last_token(slot).
namespace baton::kernels::cuda {

inline constexpr int32_t kVocab = 300;

inline std::vector<float> StepLogits(uint32_t step, size_t rows) {
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

inline Sequence NewSequence(int32_t slot, uint64_t seed) {
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

inline int32_t ReferenceToken(std::span<const float> logits, const SampleRow& row) {
  SampleProcessors processors;
  SampledToken token;
  reference::SampleRowInto(row, logits, processors, token);
  EXPECT_TRUE(token.valid);
  return token.token;
}

template <typename Sampler>
class SampleStateSuite : public testing::Test {
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

  // Counts are filled from a history as seldom as this.
  void ExpectResets(int expected) {
    if constexpr (requires(Sampler sampler) { sampler.resets(); }) {
      EXPECT_EQ(sampler_.resets(), expected);
    }
  }

  Sampler sampler_{{.vocab = kVocab, .rows = 4, .slots = 6, .list_capacity = 90}};
  uint32_t step_ = 0;
};

TYPED_TEST_SUITE_P(SampleStateSuite);

TYPED_TEST_P(SampleStateSuite, CountsAreBuiltOnceAndThenKeptByTheDevice) {
  Sequence a = NewSequence(5, 1);
  Sequence b = NewSequence(0, 2);
  for (int i = 0; i < 30; ++i) {
    this->Step({&a, &b}, this->Known);
    if (testing::Test::HasFatalFailure()) return;
  }
  this->ExpectResets(2);
}

TYPED_TEST_P(SampleStateSuite, TheLastTokenIsReadOnTheDevice) {
  Sequence a = NewSequence(3, 1);
  Sequence b = NewSequence(2, 2);
  this->sampler_.set_overlap(true);
  this->Step({&a, &b}, this->Known);
  for (int i = 0; i < 20; ++i) {
    this->Step({&b, &a}, this->Pending);
    if (testing::Test::HasFatalFailure()) return;
  }
  this->ExpectResets(2);
}

TYPED_TEST_P(SampleStateSuite, ATokenThatArrivedAfterTheRowWasMadeIsTheSame) {
  Sequence a = NewSequence(3, 1);
  this->Step({&a}, this->Known);
  for (int i = 0; i < 5; ++i) {
    this->Step({&a}, this->Pending);
    if (testing::Test::HasFatalFailure()) return;
  }
  this->ExpectResets(1);
}

TYPED_TEST_P(SampleStateSuite, AnEntryIsFilledWhileTheLastTokenIsPending) {
  Sequence a = NewSequence(3, 1);
  a.row.repetition_penalty = 1;
  a.row.presence_penalty = a.row.frequency_penalty = 0;
  this->sampler_.set_overlap(true);
  this->Step({&a}, this->Known);  // no penalties yet: nothing is counted
  a.row.repetition_penalty = 1.4f;
  a.row.frequency_penalty = 2;
  for (int i = 0; i < 5; ++i) {
    this->Step({&a}, this->Pending);
    if (testing::Test::HasFatalFailure()) return;
  }
  this->ExpectResets(1);
}

TYPED_TEST_P(SampleStateSuite, ASlotThatChangesHandsIsCountedAnew) {
  Sequence a = NewSequence(1, 1);
  for (int i = 0; i < 5; ++i) this->Step({&a}, this->Known);
  Sequence b = NewSequence(1, 2);
  b.output = a.output;  // as long as the other's, so only the ids tell
  for (int i = 0; i < 5; ++i) this->Step({&b}, this->Known);
  a.output.resize(3);  // replayed from an earlier token
  this->Step({&a}, this->Known);
  if (testing::Test::HasFatalFailure()) return;
  this->ExpectResets(3);
}

TYPED_TEST_P(SampleStateSuite, RowsWithoutASlotNeedNoState) {
  Sequence a = NewSequence(-1, 1);
  Sequence b = NewSequence(-1, 2);
  Sequence c = NewSequence(5, 3);
  for (int i = 0; i < 6; ++i) this->Step({&a, &c, &b}, this->Known);
  if (testing::Test::HasFatalFailure()) return;
  this->ExpectResets(13);
}

TYPED_TEST_P(SampleStateSuite, MoreSequencesThanEntriesTakeTurns) {
  this->sampler_.set_overlap(true);
  std::vector<Sequence> all;
  for (int32_t slot = 0; slot < 6; ++slot) all.push_back(NewSequence(slot, 10 + slot));
  for (int i = 0; i < 4; ++i) {
    this->Step({&all[0], &all[1], &all[2]}, this->Known);
    this->Step({&all[0], &all[1], &all[2]}, this->Pending);
    this->Step({&all[3], &all[4], &all[5]}, this->Known);
    this->Step({&all[5], &all[4]}, this->Pending);
    if (testing::Test::HasFatalFailure()) return;
  }
}

TYPED_TEST_P(SampleStateSuite, RowsThatDoNotFitTogetherAreLaunchedInTurn) {
  std::vector<Sequence> all;
  for (int32_t slot = 0; slot < 4; ++slot) all.push_back(NewSequence(slot, 10 + slot));
  for (Sequence& s : all) s.prompt.resize(45, 3);  // two histories fill the lists
  this->Step({&all[0], &all[1], &all[2], &all[3]}, this->Known);
  this->Step({&all[0], &all[1], &all[2], &all[3]}, this->Known);
}

// A sequence that draws behind ids that may turn out wrong. Those that do leave no trace.
TYPED_TEST_P(SampleStateSuite, SeveralDrawsOfASequenceEachHaveTheirOwnHistory) {
  Sequence a = NewSequence(2, 1);
  this->Step({&a}, this->Known);
  for (uint32_t round = 0; round < 12; ++round) {
    const int32_t last = this->sampler_.last_token(2);
    const std::vector<float> logits = StepLogits(1000 + round, 4);
    const auto of_row = [&](size_t i) { return std::span(logits).subspan(i * kVocab, kVocab); };
    const size_t right = round % 4;  // so many of the given ids are what is drawn there
    std::vector<int32_t> given, expected;
    for (size_t i = 0; i < 4; ++i) {
      SampleRow row = a.Row();
      row.given = given;
      expected.push_back(ReferenceToken(of_row(i), row));
      given.push_back(i < right ? expected.back() : (expected.back() + 1) % 7);
    }
    std::vector<SampleRow> rows(4, a.Row());
    for (size_t i = 0; i < 4; ++i) {
      rows[i].given = std::span(given).first(i);
      rows[i].one_of_several = true;
    }
    const auto tokens = this->sampler_.Sample(logits, rows);
    ASSERT_EQ(tokens.size(), 4u);
    for (size_t i = 0; i < 4; ++i) ASSERT_EQ(tokens[i].token, expected[i]) << round << ' ' << i;
    ASSERT_EQ(this->sampler_.last_token(2), last);
    a.output.insert(a.output.end(), expected.begin(),
                    expected.begin() + std::ssize(expected) - 3 + static_cast<ptrdiff_t>(right));
    if (round % 3 == 0) this->Step({&a}, this->Known);
    if (testing::Test::HasFatalFailure()) return;
  }
  this->ExpectResets(1);
}

REGISTER_TYPED_TEST_SUITE_P(SampleStateSuite, CountsAreBuiltOnceAndThenKeptByTheDevice,
                            TheLastTokenIsReadOnTheDevice,
                            ATokenThatArrivedAfterTheRowWasMadeIsTheSame,
                            AnEntryIsFilledWhileTheLastTokenIsPending,
                            ASlotThatChangesHandsIsCountedAnew, RowsWithoutASlotNeedNoState,
                            MoreSequencesThanEntriesTakeTurns,
                            RowsThatDoNotFitTogetherAreLaunchedInTurn,
                            SeveralDrawsOfASequenceEachHaveTheirOwnHistory);

}  // namespace baton::kernels::cuda
