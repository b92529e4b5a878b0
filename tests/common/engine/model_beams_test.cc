// Beam searches with real models: what transformers finds (tests/golden/README.md), and the same
// answers however they ran, bit by bit.
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>

#include "nlohmann/json.hpp"
#include "tests/common/engine/harness.h"
#include "tests/common/model/model_harness.h"

namespace baton {
namespace {

using BeamJson = nlohmann::json;

constexpr double kScoreTolerance = 1e-4;  // of the score, relative: sums of fp32 logprobs

EarlyStopping RuleNamed(const std::string& name) {
  if (name == "true") return EarlyStopping::kTrue;
  return name == "never" ? EarlyStopping::kNever : EarlyStopping::kFalse;
}

// A search of a golden file; its EOS ids stand in for those of the model.
SequenceSpec SearchOf(const BeamJson& test) {
  SequenceSpec spec;
  spec.prompt = test.at("prompt_ids").get<std::vector<TokenId>>();
  spec.sampling.temperature = 0;
  spec.stop.max_tokens = test.at("max_tokens");
  spec.stop.stop_token_ids = test.at("eos_ids").get<std::vector<TokenId>>();
  spec.beams = {.width = test.at("width"),
                .results = test.at("results"),
                .length_penalty = test.at("length_penalty"),
                .early_stopping = RuleNamed(test.at("early_stopping"))};
  return spec;
}

class ModelBeamsTest : public testing::TestWithParam<const char*> {
 protected:
  ModelBeamsTest() {
    const std::string root = BATON_SOURCE_DIR;
    std::ifstream file(root + "/tests/golden/beams/" + GetParam() + ".json");
    golden_ = BeamJson::parse(file);
    model_ = test::MustLoad(root + "/" + golden_.at("model").get<std::string>(), {"cpu", "auto"},
                            "float32");
  }

  EngineOptions Options() const {
    EngineOptions options;
    options.max_model_len = 256;
    options.max_num_seqs = 64;
    options.max_prefill_tokens = 128;
    options.max_num_batched_tokens = 256;
    options.vocab_size = model_->config.vocab;
    return options;
  }
  std::unique_ptr<EngineHarness> Start(const EngineOptions& options, int32_t num_blocks = 0) {
    kernels::PagedKv kv = model_->kv();
    if (num_blocks > 0) kv.num_blocks = num_blocks;
    return std::make_unique<EngineHarness>(options, kv,
                                           std::make_unique<Borrowed>(model_->runner.get()));
  }
  // All searches of the file in one engine, with as many answers that are drawn between them.
  std::vector<FinishedEvent> RunAll(EngineHarness* harness) const {
    std::vector<SequenceId> ids;
    for (const BeamJson& test : golden_.at("cases")) {
      ids.push_back(harness->Admit(SearchOf(test)));
      SequenceSpec drawn = SearchOf(test);
      drawn.beams = {};
      drawn.stop.max_tokens = 12;
      harness->Admit(drawn);
    }
    std::vector<FinishedEvent> finished;
    for (const SequenceId id : ids) {
      EXPECT_TRUE(harness->RunUntilOver(id));
      finished.push_back(harness->seen(id).finished.value_or(FinishedEvent()));
    }
    EXPECT_TRUE(harness->AllBlocksBack());
    return finished;
  }
  std::vector<FinishedEvent> Alone() {
    std::vector<FinishedEvent> finished;
    auto harness = Start(Options());
    for (const BeamJson& test : golden_.at("cases")) {
      const SequenceId id = harness->Admit(SearchOf(test));
      EXPECT_TRUE(harness->RunUntilOver(id));
      finished.push_back(harness->seen(id).finished.value_or(FinishedEvent()));
    }
    return finished;
  }
  static void ExpectEqual(const std::vector<FinishedEvent>& found,
                          const std::vector<FinishedEvent>& alone) {
    ASSERT_EQ(found.size(), alone.size());
    for (size_t i = 0; i < found.size(); ++i) {
      ASSERT_EQ(found[i].beams.size(), alone[i].beams.size()) << "case " << i;
      EXPECT_EQ(found[i].beam_steps, alone[i].beam_steps) << "case " << i;
      for (size_t rank = 0; rank < found[i].beams.size(); ++rank) {
        EXPECT_EQ(found[i].beams[rank].tokens, alone[i].beams[rank].tokens) << "case " << i;
        EXPECT_EQ(found[i].beams[rank].score, alone[i].beams[rank].score) << "case " << i;
      }
    }
  }

  // Lends the model's runner to one engine after the other.
  class Borrowed final : public ModelRunner {
   public:
    explicit Borrowed(ModelRunner* runner) : runner_(runner) {}
    absl::Status Submit(const StepPlan& plan) override { return runner_->Submit(plan); }
    absl::StatusOr<StepOutput> Wait() override { return runner_->Wait(); }
    uint64_t operations_finished() const override { return runner_->operations_finished(); }
    int32_t max_in_flight() const override { return runner_->max_in_flight(); }

   private:
    ModelRunner* const runner_;
  };

  BeamJson golden_;
  std::unique_ptr<LoadedModel> model_;
};

TEST_P(ModelBeamsTest, FindsWhatTransformersFinds) {
  const std::vector<FinishedEvent> alone = Alone();
  ASSERT_EQ(alone.size(), golden_.at("cases").size());
  size_t ended_early = 0;
  for (size_t i = 0; i < alone.size(); ++i) {
    const BeamJson& test = golden_.at("cases")[i];
    SCOPED_TRACE(test.dump());
    ASSERT_EQ(alone[i].beams.size(), test.at("answers").size());
    for (size_t rank = 0; rank < alone[i].beams.size(); ++rank) {
      const BeamResult& beam = alone[i].beams[rank];
      const BeamJson& expected = test.at("answers")[rank];
      EXPECT_EQ(beam.tokens, expected.at("ids").get<std::vector<TokenId>>());
      const double score = expected.at("score");
      EXPECT_NEAR(beam.score, score, kScoreTolerance * std::abs(score));
      if (beam.reason != FinishReason::kLength) ++ended_early;
    }
  }
  EXPECT_GE(ended_early, alone.size()) << "EOS in mid-beam";
}

TEST_P(ModelBeamsTest, AmongOthersPreemptedOrAheadTheAnswersAreTheSame) {
  const std::vector<FinishedEvent> alone = Alone();
  auto together = Start(Options());
  ExpectEqual(RunAll(together.get()), alone);
  EXPECT_GT(together->figures().largest_batch, 16);

  EngineOptions chunked = Options();
  chunked.max_num_batched_tokens = 9;
  chunked.max_prefill_tokens = 5;
  ExpectEqual(RunAll(Start(chunked).get()), alone);

  auto tight = Start(Options(), /*num_blocks=*/14);
  ExpectEqual(RunAll(tight.get()), alone);
  EXPECT_GT(tight->figures().preemptions, 0u);

  EngineOptions overlapped = Options();
  overlapped.overlap = true;
  auto ahead = Start(overlapped);
  ExpectEqual(RunAll(ahead.get()), alone);
  EXPECT_GT(ahead->figures().rows_ahead, 20u);
}

INSTANTIATE_TEST_SUITE_P(Families, ModelBeamsTest,
                         testing::Values("llama31_hd128_bf16", "mistral_hd24", "qwen2_hd16"),
                         [](const auto& family) { return std::string(family.param); });

}  // namespace
}  // namespace baton
