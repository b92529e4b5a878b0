// A beam search whose prompt one worker computes and another one goes on from finds what one worker
// alone finds.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/base/status.h"
#include "tests/fakes/worker_harness.h"

namespace baton {
namespace {

WorkerHarness::Options Searching(WorkerRole role) {
  WorkerHarness::Options options{.role = role};
  options.model.eos_permille = 60;
  return options;
}

worker_pb::Generation Search(int32_t prompt, int32_t width) {
  worker_pb::Generation generation = MakeGeneration(prompt, 14);
  worker_pb::BeamSearch* beams = generation.mutable_beams();
  beams->set_width(width);
  beams->set_results(width);
  beams->set_length_penalty(0.6F);
  beams->set_early_stopping(worker_pb::EARLY_STOPPING_NEVER);
  return generation;
}

worker_pb::DecodeFinal Locally(WorkerHarness& worker, const worker_pb::Generation& generation) {
  DecodeCall call(worker, LocalStart(generation));
  call.ReadAll();
  EXPECT_TRUE(call.Finish().ok());
  EXPECT_TRUE(call.started.has_value());
  EXPECT_EQ(call.tokens.size(), 1u) << "nothing is streamed but that it has started";
  return call.final.value_or(worker_pb::DecodeFinal());
}

TEST(BeamsHandoffTest, SplitFindsWhatOneWorkerFinds) {
  WorkerHarness alone(Searching(WorkerRole::kDecode));
  WorkerHarness prefill(Searching(WorkerRole::kPrefill));
  WorkerHarness decode(Searching(WorkerRole::kDecode));
  for (const int32_t length : {1, 4, 7, 16, 21}) {
    const worker_pb::Generation generation = Search(length, 4);
    const SplitResult split = RunSplit(prefill, decode, generation);
    ASSERT_TRUE(split.decode.ok()) << length << ": " << split.decode << split.prefill;
    ASSERT_TRUE(split.prefill.ok()) << split.prefill;
    EXPECT_EQ(split.tokens.size(), 1u);
    const worker_pb::DecodeFinal local = Locally(alone, generation);
    ASSERT_EQ(local.beams_size(), 4) << length;
    ASSERT_TRUE(split.decode_final.has_value());
    EXPECT_EQ(split.decode_final->beam_steps(), local.beam_steps());
    ASSERT_EQ(split.decode_final->beams_size(), 4);
    for (int i = 0; i < 4; ++i) {
      EXPECT_EQ(split.decode_final->beams(i).SerializeAsString(),
                local.beams(i).SerializeAsString())
          << length << ", answer " << i;
    }
    EXPECT_EQ(split.decode_final->ending().cause(), local.beams(0).ending().cause());
  }
  EXPECT_TRUE(prefill.Idle());
  EXPECT_TRUE(decode.Idle());
  EXPECT_TRUE(alone.Idle());
  EXPECT_EQ(decode.figures().prompt_tokens_computed, 0u);
}

TEST(BeamsHandoffTest, ACommitWithoutItsCandidatesEndsTheAttempt) {
  WorkerHarness prefill(Searching(WorkerRole::kPrefill));
  WorkerHarness decode(Searching(WorkerRole::kDecode));
  const worker_pb::Generation generation = Search(7, 4);
  ReservedCall reserved(decode, generation);
  worker_pb::Generation drawn = generation;  // as a prefill worker that knows no beams sees it
  drawn.clear_beams();
  PrefillCall prefills(prefill, PrefillRequestFor(drawn, reserved.reserved, decode));
  prefills.ReadAll();
  reserved.call.ReadAll();
  const absl::Status status = reserved.call.Finish();
  EXPECT_EQ(status.code(), absl::StatusCode::kInternal) << status;
  EXPECT_THAT(std::string(status.message()), testing::HasSubstr("beams need 5"));
  EXPECT_TRUE(prefill.Idle());
  EXPECT_TRUE(decode.Idle());
}

TEST(BeamsHandoffTest, WhatDoesNotFitIsRefusedAndHarmsNobody) {
  WorkerHarness decode(Searching(WorkerRole::kDecode));
  const auto refused = [&](const worker_pb::Generation& generation) {
    DecodeCall call(decode, LocalStart(generation));
    call.ReadAll();
    return call.Finish();
  };
  EXPECT_EQ(ReasonOf(refused(Search(7, 17))), Reason::kLimitExceeded);
  EXPECT_EQ(ReasonOf(refused(Search(7, 9))), Reason::kLimitExceeded) << "eight in a step";
  EXPECT_EQ(ReasonOf(refused(Search(7, 0))), Reason::kInvalidSampling);
  worker_pb::Generation long_one = Search(7, 8);
  long_one.mutable_stopping()->set_max_tokens(200);
  EXPECT_EQ(ReasonOf(refused(long_one)), Reason::kTooLong);
  worker_pb::Generation odd = Search(7, 4);
  odd.mutable_beams()->set_early_stopping(static_cast<worker_pb::EarlyStopping>(9));
  EXPECT_EQ(ReasonOf(refused(odd)), Reason::kUnsupportedField);
  worker_pb::Generation drawn = Search(7, 4);
  drawn.mutable_sampling()->set_temperature(0.5F);
  EXPECT_EQ(ReasonOf(refused(drawn)), Reason::kConflictingOptions);
  EXPECT_EQ(Locally(decode, Search(7, 4)).beams_size(), 4);
  EXPECT_TRUE(decode.Idle());
}

TEST(BeamsHandoffTest, ACancelledSearchGivesEverythingBack) {
  WorkerHarness decode(Searching(WorkerRole::kDecode));
  decode.control().Pause();
  DecodeCall call(decode, LocalStart(Search(21, 5)));
  ASSERT_TRUE(Eventually([&] { return decode.figures().running == 1; }));
  call.Cancel();
  decode.control().Resume();
  EXPECT_FALSE(call.Finish().ok());
  EXPECT_TRUE(decode.Idle());
}

}  // namespace
}  // namespace baton
