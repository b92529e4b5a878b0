// A prefill and a decode worker hand requests over on loopback: same tokens as one worker alone.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <thread>
#include <vector>

#include "common/base/status.h"
#include "common/eos/predict/end_predictor.h"
#include "tests/fakes/veiled_blocks.h"
#include "tests/fakes/worker_harness.h"

namespace baton {
namespace {

WorkerHarness::Options Prefill() { return {.role = WorkerRole::kPrefill}; }

TEST(HandoffTest, SplitGivesTheTokensOfOneWorker) {
  // Lengths around block borders, where the last block is full, almost empty or almost full.
  for (const int32_t length : {1, 3, 4, 5, 16, 37, 64}) {
    WorkerHarness alone({}), prefill(Prefill()), decode({});
    const auto generation = MakeGeneration(length, 12);
    const SplitResult result = RunSplit(prefill, decode, generation);
    ASSERT_TRUE(result.prefill.ok()) << length << ": " << result.prefill;
    ASSERT_TRUE(result.decode.ok()) << length << ": " << result.decode;
    EXPECT_EQ(result.tokens, RunLocal(alone, generation)) << length;
    EXPECT_EQ(result.prefill_final.pushed_blocks(), (length + 3) / 4) << length;
    EXPECT_GT(result.prefill_final.pushed_bytes(), 0);
    EXPECT_TRUE(prefill.Idle()) << length;
    EXPECT_TRUE(decode.Idle()) << length;
    EXPECT_EQ(decode.figures().prompt_tokens_computed, 0u);
  }
}

TEST(HandoffTest, ElasticWorkersHandOverToEachOtherAtTheSameTime) {
  WorkerHarness alone({}), one({.elastic = true}), other({.elastic = true});
  std::vector<SplitResult> results(8);
  std::vector<std::thread> threads;
  for (size_t i = 0; i < results.size(); ++i) {
    threads.emplace_back([&, i] {
      const auto generation = MakeGeneration(20, 12, static_cast<int32_t>(i));
      results[i] = i % 2 == 0 ? RunSplit(one, other, generation) : RunSplit(other, one, generation);
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (size_t i = 0; i < results.size(); ++i) {
    ASSERT_TRUE(results[i].decode.ok()) << results[i].decode << results[i].prefill;
    EXPECT_EQ(results[i].tokens, RunLocal(alone, MakeGeneration(20, 12, static_cast<int32_t>(i))));
  }
  EXPECT_TRUE(one.Idle());
  EXPECT_TRUE(other.Idle());
}

TEST(HandoffTest, ProductsOfTheFirstTokenTravelWithTheCommit) {
  auto from = Prefill();
  WorkerHarness::Options to;
  from.model.probe_dims = to.model.probe_dims = 5;
  WorkerHarness alone(to), prefill(from), decode(to);
  worker_pb::Generation generation = MakeGeneration(10, 4);
  SplitResult result = RunSplit(prefill, decode, generation);
  ASSERT_TRUE(result.started) << result.decode << result.prefill;
  EXPECT_EQ(result.started->token().probe_size(), 0) << "nobody asked";

  generation.set_probe(true);
  DecodeCall local(alone, LocalStart(generation));
  local.ReadAll();
  ASSERT_TRUE(local.started) << local.Finish();
  ASSERT_EQ(local.started->token().probe_size(), 5);
  result = RunSplit(prefill, decode, generation);
  ASSERT_TRUE(result.started) << result.decode << result.prefill;
  EXPECT_THAT(result.started->token().probe(),
              testing::ElementsAreArray(local.started->token().probe()));
}

// Of a file that reads the products of the first token; what it says does not matter.
class AnyModel final : public EosPredictor {
 public:
  PredictorKind kind() const override { return PredictorKind::kMlp; }
  size_t state_size() const override { return 0; }
  EndLogits Step(const PredictorInput&, std::span<double>) const override { return {}; }
};

TEST(HandoffTest, ProductsOfAnotherProbeDoNotReachThePredictor) {
  for (const uint64_t senders : {0, 7, 8}) {
    auto file = std::make_unique<PredictorFile>();
    file->model = std::make_unique<AnyModel>();
    file->tail_mean = 2048;
    file->probe = EosProbe{.hidden = 1, .dims = 5};
    file->reads_probe = file->reads_first_probe = true;
    EndPredictor predictor(std::move(file), {});
    auto from = Prefill();
    WorkerHarness::Options to;
    from.model.probe_dims = to.model.probe_dims = 5;
    from.probe_digest = senders;
    to.probe_digest = 7;
    to.engine.predictor = &predictor;
    WorkerHarness prefill(from), decode(to);
    worker_pb::Generation generation = MakeGeneration(10, 6);
    generation.set_predict(true);
    ReservedCall reserved(decode, generation);
    PrefillCall prefills(prefill, PrefillRequestFor(generation, reserved.reserved, decode));
    prefills.ReadAll();
    ASSERT_TRUE(prefills.Finish().ok());
    int foreseen = 0, tokens = 0;
    worker_pb::DecodeResponse response;
    while (reserved.call.Read(&response)) {
      for (const worker_pb::Token& token : response.tokens().tokens()) {
        ++tokens;
        foreseen += token.has_end();
      }
    }
    ASSERT_TRUE(reserved.call.Finish().ok());
    ASSERT_EQ(tokens, 5);
    EXPECT_EQ(foreseen, senders == 7 ? 4 : 0) << senders;
  }
}

TEST(HandoffTest, NothingOfFormerOwnersLeavesWithTheLastBlock) {
  for (const int32_t length : {5, 7, 8}) {
    WorkerHarness prefill(Prefill()), decode({});
    std::ranges::fill(prefill.arena(), std::byte{0xFF});
    const SplitResult result = RunSplit(prefill, decode, MakeGeneration(length, 2));
    ASSERT_TRUE(result.decode.ok()) << result.decode << result.prefill;
    int left = 0;
    const size_t position =
        decode.arena().size() / (64 * 2 * 2 * 4);  // blocks, layers, planes, positions
    for (size_t at = 0; at < decode.arena().size(); at += position) {
      left += std::ranges::all_of(decode.arena().subspan(at, position),
                                  [](std::byte b) { return b == std::byte{0xFF}; });
    }
    EXPECT_EQ(left, 0) << length;
  }
}

// Tokens of the fake model are made of what its KV holds.
TEST(HandoffTest, BlocksThatTheHostCannotReachGoThroughTheirAccess) {
  const VeiledBlocks veiled;
  auto from = Prefill();
  WorkerHarness::Options to;
  from.blocks = to.blocks = &veiled;
  WorkerHarness alone({}), prefill(from), decode(to);
  const auto generation = MakeGeneration(37, 12);
  const SplitResult result = RunSplit(prefill, decode, generation);
  ASSERT_TRUE(result.decode.ok()) << result.decode << result.prefill;
  EXPECT_EQ(result.tokens, RunLocal(alone, generation));
}

TEST(HandoffTest, ADeviceErrorWhileBlocksAreReadEndsTheAttempt) {
  VeiledBlocks broken;
  broken.fault = absl::InternalError("the device is gone");
  auto options = Prefill();
  options.blocks = &broken;
  WorkerHarness prefill(options), decode({});
  const SplitResult result = RunSplit(prefill, decode, MakeGeneration(10, 4));
  EXPECT_FALSE(result.prefill.ok());
  EXPECT_FALSE(result.decode.ok());
  EXPECT_TRUE(prefill.Idle());
  EXPECT_TRUE(decode.Idle());
}

TEST(HandoffTest, ChunkedPrefillPushesWhileItComputes) {
  auto options = Prefill();
  options.engine.max_prefill_tokens = 5;
  WorkerHarness alone({}), prefill(options), decode({});
  const auto generation = MakeGeneration(37, 12);
  const SplitResult result = RunSplit(prefill, decode, generation);
  ASSERT_TRUE(result.decode.ok()) << result.decode << result.prefill;
  EXPECT_EQ(result.tokens, RunLocal(alone, generation));
  EXPECT_GE(prefill.figures().prefill_chunks, 2u);
}

TEST(HandoffTest, SkipsBlocksThatTheDecodeWorkerHolds) {
  WorkerHarness alone({}), prefill(Prefill()), decode({});
  const auto generation = MakeGeneration(37, 12);
  const SplitResult first = RunSplit(prefill, decode, generation);
  const SplitResult second = RunSplit(prefill, decode, generation);
  ASSERT_TRUE(second.decode.ok()) << second.decode << second.prefill;
  EXPECT_EQ(second.tokens, first.tokens);
  EXPECT_EQ(first.prefill_final.pushed_blocks(), 10);
  EXPECT_EQ(second.prefill_final.pushed_blocks(), 1);
  EXPECT_EQ(second.started->cached_tokens(), 36);
}

TEST(HandoffTest, NothingIsPushedWhenEverythingIsThere) {
  WorkerHarness prefill(Prefill()), decode({});
  const auto generation = MakeGeneration(32, 12);
  const SplitResult first = RunSplit(prefill, decode, generation);
  const SplitResult second = RunSplit(prefill, decode, generation);
  ASSERT_TRUE(second.decode.ok()) << second.decode << second.prefill;
  EXPECT_EQ(second.tokens, first.tokens);
  EXPECT_EQ(second.prefill_final.pushed_blocks(), 0);
  EXPECT_EQ(second.started->cached_tokens(), 32);
  EXPECT_TRUE(decode.Idle());
}

TEST(HandoffTest, FirstTokenThatEndsTheRequestIsNotCommitted) {
  WorkerHarness prefill(Prefill()), decode({});
  const SplitResult result = RunSplit(prefill, decode, MakeGeneration(10, 1));
  ASSERT_TRUE(result.prefill.ok()) << result.prefill;
  ASSERT_TRUE(result.decode.ok()) << result.decode;
  EXPECT_FALSE(result.started);
  EXPECT_EQ(result.tokens.size(), 1u);
  ASSERT_TRUE(result.decode_final);
  EXPECT_EQ(result.decode_final->ending().cause(), worker_pb::FINISH_CAUSE_LENGTH);
  EXPECT_TRUE(prefill.Idle());
  EXPECT_TRUE(decode.Idle());
}

TEST(HandoffTest, AnEosIsCountedWhereItWasDrawn) {
  for (const bool at_once : {true, false}) {
    FakeModelOptions model;
    model.force = [at_once](const kernels::SampleRow& row) -> std::optional<TokenId> {
      return at_once == row.output.empty() ? TokenId{2} : TokenId{7};
    };
    WorkerHarness prefill({.role = WorkerRole::kPrefill, .model = model}), decode({.model = model});
    const SplitResult result = RunSplit(prefill, decode, MakeGeneration(10, 5));
    ASSERT_TRUE(result.decode.ok()) << result.decode << result.prefill;
    EXPECT_EQ(result.decode_final->ending().cause(), worker_pb::FINISH_CAUSE_STOP_EOS);
    EXPECT_EQ(prefill.eos_stops(), at_once ? 1 : 0);
    EXPECT_EQ(decode.eos_stops(), at_once ? 0 : 1);
  }
}

TEST(HandoffTest, AnAnswerMayBeLongerThanThePrefillWorkerHasRoomFor) {
  WorkerHarness::Options narrow = Prefill();
  narrow.engine.max_model_len = 24;
  WorkerHarness alone({}), prefill(narrow), decode({});
  const auto generation = MakeGeneration(20, 40);
  const SplitResult result = RunSplit(prefill, decode, generation);
  ASSERT_TRUE(result.decode.ok()) << result.decode << result.prefill;
  EXPECT_EQ(result.tokens, RunLocal(alone, generation));
}

TEST(HandoffTest, ResumedAttemptContinuesAtItsIndex) {
  WorkerHarness alone({}), prefill(Prefill()), decode({});
  auto generation = MakeGeneration(20, 12);
  const auto whole = RunLocal(alone, generation);
  generation.mutable_generated_ids()->Assign(whole.begin(), whole.begin() + 5);
  const SplitResult result = RunSplit(prefill, decode, generation);
  ASSERT_TRUE(result.decode.ok()) << result.decode << result.prefill;
  EXPECT_EQ(result.started->token().index(), 5);
  EXPECT_EQ(result.tokens, std::vector<TokenId>(whole.begin() + 5, whole.end()));
}

}  // namespace
}  // namespace baton
