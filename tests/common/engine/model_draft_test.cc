// Real models beside real drafts, against one token at a time, bit by bit.
#include <latch>
#include <memory>
#include <utility>

#include "common/engine/draft_proposer.h"
#include "tests/common/engine/model_identity_fixture.h"

namespace baton {
namespace {

class ModelDraftTest : public ModelIdentityTest {
 protected:
  static constexpr int32_t kMost = 5;

  static void SetUpTestSuite() {
    ModelIdentityTest::SetUpTestSuite();
    const absl::Status written = WriteRandomModel(
        {.arch = "llama", .hidden = 32, .head_dim = 16, .dtype = "bfloat16", .seed = 6},
        *dir_ / "other");
    ASSERT_TRUE(written.ok()) << written;
  }
  // A draft that is the model itself, or another one.
  void Draft(const std::string& name = "model", int32_t num_blocks = 0) {
    draft_ = test::MustLoad(*dir_ / name, GetParam().device, GetParam().dtype, 512);
    kernels::PagedKv kv = draft_->kv();
    if (num_blocks > 0) kv.num_blocks = num_blocks;
    proposer_ =
        std::make_unique<DraftProposer>(DraftOptions{.max_rows = kRequests,
                                                     .max_tokens = 512,
                                                     .prompt_tokens = 64,
                                                     .most = kMost,
                                                     .eos_ids = {257}},
                                        kv, std::make_unique<BorrowedRunner>(draft_->runner.get()));
  }
  EngineOptions Drafting() const {
    EngineOptions options = Options();
    options.max_num_seqs = 6;
    options.proposals = {.most = kMost, .batch = 36};  // the model has room for 64 draws
    options.proposals_from = proposer_.get();
    return options;
  }
  void ExpectAllRight(const EngineFigures& figures) const {
    EXPECT_GT(figures.ids_accepted, 300u);
    EXPECT_EQ(figures.ids_accepted, figures.ids_proposed);
  }
  void TearDown() override {
    if (proposer_ == nullptr) return;
    EXPECT_EQ(proposer_->pool().num_free(), proposer_->pool().total());
    EXPECT_TRUE(proposer_->pool().IsConsistent());
  }

