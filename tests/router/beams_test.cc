#include <gmock/gmock.h>

#include <atomic>

#include "tests/router/router_fixture.h"

// Beam searches: nothing before the end, then all answers, whatever workers did meanwhile.
namespace baton::testing {
namespace {

using ::testing::HasSubstr;

class BeamsTest : public RouterTest {
 protected:
  static v1::GenerateRequest Search(int32_t width, int32_t results) {
    v1::GenerateRequest request = Request("hello", 9);
    v1::SamplingParams* sampling = request.mutable_spec()->mutable_sampling();
    sampling->clear_temperature();
    sampling->set_beam_width(width);
    sampling->set_n(results);
    sampling->set_length_penalty(0.6F);
    sampling->set_early_stopping(v1::EARLY_STOPPING_NEVER);
    return request;
  }
  // Answer i is what fake workers say of it.
  static void ExpectFound(const Answer& answer, int32_t results) {
    ASSERT_TRUE(answer.status.ok()) << answer.status;
    std::vector<std::string> texts(static_cast<size_t>(results));
    std::vector<std::vector<int32_t>> ids(static_cast<size_t>(results));
    int32_t finals = 0, tokens = 0;
    for (const v1::GenerateResponse& message : answer.messages) {
      if (message.has_delta()) {
        const auto index = static_cast<size_t>(message.delta().index());
        EXPECT_GE(static_cast<int32_t>(index), finals) << "in order";
        texts[index] += message.delta().text();
        ids[index].insert(ids[index].end(), message.delta().token_ids().begin(),
                          message.delta().token_ids().end());
      }
      if (!message.has_final()) continue;
      const v1::Final& final = message.final();
      EXPECT_EQ(final.index(), finals);
      EXPECT_DOUBLE_EQ(final.score(), -1 - finals / 4.0);
      EXPECT_EQ(final.usage().prompt_tokens(), finals == 0 ? 6 : 0);
      EXPECT_EQ(final.finish_reason(),
                finals % 2 == 0 ? v1::FINISH_REASON_STOP_EOS : v1::FINISH_REASON_LENGTH);
      EXPECT_EQ(final.has_total_usage(), finals + 1 == results);
      EXPECT_FALSE(final.has_seed());
      tokens += final.usage().completion_tokens();
      ++finals;
      if (!final.has_total_usage()) continue;
      EXPECT_EQ(final.total_usage().prompt_tokens(), 6);
      EXPECT_EQ(final.total_usage().completion_tokens(), tokens);
    }
    EXPECT_EQ(finals, results);
    for (int32_t i = 0; i < results; ++i) {
      const std::vector<int32_t> expected = Expected("hello", i + 2);
      EXPECT_EQ(texts[static_cast<size_t>(i)], TextOf(expected)) << i;
      EXPECT_EQ(std::ssize(ids[static_cast<size_t>(i)]), i + 2 + (i % 2 == 0 ? 1 : 0));
    }
  }
};

TEST_F(BeamsTest, AllAnswersComeAtTheEndBestFirst) {
  AddDecode();
  AddPrefill();
  StartRouter();
  ExpectFound(Generate(Search(4, 3)), 3);
  const worker::v1::Generation seen = decode_[0]->seen().at(0);
  EXPECT_EQ(seen.beams().width(), 4);
  EXPECT_EQ(seen.beams().results(), 3);
  EXPECT_FLOAT_EQ(seen.beams().length_penalty(), 0.6F);
  EXPECT_EQ(seen.beams().early_stopping(), worker::v1::EARLY_STOPPING_NEVER);
  EXPECT_EQ(seen.sampling().temperature(), 0);
  EXPECT_EQ(prefill_[0]->prefill_streams(), 1);
  ExpectFound(Generate(Search(2, 1)), 1);
}

TEST_F(BeamsTest, OneWorkerAloneFindsTheSame) {
  AddDecode();
  options_.local_prefill_below = 1000;
  StartRouter();
  ExpectFound(Generate(Search(4, 4)), 4);
}

TEST_F(BeamsTest, OneMessageHasThemAll) {
  AddDecode();
  StartRouter();
  v1::GenerateOnceRequest request;
  *request.mutable_spec() = Search(4, 2).spec();
  request.set_text("hello");
  grpc::ClientContext context;
  v1::GenerateOnceResponse response;
  ASSERT_TRUE(stub_->GenerateOnce(&context, request, &response).ok());
  EXPECT_DOUBLE_EQ(response.final().score(), -1);
  ASSERT_EQ(response.further_size(), 1);
  EXPECT_DOUBLE_EQ(response.further(0).final().score(), -1.25);
  EXPECT_EQ(response.further(0).output().text(), TextOf(Expected("hello", 3)));
  const int32_t tokens = response.further(0).final().total_usage().completion_tokens();
  EXPECT_EQ(tokens, 6);
  EXPECT_EQ(Metric("baton_generation_tokens_total{engine"), tokens);
}

TEST_F(BeamsTest, AReplayBeginsWithThePromptAndFindsTheSame) {
  auto died = std::make_shared<std::atomic<bool>>(false);
  const auto die_once = [&](FakePoint point) {
    return [died, point](const FakeMoment& moment) {
      const bool now = moment.point == point && !died->exchange(true);
      return now ? FakeAction::Fail(absl::UnavailableError("gone")) : FakeAction::Go();
    };
  };
  for (const FakePoint point : {FakePoint::kStarted, FakePoint::kFinal}) {
    died->store(false);
    AddDecode([&](FakeWorkerOptions& worker) { worker.script = die_once(point); });
  }
  AddPrefill();
  StartRouter();
  for (int i = 0; i < 4; ++i) {
    died->store(false);
    const Answer answer = Generate(Search(4, 3));
    ExpectFound(answer, 3);
  }
  int replays = 0;
  for (const auto& worker : decode_) {
    for (const worker::v1::Generation& seen : worker->seen()) {
      EXPECT_EQ(seen.generated_ids_size(), 0);
      replays += seen.attempt() > 1 ? 1 : 0;
    }
  }
  EXPECT_GT(replays, 0);
}

TEST_F(BeamsTest, AWorkerThatKnowsNoBeamsIsNotBelieved) {
  AddDecode([](FakeWorkerOptions& worker) { worker.knows_beams = false; });
  StartRouter();
  const Answer answer = Generate(Search(4, 3));
  EXPECT_EQ(ReasonText(answer.status), "ATTEMPTS_EXHAUSTED") << answer.status;
}

TEST_F(BeamsTest, WorkersOfAnEarlierVersionGetNoSearch) {
  options_.deadlines.no_worker = std::chrono::milliseconds(200);
  AddDecode([](FakeWorkerOptions& worker) {
    worker.knows_beams = false;
    worker.protocol_minor = kProtocolMinorOfBeams - 1;
  });
  StartRouter();
  const Answer answer = Generate(Search(4, 3));
  EXPECT_EQ(ReasonText(answer.status), "NO_WORKER") << answer.status;
  EXPECT_EQ(decode_[0]->decode_streams(), 0);
  EXPECT_TRUE(Generate(Request("hello", 3)).status.ok());
}

TEST_F(BeamsTest, AWorkerThatTellsOfMoreStepsThanThereMayBeIsNotBelieved) {
  for (const int32_t steps : {-1, 10}) {
    AddDecode([&](FakeWorkerOptions& worker) { worker.beam_steps = steps; });
  }
  StartRouter();
  const Answer answer = Generate(Search(4, 3));
  EXPECT_EQ(ReasonText(answer.status), "ATTEMPTS_EXHAUSTED") << answer.status;
  EXPECT_GT(decode_[0]->decode_streams(), 0);
  EXPECT_GT(decode_[1]->decode_streams(), 0);
}

TEST_F(BeamsTest, WithoutMaxTokensBeamsFitTheLargestPoolThatIsThere) {
  options_.deadlines.no_worker = std::chrono::milliseconds(500);
  for (const int32_t blocks : {8, 64}) {
    AddDecode([&](FakeWorkerOptions& worker) {
      worker.blocks_total = blocks;
      worker.layout.set_block_size(16);
    });
  }
  StartRouter();
  v1::GenerateRequest request = Search(4, 1);
  request.mutable_spec()->mutable_stop()->clear_max_tokens();
  ASSERT_TRUE(Generate(request).status.ok());
  EXPECT_EQ(decode_[1]->seen().at(0).stopping().max_tokens(), 64 / 4 * 16 - 6);
  decode_[1]->Kill();
  ASSERT_TRUE(Eventually([&] { return Metric("baton_router_worker_up") == 1; }));
  const Answer answer = Generate(request);
  ASSERT_TRUE(answer.status.ok()) << answer.status;
  EXPECT_EQ(decode_[0]->seen().at(0).stopping().max_tokens(), 8 / 4 * 16 - 6);
}

TEST_F(BeamsTest, WhatNoPoolHoldsIsTooLong) {
  AddDecode([](FakeWorkerOptions& worker) {
    worker.blocks_total = 8;
    worker.layout.set_block_size(16);
  });
  StartRouter();
  v1::GenerateRequest request = Search(16, 1);
  const Answer answer = Generate(request);
  EXPECT_EQ(ReasonText(answer.status), "TOO_LONG") << answer.status;
  EXPECT_THAT(std::string(answer.status.message()), HasSubstr("of each beam"));
  request.mutable_spec()->mutable_sampling()->set_beam_width(8);
  EXPECT_TRUE(Generate(request).status.ok());
}

TEST_F(BeamsTest, WhatTellsOfSingleStepsIsRefusedByName) {
  AddDecode();
  StartRouter();
  const struct {
    const char* field;
    std::function<void(v1::GenerationSpec*)> set;
  } cases[] = {
      {"spec.stop.stop", [](auto* spec) { spec->mutable_stop()->add_stop("x"); }},
      {"spec.stop.min_tokens", [](auto* spec) { spec->mutable_stop()->set_min_tokens(2); }},
      {"spec.stop.eos_policy",
       [](auto* spec) { spec->mutable_stop()->set_eos_policy(v1::EOS_POLICY_IGNORE_MASK); }},
      {"spec.guided_regex", [](auto* spec) { spec->set_guided_regex("a+"); }},
      {"spec.preset", [](auto* spec) { spec->set_preset("qa"); }},
      {"spec.output.logprobs", [](auto* spec) { spec->mutable_output()->set_logprobs(1); }},
      {"spec.output.echo", [](auto* spec) { spec->mutable_output()->set_echo(true); }},
      {"spec.eos.steps", [](auto* spec) { spec->mutable_eos()->set_steps(true); }},
      {"spec.eos.predict", [](auto* spec) { spec->mutable_eos()->set_predict(true); }},
  };
  for (const auto& one : cases) {
    v1::GenerateRequest request = Search(4, 2);
    one.set(request.mutable_spec());
    const Answer answer = Generate(request);
    EXPECT_EQ(ReasonText(answer.status), "CONFLICTING_OPTIONS") << answer.status;
    EXPECT_EQ(DetailOf(answer.status).field, one.field) << answer.status;
  }
  ExpectFound(Generate(Search(4, 2)), 2);
}

}  // namespace
}  // namespace baton::testing
