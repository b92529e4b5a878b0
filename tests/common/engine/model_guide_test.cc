// Guided answers with a real model: what they say, and the same tokens and figures however they
// ran, with what is forced fed at once and token by token. Each test asserts by a counter that its
// path was taken.
#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <future>
#include <regex>

#include "common/guide/guide_compiler.h"
#include "tests/common/engine/harness.h"
#include "tests/common/model/model_harness.h"
#include "tests/fakes/byte_tokenizer.h"
#include "tests/fakes/scratch_folder.h"

namespace baton {
namespace {

constexpr TokenId kGuideEos = 257;
constexpr int32_t kGuidedRequests = 12;

// Has the ids of the model's vocabulary: bytes, one word, EOS.
std::shared_ptr<const Tokenizer> TokensOfModel() {
  return std::make_shared<ByteTokenizer>(std::vector<std::string>{"ab"},
                                         std::vector<std::string>{"</s>"});
}

struct GuidedCase {
  GuideSpec guide;
  const char* pattern;  // of a whole answer
};
const GuidedCase kGuidedCases[] = {
    {{GuideKind::kRegex, "[a-f]{3,9}(x|y)[0-9]+"}, "[a-f]{3,9}(x|y)[0-9]+"},
    {{GuideKind::kChoice, R"(["yes","no","perhaps so"])"}, "yes|no|perhaps so"},
    {{GuideKind::kGrammar, "start: \"(\" start? \")\""}, "\\(+\\)+"},
    {{GuideKind::kJsonSchema,
      R"({"type":"object","properties":{"n":{"type":"integer","minimum":1,"maximum":999},)"
      R"("b":{"type":"boolean"}},"required":["n","b"],"additionalProperties":false})"},
     R"(\{\s*"n"\s*:\s*[1-9][0-9]{0,2}\s*,\s*"b"\s*:\s*(true|false)\s*\})"},
};

class ModelGuideTest : public ::testing::TestWithParam<bool> {
 protected:
  void SetUp() override {
    ASSERT_TRUE(WriteRandomModel(
                    {.arch = "llama", .hidden = 64, .head_dim = 24, .dtype = "bfloat16", .seed = 5},
                    dir_ / "model")
                    .ok());
    model_ = test::MustLoad(dir_ / "model", {"cpu", "auto"}, "float32");
    compiler_ = std::make_unique<GuideCompiler>(
        TokensOfModel(),
        GuideCompilerOptions{.width = model_->config.vocab, .eos_ids = {kGuideEos}});
    EngineOptions options = Options();
    options.jump_forward = false;
    auto harness = Start(options);
    for (int32_t i = 0; i < kGuidedRequests; ++i) alone_.push_back(Run(harness.get(), Guided(i)));
    EXPECT_EQ(harness->figures().largest_batch, 1);
    EXPECT_EQ(harness->figures().ids_jumped, 0u);
    EXPECT_GT(harness->figures().ids_forced, 20u);
  }

  EngineOptions Options() const {
    EngineOptions options;
    options.max_model_len = 512;
    options.max_num_seqs = kGuidedRequests;
    options.enable_prefix_caching = false;
    options.jump_forward = GetParam();
    options.eos_ids = {kGuideEos};
    options.vocab_size = model_->config.vocab;
    return options;
  }
  std::unique_ptr<EngineHarness> Start(const EngineOptions& options, int32_t num_blocks = 0) {
    kernels::PagedKv kv = model_->kv();
    if (num_blocks > 0) kv.num_blocks = num_blocks;
    return std::make_unique<EngineHarness>(options, kv,
                                           std::make_unique<Lent>(*model_->runner, steps_wait_));
  }
  static const GuidedCase& CaseOf(int32_t index) { return kGuidedCases[index % 4]; }