  std::unique_ptr<LoadedModel> draft_;
  std::unique_ptr<DraftProposer> proposer_;
};

TEST_P(ModelDraftTest, OneAfterTheOther) {
  Draft();
  auto harness = Start(Drafting());
  for (int32_t i = 0; i < kRequests; ++i) {
    const SequenceId id = harness->Admit(Request(i));
    ASSERT_TRUE(harness->RunUntilOver(id));
    ExpectSame(harness->seen(id), alone_[static_cast<size_t>(i)]);
  }
  ExpectAllRight(harness->figures());
  harness->engine().Stop();
}

TEST_P(ModelDraftTest, InABatchWithTwoStepsInFlight) {
  Draft();
  for (const bool overlap : {false, true}) {
    EngineOptions options = Drafting();
    options.overlap = overlap;
    auto harness = Start(options);
    ExpectAllSame(harness.get());
    ExpectAllRight(harness->figures());
    harness->engine().Stop();
  }
}

TEST_P(ModelDraftTest, Chunked) {
  Draft();
  EngineOptions options = Drafting();
  options.max_prefill_tokens = 7;
  options.max_num_batched_tokens = 20;
  auto harness = Start(options);
  ExpectAllSame(harness.get());
  EXPECT_GE(harness->figures().prefill_chunks, 2u);
  ExpectAllRight(harness->figures());
  harness->engine().Stop();
}

TEST_P(ModelDraftTest, Preempted) {
  Draft();
  for (const bool caching : {false, true}) {
    EngineOptions options = Drafting();
    options.max_num_seqs = kRequests;
    options.proposals.batch = 20;
    options.enable_prefix_caching = caching;
    std::latch admitted(1);
    auto harness = Start(options, /*num_blocks=*/20, nullptr, &admitted);
    ExpectAllSame(harness.get(), &admitted);
    EXPECT_GE(harness->figures().preemptions, 1u);
    EXPECT_GT(harness->figures().ids_accepted, 100u);
    EXPECT_EQ(harness->figures().ids_accepted, harness->figures().ids_proposed);
    harness->engine().Stop();
  }
}

TEST_P(ModelDraftTest, AnotherModelAndTooFewBlocks) {
  for (const int32_t num_blocks : {0, 12}) {
    Draft("other", num_blocks);
    auto harness = Start(Drafting());
    ExpectAllSame(harness.get());
    EXPECT_GT(harness->figures().ids_proposed, harness->figures().ids_accepted);
    harness->engine().Stop();
    EXPECT_EQ(proposer_->pool().num_free(), proposer_->pool().total());
  }
}

// As the answers of one request run: the first computes the prompt, the others find it.
TEST_P(ModelDraftTest, SeveralAnswersToAPrompt) {
  Draft();
  constexpr int32_t kLast = kRequests - 1;
  const auto answer = [](int32_t index) {
    SequenceSpec spec = Request(kLast);
    spec.sampling.seed += static_cast<uint64_t>(index);
    return spec;
  };
  EngineOptions options = Drafting();
  options.enable_prefix_caching = true;
  auto harness = Start(options);
  ASSERT_TRUE(harness->RunUntilOver(harness->Admit(answer(0))));
  std::vector<SequenceId> ids;
  for (int32_t i = 0; i < 4; ++i) ids.push_back(harness->Admit(answer(i)));
  for (const SequenceId id : ids) ASSERT_TRUE(harness->RunUntilOver(id));
  EXPECT_GT(harness->figures().prefix_hits, 200u);
  EXPECT_EQ(harness->figures().ids_accepted, harness->figures().ids_proposed);
  harness->engine().Stop();
  auto plain = Start(Options());
  for (int32_t i = 0; i < 4; ++i) {
    const SequenceId alone = plain->Admit(answer(i));
    ASSERT_TRUE(plain->RunUntilOver(alone));
    ExpectSame(harness->seen(ids[static_cast<size_t>(i)]), plain->seen(alone));
  }
}

TEST_P(ModelDraftTest, SplitOverTwoEngines) {
  Draft();
  auto second = test::MustLoad(*dir_ / "model", GetParam().device, GetParam().dtype, 512, "auto",
                               ProbeOf(GetParam().dtype, kHidden));
  auto prefill = Start(Options(), 0, second.get());
  EngineOptions options = Drafting();
  options.max_num_seqs = kRequests;
  auto decode = Start(options);
  for (int32_t i = 0; i < kRequests; ++i) {
    SequenceSpec spec = Request(i);
    spec.kind = SequenceKind::kReserved;
    const SequenceId d = decode->Admit(spec);
    ASSERT_TRUE(decode->RunUntil([&] { return decode->seen(d).reserved.has_value(); }));
    spec.kind = SequenceKind::kPrefill;
    const SequenceId p = prefill->Admit(spec);
    ASSERT_TRUE(prefill->RunUntilOver(p));
    CopyBlocks(prefill->seen(p), decode->seen(d));
    decode->engine().CommitImport(d, prefill->seen(p).samples.at(0));
    prefill->engine().ReturnLease(p);
    ASSERT_TRUE(decode->RunUntilOver(d));
    ExpectSame(decode->seen(d), alone_[static_cast<size_t>(i)], 1);
  }
  ExpectAllRight(decode->figures());
  decode->engine().Stop();
}

INSTANTIATE_TEST_SUITE_P(Cpu, ModelDraftTest, testing::ValuesIn(AllCases()), [](const auto& test) {
  return test::DeviceName(test.param.device) + "_" + test.param.dtype;
});

}  // namespace
}  // namespace baton
