// Real models that verify what was proposed, against one token at a time, bit by bit.
#include <algorithm>

#include "common/kv/block_pool.h"
#include "common/kv/prefix_cache.h"
#include "common/sched/scheduler.h"
#include "tests/common/engine/model_identity_fixture.h"

namespace baton {
namespace {

class ModelSpeculationTest : public ModelIdentityTest {
 protected:
  EngineOptions Proposing() const {
    EngineOptions options = Options();
    options.proposals = {.most = 5, .batch = 32};  // the model has room for 64 draws
    return options;
  }
  // An answer may repeat its prompt with these, and a random model goes round in circles.
  static void ExpectVerified(const EngineFigures& figures) {
    EXPECT_GT(figures.ids_accepted, 10u);
    EXPECT_GT(figures.ids_proposed, figures.ids_accepted);
  }
};

TEST_P(ModelSpeculationTest, OneAfterTheOther) {
  auto harness = Start(Proposing());
  for (int32_t i = 0; i < kRequests; ++i) {
    const SequenceId id = harness->Admit(Request(i));
    ASSERT_TRUE(harness->RunUntilOver(id));
    ExpectSame(harness->seen(id), alone_[static_cast<size_t>(i)]);
  }
  ExpectVerified(harness->figures());
}

TEST_P(ModelSpeculationTest, WithTwoStepsInFlight) {
  EngineOptions options = Proposing();
  options.overlap = true;
  options.max_num_seqs = 6;
  auto harness = Start(options);
  ExpectAllSame(harness.get());
  ExpectVerified(harness->figures());
  EXPECT_GT(harness->figures().rows_ahead, 20u);
}

// Runs all requests on a scheduler whose proposals are their answers, of which one id in
// `one_wrong_in` is another.
class KnownAnswers {
 public:
  KnownAnswers(LoadedModel* model, const SchedulerOptions& options, int32_t num_blocks,
               const std::vector<Seen>* answers, int32_t one_wrong_in)
      : model_(model),
        answers_(answers),
        one_wrong_in_(one_wrong_in),
        pool_(num_blocks),
        cache_(&pool_, options.block_size),
        scheduler_(options, &pool_, &cache_) {}

  void Run(std::vector<Seen>* seen) {
    seen->resize(answers_->size());
    for (size_t i = 0; i < answers_->size(); ++i) {
      scheduler_.Add(SequenceId(i + 1), Request(static_cast<int32_t>(i)), now_);
    }
    while (scheduler_.live() > 0) {
      scheduler_.Propose([this](const ProposalRequest& asked) { return Answer(asked); });
      const StepPlan plan = scheduler_.Plan(now_);
      ASSERT_FALSE(plan.empty());
      ASSERT_TRUE(model_->runner->Submit(plan).ok());
      const auto output = model_->runner->Wait();
      ASSERT_TRUE(output.ok()) << output.status();
      scheduler_.Commit(plan, *output, now_);
      for (SchedEvent& event : scheduler_.TakeEvents()) Note(std::move(event), seen);
    }
    EXPECT_EQ(pool_.num_free() + pool_.num_cached(), pool_.total());
  }
  SchedulerFigures figures() const { return scheduler_.figures(); }

 private:
  std::span<const TokenId> Answer(const ProposalRequest& asked) {
    const auto request = static_cast<int32_t>(asked.sequence.value()) - 1;
    const Seen& answer = (*answers_)[static_cast<size_t>(request)];
    const size_t known = asked.history.size() - Request(request).prompt.size();
    ids_.assign(answer.tokens.begin() + static_cast<ptrdiff_t>(known), answer.tokens.end());
    for (TokenId& id : ids_) {
      if (++said_ % one_wrong_in_ == 0) id = (id + 1) % 256;
    }
    return ids_;
  }
  static void Note(SchedEvent event, std::vector<Seen>* seen) {
    Seen& of = (*seen)[event.sequence.value() - 1];
    if (auto* token = std::get_if<TokenEvent>(&event.what)) {
      of.samples.push_back(std::move(token->token));
    } else if (auto* finished = std::get_if<FinishedEvent>(&event.what)) {
      of.finished = std::move(*finished);
    }
  }

  LoadedModel* const model_;
  const std::vector<Seen>* const answers_;
  const int32_t one_wrong_in_;
  const base::Instant now_{std::chrono::hours(1)};
  BlockPool pool_;
  PrefixCache cache_;
  Scheduler scheduler_;
  std::vector<TokenId> ids_;
  int32_t said_ = 0;
};

TEST_P(ModelSpeculationTest, WhateverIsProposedInABatchInChunksAndPreempted) {
  for (const int32_t num_blocks : {512, 24}) {
    for (const int32_t one_wrong_in : {1000000, 4, 1}) {
      SCOPED_TRACE(testing::Message() << num_blocks << " blocks, wrong 1 in " << one_wrong_in);
      const SchedulerOptions options = {
          .limits = {.max_model_len = 512,
                     .pool_tokens = num_blocks * model_->kv().layout.block_size,
                     .vocab_size = model_->config.vocab},
          .block_size = model_->kv().layout.block_size,
          .max_num_seqs = kRequests,
          .max_prefill_tokens = 40,
          .max_num_batched_tokens = 100,
          .max_draws = 64,
          .proposals = {.most = 6, .batch = 60},
          .eos_ids = {257}};
      KnownAnswers run(model_.get(), options, num_blocks, &alone_, one_wrong_in);
      std::vector<Seen> seen;
      run.Run(&seen);
      for (size_t i = 0; i < seen.size(); ++i) {
        SCOPED_TRACE(i);
        ExpectSame(seen[i], alone_[i]);
      }
      const SchedulerFigures figures = run.figures();
      EXPECT_GT(figures.ids_proposed, 100u);
      EXPECT_EQ(figures.ids_accepted > 0, one_wrong_in > 1);
      EXPECT_EQ(figures.ids_accepted == figures.ids_proposed, one_wrong_in > 1000);
      EXPECT_EQ(figures.preemptions > 0, num_blocks < 512);
    }
  }
}

// With fp8 the random model repeats itself too seldom to be foretold.
INSTANTIATE_TEST_SUITE_P(Int8Kv, ModelSpeculationTest, testing::ValuesIn(QuantizedKvCases("int8")),
                         CaseName);
INSTANTIATE_TEST_SUITE_P(Cpu, ModelSpeculationTest, testing::ValuesIn(AllCases()),
                         [](const auto& test) {
                           return test::DeviceName(test.param.device) + "_" + test.param.dtype;
                         });

}  // namespace
}  // namespace baton