  SequenceSpec Guided(int32_t index, std::vector<TokenId> generated = {}) {
    SequenceSpec spec;
    for (int32_t i = 0; i < 20 + index * 3; ++i) spec.prompt.push_back((index * 37 + i * 11) % 256);
    spec.generated = std::move(generated);
    spec.stop.max_tokens = 40;
    spec.sampling.seed = 1000 + static_cast<uint64_t>(index);
    spec.sampling.temperature = index % 3 == 0 ? 0.0f : 1.0f;
    if (index % 5 == 1) spec.sampling.repetition_penalty = 1.3f;
    if (index % 5 == 2) spec.sampling.no_repeat_ngram_size = 3;
    if (index % 5 == 3) spec.stop.min_tokens = 12;
    spec.guide = CaseOf(index).guide;
    spec.follows = Begun(spec.guide, spec.generated);
    return spec;
  }
  std::shared_ptr<SequenceGuide> Begun(const GuideSpec& guide, std::vector<TokenId> generated) {
    auto told = std::make_shared<std::promise<std::shared_ptr<SequenceGuide>>>();
    auto begun = told->get_future();
    EXPECT_TRUE(compiler_->Begin({.guide = guide,
                                  .generated = std::move(generated),
                                  .wanted = [] { return true; },
                                  .begun =
                                      [told](auto state) {
                                        EXPECT_TRUE(state.ok()) << state.status();
                                        told->set_value(state.ok() ? *state : nullptr);
                                      }}));
    return begun.get();
  }
  static Seen Run(EngineHarness* harness, SequenceSpec spec) {
    const SequenceId id = harness->Admit(std::move(spec));
    EXPECT_TRUE(harness->RunUntilOver(id));
    return harness->seen(id);
  }
  static void ExpectSame(const Seen& seen, const Seen& alone, size_t first = 0) {
    ASSERT_EQ(seen.tokens, std::vector(alone.tokens.begin() + static_cast<ptrdiff_t>(first),
                                       alone.tokens.end()));
    EXPECT_EQ(seen.finished->reason, alone.finished->reason);
    for (size_t i = 0; i < seen.samples.size(); ++i) {
      const SampledToken& a = seen.samples[i];
      const SampledToken& b = alone.samples[i + first];
      EXPECT_EQ(a.logprob, b.logprob);
      EXPECT_EQ(a.eos.eos_logprob, b.eos.eos_logprob);
      EXPECT_EQ(a.eos.eos_prob_sampling, b.eos.eos_prob_sampling);
      EXPECT_EQ(a.only_end, b.only_end);
      EXPECT_EQ(a.forced, b.forced);
    }
  }
  static void ExpectJumped(const EngineHarness& harness) {
    EXPECT_EQ(harness.figures().ids_jumped > 20, GetParam()) << harness.figures().ids_jumped;
  }
  // Runs all requests at once: no step begins before the engine has the last of them.
  void ExpectAllSame(EngineHarness* harness) {
    std::vector<SequenceId> ids;
    steps_wait_ = true;
    for (int32_t i = 0; i < kGuidedRequests; ++i) ids.push_back(harness->Admit(Guided(i)));
    steps_wait_ = false;
    steps_wait_.notify_all();
    for (size_t i = 0; i < ids.size(); ++i) {
      SCOPED_TRACE(i);
      ASSERT_TRUE(harness->RunUntilOver(ids[i]));
      ExpectSame(harness->seen(ids[i]), alone_[i]);
    }
  }

  // Lends the model's runner to one engine after the other, and begins no step while it must wait.
  class Lent final : public ModelRunner {
   public:
    Lent(ModelRunner& runner, const std::atomic<bool>& wait) : runner_(runner), wait_(wait) {}
    absl::Status Submit(const StepPlan& plan) override {
      wait_.wait(true);
      return runner_.Submit(plan);
    }
    absl::StatusOr<StepOutput> Wait() override { return runner_.Wait(); }
    uint64_t operations_finished() const override { return runner_.operations_finished(); }
    int32_t max_in_flight() const override { return runner_.max_in_flight(); }

