// Streams of guided requests: workers trust routers and check all the same.
#include <gtest/gtest.h>

#include <functional>
#include <future>
#include <string>
#include <utility>

#include "common/base/status.h"
#include "tests/fakes/eventually.h"
#include "tests/fakes/worker_harness.h"

namespace baton {
namespace {

worker_pb::Generation GuidedGeneration(worker_pb::GuideKind kind, const std::string& text) {
  worker_pb::Generation generation = MakeGeneration(10, 30);
  generation.mutable_guide()->set_kind(kind);
  generation.mutable_guide()->set_text(text);
  return generation;
}

// The fake model's first ids are the bytes.
std::string TextOf(const std::vector<TokenId>& tokens) {
  std::string text;
  for (const TokenId id : tokens) text += static_cast<char>(id);
  return text;
}

TEST(GuidedStreamsTest, TheAnswerIsWhatTheGuideAllows) {
  WorkerHarness worker({});
  DecodeCall call(worker, LocalStart(GuidedGeneration(worker_pb::GUIDE_KIND_REGEX, "[ab]{4}x")));
  call.ReadAll();
  ASSERT_TRUE(call.Finish().ok());
  ASSERT_EQ(call.tokens.size(), 6u);
  EXPECT_EQ(TextOf(call.tokens).find_first_not_of("ab"), 4u);
  EXPECT_EQ(call.tokens[4], 'x');
  EXPECT_EQ(call.tokens[5], 2);  // EOS
  ASSERT_TRUE(call.final);
  EXPECT_EQ(call.final->ending().cause(), worker_pb::FINISH_CAUSE_STOP_GRAMMAR);
  EXPECT_EQ(call.final->ending().stop_token_id(), 2);
  EXPECT_TRUE(worker.Idle());
}

TEST(GuidedStreamsTest, AResumedAnswerGoesOnInItsGuide) {
  WorkerHarness worker({});
  const auto generation = GuidedGeneration(worker_pb::GUIDE_KIND_REGEX, "[a-f]{12}");
  DecodeCall whole(worker, LocalStart(generation));
  whole.ReadAll();
  ASSERT_TRUE(whole.Finish().ok());
  worker_pb::Generation rest = generation;
  rest.mutable_generated_ids()->Assign(whole.tokens.begin(), whole.tokens.begin() + 7);
  DecodeCall call(worker, LocalStart(rest));
  call.ReadAll();
  ASSERT_TRUE(call.Finish().ok());
  EXPECT_EQ(call.tokens, std::vector<TokenId>(whole.tokens.begin() + 7, whole.tokens.end()));
}

TEST(GuidedStreamsTest, TheSplitGivesTheSameAsOneWorker) {
  WorkerHarness::Options options;
  WorkerHarness decode(options);
  options.role = WorkerRole::kPrefill;
  WorkerHarness prefill(options);
  const auto generation =
      GuidedGeneration(worker_pb::GUIDE_KIND_CHOICE, R"(["yes","no","perhaps"])");
  DecodeCall alone(decode, LocalStart(generation));
  alone.ReadAll();
  ASSERT_TRUE(alone.Finish().ok());
  const SplitResult split = RunSplit(prefill, decode, generation);
  EXPECT_TRUE(split.prefill.ok()) << split.prefill;
  EXPECT_TRUE(split.decode.ok()) << split.decode;
  EXPECT_EQ(split.tokens, alone.tokens);
  EXPECT_TRUE(prefill.Idle());
  EXPECT_TRUE(decode.Idle());
}

TEST(GuidedStreamsTest, AGuideThatCannotBeUsedIsTheClientsFault) {
  WorkerHarness::Options options;
  WorkerHarness decode(options);
  options.role = WorkerRole::kPrefill;
  WorkerHarness prefill(options);
  for (const auto& [kind, text] : {std::pair(worker_pb::GUIDE_KIND_JSON_SCHEMA, "{"),
                                   std::pair(worker_pb::GUIDE_KIND_REGEX, "("),
                                   std::pair(worker_pb::GUIDE_KIND_GRAMMAR, "start: nothing")}) {
    SCOPED_TRACE(text);
    DecodeCall call(decode, LocalStart(GuidedGeneration(kind, text)));
    call.ReadAll();
    const absl::Status status = call.Finish();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_EQ(ReasonOf(status), Reason::kInvalidGuide) << status;
  }
  // A prefill worker says the same, of a ticket that is good.
  const ReservedCall reserved(decode, GuidedGeneration(worker_pb::GUIDE_KIND_REGEX, "a"));
  worker_pb::PrefillRequest request;
  *request.mutable_generation() = GuidedGeneration(worker_pb::GUIDE_KIND_REGEX, "(");
  *request.mutable_ticket() = reserved.reserved.ticket();
  request.set_push_address(decode.address());
  KvShapeToProto(decode.shape(), request.mutable_layout());
  PrefillCall call(prefill, request);
  call.ReadAll();
  EXPECT_EQ(ReasonOf(call.Finish()), Reason::kInvalidGuide);
  EXPECT_TRUE(prefill.Idle());
  EXPECT_EQ(prefill.admitted(), 0);
}

TEST(GuidedStreamsTest, TooMuchInTheCourseOfTheAnswerEndsItAlone) {
  WorkerHarness::Options options;
  options.model.force = [](const kernels::SampleRow&) { return std::optional<TokenId>('a'); };
  WorkerHarness worker(options);
  worker_pb::Generation costly =
      GuidedGeneration(worker_pb::GUIDE_KIND_REGEX, "((a{1,300}){1,300}b?){1,300}c");
  costly.mutable_stopping()->set_max_tokens(200);
  DecodeCall bad(worker, LocalStart(costly));
  DecodeCall good(worker, LocalStart(GuidedGeneration(worker_pb::GUIDE_KIND_REGEX, "[ab]{20}")));
  bad.ReadAll();
  const absl::Status status = bad.Finish();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(ReasonOf(status), Reason::kLimitExceeded) << status;
  EXPECT_EQ(DetailOf(status).field, "guided_regex");
  good.ReadAll();
  EXPECT_TRUE(good.Finish().ok());
  EXPECT_EQ(good.tokens.size(), 21u);
  EXPECT_TRUE(worker.fault().ok());
  EXPECT_TRUE(worker.Idle());
}

TEST(GuidedStreamsTest, ACancelledOneLeavesNothing) {
  WorkerHarness worker({});
  worker.control().Pause();
  DecodeCall call(worker, LocalStart(GuidedGeneration(worker_pb::GUIDE_KIND_REGEX, "[ab]{20}")));
  call.Cancel();
  EXPECT_EQ(call.Finish().code(), absl::StatusCode::kCancelled);
  worker.control().Resume();
  EXPECT_TRUE(worker.Idle());
}

TEST(GuidedStreamsTest, ForACancelledOneNothingIsCompiled) {
  std::promise<void> opens, done;
  const std::shared_future<void> opened = opens.get_future().share();
  WorkerHarness worker({});
  GuideCompiler& guides = *worker.core().guides();
  const auto begin = [&](const std::string& text, std::function<bool()> wanted, auto begun) {
    EXPECT_TRUE(guides.Begin({.guide = {GuideKind::kRegex, text},
                              .generated = {},
                              .wanted = std::move(wanted),
                              .begun = std::move(begun)}));
  };
  const auto hold_up = [&] {
    opened.wait();
    return false;
  };
  begin("b", hold_up, [](const auto&) {});
  DecodeCall call(worker, LocalStart(GuidedGeneration(worker_pb::GUIDE_KIND_REGEX, "a")));
  EXPECT_TRUE(Eventually([&] { return worker.core().streams() == 1; }));
  call.Cancel();
  EXPECT_EQ(call.Finish().code(), absl::StatusCode::kCancelled);
  EXPECT_TRUE(Eventually([&] { return worker.core().streams() == 0; }));
  begin(
      "c", [] { return true; }, [&](const auto&) { done.set_value(); });
  opens.set_value();
  done.get_future().wait();
  EXPECT_EQ(guides.compiled(), 1) << "the last one";
}

TEST(GuidedStreamsTest, AWorkerWithoutGuidesSaysSo) {
  WorkerHarness::Options options;
  options.guides = false;
  WorkerHarness worker(options);
  DecodeCall call(worker, LocalStart(GuidedGeneration(worker_pb::GUIDE_KIND_REGEX, "a")));
  call.ReadAll();
  EXPECT_EQ(ReasonOf(call.Finish()), Reason::kUnsupportedField);
  EXPECT_TRUE(worker.Idle());
}

}  // namespace
}  // namespace baton