   private:
    ModelRunner& runner_;
    const std::atomic<bool>& wait_;
  };

  ScratchFolder dir_;
  std::unique_ptr<LoadedModel> model_;
  std::unique_ptr<GuideCompiler> compiler_;
  std::vector<Seen> alone_;
  std::atomic<bool> steps_wait_ = false;
};

TEST_P(ModelGuideTest, AnswersAreWhatTheirGuidesAllow) {
  int whole = 0;
  for (int32_t i = 0; i < kGuidedRequests; ++i) {
    SCOPED_TRACE(i);
    const Seen& seen = alone_[static_cast<size_t>(i)];
    std::string text;
    for (const TokenId id : seen.tokens) {
      if (id != kGuideEos) text += TokensOfModel()->TokenBytes(id);
    }
    if (seen.finished->reason == FinishReason::kLength) continue;
    ++whole;
    EXPECT_TRUE(std::regex_match(text, std::regex(CaseOf(i).pattern))) << text;
    ASSERT_EQ(seen.tokens.back(), kGuideEos);
    EXPECT_EQ(seen.finished->reason,
              seen.samples.back().only_end ? FinishReason::kStopGrammar : FinishReason::kStopEos);
  }
  EXPECT_GE(whole, 6);
}

TEST_P(ModelGuideTest, MinTokensYieldToAGrammarThatIsComplete) {
  auto harness = Start(Options());
  SequenceSpec spec = Guided(1);  // a choice of at most ten bytes
  spec.stop.min_tokens = 30;
  const Seen seen = Run(harness.get(), std::move(spec));
  EXPECT_EQ(seen.finished->reason, FinishReason::kStopGrammar);
  EXPECT_LE(seen.tokens.size(), 11u);
}

TEST_P(ModelGuideTest, Batched) {
  auto harness = Start(Options());
  ExpectAllSame(harness.get());
  EXPECT_GE(harness->figures().largest_batch, 2);
  ExpectJumped(*harness);
}

TEST_P(ModelGuideTest, BesideOneThatIsForetold) {
  EngineOptions options = Options();
  options.proposals = {.most = 5, .batch = 32};
  options.max_num_seqs = kGuidedRequests + 1;
  auto harness = Start(options);
  SequenceSpec circles;  // a greedy answer of a random model goes round in them
  circles.prompt = {7, 8, 9, 7, 8, 9, 7, 8};
  circles.sampling.temperature = 0;
  circles.stop = {.max_tokens = 200, .eos_policy = EosPolicy::kIgnoreContinue};
  const SequenceId foretold = harness->Admit(circles);
  ExpectAllSame(harness.get());
  ASSERT_TRUE(harness->RunUntilOver(foretold));
  EXPECT_GT(harness->figures().ids_proposed, 0u);
  ExpectJumped(*harness);
}

TEST_P(ModelGuideTest, ChunkedAndPreempted) {
  EngineOptions options = Options();
  options.max_prefill_tokens = 7;
  auto harness = Start(options, /*num_blocks=*/7);
  ExpectAllSame(harness.get());
  EXPECT_GE(harness->figures().prefill_chunks, 2u);
  EXPECT_GE(harness->figures().preemptions, 1u);
  ExpectJumped(*harness);
}

TEST_P(ModelGuideTest, WithTwoStepsInFlight) {
  EngineOptions options = Options();
  options.overlap = true;
  options.max_num_seqs = kGuidedRequests + 1;
  auto harness = Start(options);
  // Guided rows alone never overlap: this one runs in every step.
  SequenceSpec free = Guided(0);
  free.guide = {};
  free.follows = nullptr;
  free.stop = {.max_tokens = 400, .eos_policy = EosPolicy::kIgnoreContinue};
  const SequenceId beside = harness->Admit(std::move(free));
  ExpectAllSame(harness.get());
  harness->engine().Cancel(beside);
  EXPECT_GE(harness->figures().steps_overlapped, 1u);
  ExpectJumped(*harness);
}

TEST_P(ModelGuideTest, ResumedAnywhere) {
  auto harness = Start(Options());
  for (int32_t i = 0; i < kGuidedRequests; ++i) {
    const Seen& alone = alone_[static_cast<size_t>(i)];
    for (size_t accepted = 1 + static_cast<size_t>(i) % 3; accepted < alone.tokens.size();
         accepted += 3) {
      SCOPED_TRACE(testing::Message() << "request " << i << " behind " << accepted);
      const auto end = alone.tokens.begin() + static_cast<ptrdiff_t>(accepted);
      const Seen seen = Run(harness.get(), Guided(i, {alone.tokens.begin(), end}));
      ExpectSame(seen, alone, accepted);
    }
  }
  ExpectJumped(*harness);
}

TEST_P(ModelGuideTest, WithoutFiguresOfWhatIsForced) {
  auto harness = Start(Options());
  std::vector<SequenceId> ids;
  for (int32_t i = 0; i < kGuidedRequests; ++i) {
    SequenceSpec spec = Guided(i);
    spec.bare_forced = i % 2 == 0;
    ids.push_back(harness->Admit(std::move(spec)));
  }
  int bare_samples = 0;
  for (size_t i = 0; i < ids.size(); ++i) {
    SCOPED_TRACE(i);
    ASSERT_TRUE(harness->RunUntilOver(ids[i]));
    const Seen& seen = harness->seen(ids[i]);
    ASSERT_EQ(seen.tokens, alone_[i].tokens);
    EXPECT_EQ(seen.finished->reason, alone_[i].finished->reason);
    for (size_t k = 0; k < seen.samples.size(); ++k) {
      // Rows of one token are measured in any case.
      const bool bare = std::isnan(seen.samples[k].eos.eos_logprob);
      bare_samples += bare ? 1 : 0;
      if (bare) {
        EXPECT_TRUE(i % 2 == 0 && seen.samples[k].forced);
      } else {
        EXPECT_EQ(seen.samples[k].logprob, alone_[i].samples[k].logprob);
      }
    }
  }
  EXPECT_EQ(bare_samples > 0, GetParam());  // Without jump-forward every row is of one token.
  ExpectJumped(*harness);
}

TEST_P(ModelGuideTest, SplitOverTwoEngines) {
  const auto other = test::MustLoad(dir_ / "model", {"cpu", "auto"}, "float32");
  EngineHarness prefill(Options(), other->kv(),
                        std::make_unique<Lent>(*other->runner, steps_wait_));
  auto decode = Start(Options());
  for (int32_t i = 0; i < kGuidedRequests; ++i) {
    SCOPED_TRACE(i);
    const Seen& alone = alone_[static_cast<size_t>(i)];
    SequenceSpec spec = Guided(i);
    spec.kind = SequenceKind::kReserved;
    const SequenceId d = decode->Admit(std::move(spec));
    ASSERT_TRUE(decode->RunUntil([&] { return decode->seen(d).reserved.has_value(); }));
    spec = Guided(i);
    spec.kind = SequenceKind::kPrefill;
    const SequenceId p = prefill.Admit(std::move(spec));
    ASSERT_TRUE(prefill.RunUntilOver(p));
    const Seen& first = prefill.seen(p);
    ASSERT_EQ(first.tokens, std::vector<TokenId>{alone.tokens[0]});
    CopyBlocks(first, decode->seen(d));
    decode->engine().CommitImport(d, first.samples[0]);
    prefill.engine().ReturnLease(p);
    ASSERT_TRUE(decode->RunUntilOver(d));
    ExpectSame(decode->seen(d), alone, 1);
  }
  ExpectJumped(*decode);
}

INSTANTIATE_TEST_SUITE_P(JumpForward, ModelGuideTest, ::testing::Bool(),
                         [](const auto& test) { return std::string(test.param ? "on" : "off"); });

}  // namespace
}  // namespace baton
