#include <cmath>
#include <functional>
#include <iostream>
#include <sstream>

#include "common/base/status.h"
#include "common/rpc/status_map.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/fakes/fake_inference_service.h"
#include "tests/tools/answers.h"
#include "tools/commands.h"

namespace baton {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

struct Output {
  int exit = 0;
  std::string out, err;
  std::vector<nlohmann::json> lines() const {
    std::vector<nlohmann::json> parsed;
    std::istringstream stream(out);
    for (std::string line; std::getline(stream, line);) {
      parsed.push_back(nlohmann::json::parse(line, nullptr, false));
    }
    return parsed;
  }
};

Output Generate(const Arguments& arguments, const std::string& input = "") {
  std::istringstream stream(input);
  std::streambuf* const old = std::cin.rdbuf(stream.rdbuf());
  ::testing::internal::CaptureStdout();
  ::testing::internal::CaptureStderr();
  Output run;
  run.exit = GenerateCommand({arguments});
  run.out = ::testing::internal::GetCapturedStdout();
  run.err = ::testing::internal::GetCapturedStderr();
  std::cin.rdbuf(old);
  return run;
}

TEST(GenerateCommand, StreamsTheAnswerAndTellsHowItEnded) {
  FakeInferenceService server(GoodAnswer);
  const Output run = Generate({"--server", server.address(), "--prompt", "hello", "--eos-steps"});
  EXPECT_EQ(run.exit, 0);
  EXPECT_EQ(run.out, "hello\n");
  EXPECT_THAT(run.err, HasSubstr("TTFT 10.0 ms, 5+2 tokens, ended by stop_eos"));
  EXPECT_THAT(run.err, HasSubstr("EOS ▅█  at most 0.75, at step 2 of 2"));
}

// The first line under an answer of `tokens` that took `total_ms`, the first of them 10.
std::string SummaryText(int32_t tokens, double total_ms) {
  FakeInferenceService server([&](const auto& spec, const std::string& text) {
    auto answer = GoodAnswer(spec, text);
    v1::Final* const final = answer.events.back().mutable_final();
    final->mutable_usage()->set_completion_tokens(tokens);
    final->mutable_timings()->set_total_ms(total_ms);
    return answer;
  });
  return Generate({"--server", server.address(), "--prompt", "hello"}).err;
}

TEST(GenerateCommand, ARateIsToldOfTokensThatCameOneByOne) {
  EXPECT_THAT(SummaryText(9, 30), HasSubstr("TTFT 10.0 ms, 400.0 tokens/s, 5+9 tokens"));
  EXPECT_THAT(SummaryText(8, 30), HasSubstr("TTFT 10.0 ms, 5+8 tokens")) << "too few of them";
  EXPECT_THAT(SummaryText(9, 10), HasSubstr("TTFT 10.0 ms, 5+9 tokens")) << "all came at once";
}

TEST(GenerateCommand, ALengthTargetAndItsStrengthNeedEachOther) {
  const Output target = Generate({"--prompt", "hello", "--length-target", "5"});
  EXPECT_EQ(target.exit, 2);
  EXPECT_THAT(target.err, HasSubstr("--length-target without --length-strength: each needs the "
                                    "other. Try: --length-strength 5"));
  const Output strength = Generate({"--prompt", "hello", "--length-strength", "5"});
  EXPECT_EQ(strength.exit, 2);
  EXPECT_THAT(strength.err, HasSubstr("--length-strength without --length-target"));
}

// What a terminal shows of an answer of two tokens, foreseen behind the first.
std::string ForeseenText(const std::function<void(v1::Final*)>& change) {
  FakeInferenceService server([&](const auto& spec, const std::string& text) {
    auto answer = GoodAnswer(spec, text);
    EXPECT_TRUE(spec.eos().predict());
    change(answer.events.back().mutable_final());
    v1::GenerateResponse prediction;
    prediction.mutable_prediction()->set_at_step(1);
    prediction.mutable_prediction()->set_expected_remaining(3.2);
    prediction.mutable_prediction()->set_predictor("gru");
    answer.events.insert(answer.events.begin() + 2, prediction);
    return answer;
  });
  const Output run = Generate({"--server", server.address(), "--prompt", "hello", "--predict"});
  EXPECT_EQ(run.exit, 0);
  return run.err;
}

TEST(GenerateCommand, WhatWasForeseenStandsBesideWhatCame) {
  EXPECT_THAT(ForeseenText([](v1::Final*) {}),
              HasSubstr("  tokens to go, predicted/actual (predictor gru): 3/1 at step 1\n"));
}

TEST(GenerateCommand, AnAnswerThatWasCutOffWouldHaveGoneOn) {
  for (const auto reason : {v1::FINISH_REASON_LENGTH, v1::FINISH_REASON_STOP_STRING,
                            v1::FINISH_REASON_STOP_TOKEN, v1::FINISH_REASON_RUNAWAY}) {
    EXPECT_THAT(ForeseenText([&](v1::Final* final) { final->set_finish_reason(reason); }),
                HasSubstr("(predictor gru): 3/at least 1 at step 1\n"));
  }
}

TEST(GenerateCommand, WhatCameIsTheNaturalEndWhereEosWasIgnored) {
  EXPECT_THAT(ForeseenText([](v1::Final* final) {
                final->set_finish_reason(v1::FINISH_REASON_LENGTH);
                final->mutable_usage()->set_completion_tokens(40);
                final->mutable_usage()->set_natural_end_step(8);
              }),
              HasSubstr("(predictor gru): 3/7 at step 1\n"));
}

TEST(GenerateCommand, LogprobsAreShownWithoutJson) {
  FakeInferenceService server([](const auto& spec, const std::string& text) {
    auto answer = GoodAnswer(spec, text);
    auto* first = answer.events[1].mutable_delta()->add_logprobs();
    first->set_logprob(-0.5);
    first->set_text("a \"b\"\n\u00E9");
    for (const char* other : {" x", "y"}) {
      first->add_top()->set_text(other);
      first->mutable_top(first->top_size() - 1)->set_logprob(-0.25F);
    }
    auto* second = answer.events[2].mutable_delta()->add_logprobs();
    second->set_logprob(-12.25);
    second->set_text("\uFFFD");
    second->set_raw_bytes("\xC3");
    return answer;
  });
  const Output run = Generate({"--server", server.address(), "--prompt", "hello", "--logprobs=2"});
  EXPECT_EQ(run.exit, 0);
  EXPECT_EQ(run.out, "hello\n");
  EXPECT_THAT(run.err, HasSubstr("    -0.5000  \"a \\\"b\\\"\\n\u00E9\"   of: -0.2500 \" x\", "
                                 "-0.2500 \"y\"\n"
                                 "   -12.2500  \"\\xc3\"\n"));
  EXPECT_EQ(server.generate_requests()[0].spec().output().logprobs(), 2);
}

TEST(GenerateCommand, SendsWhatTheFlagsSayAndNothingElse) {
  FakeInferenceService server(GoodAnswer);
  Generate({"--server", server.address(), "--prompt", "x", "--max-tokens", "0", "--temperature",
            "nan", "--stop", "a", "--stop", "b", "--stop-token-id", "4", "--seed", "0", "--eos",
            "continue"});
  const auto requests = server.generate_requests();
  ASSERT_EQ(requests.size(), 1u);
  const auto& spec = requests[0].spec();
  EXPECT_TRUE(spec.stop().has_max_tokens());
  EXPECT_EQ(spec.stop().max_tokens(), 0);
  EXPECT_TRUE(std::isnan(spec.sampling().temperature()));
  EXPECT_EQ(spec.stop().stop_size(), 2);
  EXPECT_EQ(spec.stop().stop_token_ids(0), 4);
  EXPECT_TRUE(spec.sampling().has_seed());
  EXPECT_EQ(spec.stop().eos_policy(), v1::EOS_POLICY_IGNORE_CONTINUE);
  EXPECT_FALSE(spec.sampling().has_top_p());
  EXPECT_FALSE(spec.output().has_logprobs());
  EXPECT_FALSE(spec.eos().steps());
}

TEST(GenerateCommand, JsonHasOneLinePerRequestInTheirOrder) {
  FakeInferenceService server(GoodAnswer);
  std::string input;
  for (int i = 0; i < 20; ++i) input += R"({"prompt":"p)" + std::to_string(i) + "\"}\n";
  const Output run = Generate(
      {"--server", server.address(), "--prompts", "-", "--json", "--concurrency", "7"}, input);
  EXPECT_EQ(run.exit, 0);
  const auto lines = run.lines();
  ASSERT_EQ(lines.size(), 20u);
  for (size_t i = 0; i < lines.size(); ++i) EXPECT_EQ(lines[i]["text"], "p" + std::to_string(i));
  EXPECT_EQ(lines[0]["request_id"], "made-by-server");
}

TEST(GenerateCommand, ChatSendsMessages) {
  FakeInferenceService server(GoodAnswer);
  const Output run = Generate({"--server", server.address(), "--prompt", "hi", "--chat", "--json"});
  EXPECT_EQ(run.exit, 0);
  ASSERT_EQ(server.chat_requests().size(), 1u);
  EXPECT_EQ(server.chat_requests()[0].messages(0).role(), "user");
  EXPECT_EQ(run.lines()[0]["text"], "hi");
}

TEST(GenerateCommand, AFailedRequestIsAnErrorLineAndExit1) {
  FakeInferenceService server([](const auto& spec, const std::string& text) {
    if (text != "bad") return GoodAnswer(spec, text);
    FakeInferenceService::Answer answer;
    answer.status = ToGrpcStatus(InvalidArgument(Reason::kTooLong, "prompt", "too long"));
    return answer;
  });
  const Output run = Generate({"--server", server.address(), "--prompts", "-", "--json"},
                              "{\"prompt\":\"a\"}\n{\"prompt\":\"bad\",\"request_id\":\"r\"}\n"
                              "{\"prompt\":\"c\",\"request_id\":\"s\",\"top_k\":\"x\"}\n"
                              "{\"prompt\":\"d\"}\n");
  EXPECT_EQ(run.exit, 1);
  const auto lines = run.lines();
  ASSERT_EQ(lines.size(), 4u);
  EXPECT_EQ(lines[1]["error"]["code"], "INVALID_ARGUMENT");
  EXPECT_EQ(lines[1]["error"]["reason"], "TOO_LONG");
  EXPECT_EQ(lines[1]["request_id"], "r");
  EXPECT_EQ(lines[2]["error"]["reason"], "INVALID_SAMPLING");
  EXPECT_EQ(lines[3]["text"], "d");
  EXPECT_EQ(server.generate_requests().size(), 3u) << "what the API cannot hold is not sent";
}

TEST(GenerateCommand, TextThatIsNoUtf8IsNotSent) {
  FakeInferenceService server(GoodAnswer);
  for (const Arguments& more :
       {Arguments{"--prompt", "a\xff"}, Arguments{"--chat", "--prompt", "a\xff"},
        Arguments{"--prompt", "a", "--stop", "\xff"}}) {
    Arguments arguments = {"--server", server.address()};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const Output run = Generate(arguments);
    EXPECT_EQ(run.exit, 1);
    EXPECT_THAT(run.err, HasSubstr("is not valid UTF-8; send text as UTF-8"));
    EXPECT_THAT(run.err, Not(HasSubstr("libprotobuf")));
  }
  EXPECT_TRUE(server.generate_requests().empty());
  EXPECT_TRUE(server.chat_requests().empty());
}

TEST(GenerateCommand, AStreamWithoutFinalIsAFailure) {
  FakeInferenceService server([](const auto& spec, const std::string& text) {
    auto answer = GoodAnswer(spec, text);
    answer.events.pop_back();
    return answer;
  });
  const Output run = Generate({"--server", server.address(), "--prompt", "x", "--json"});
  EXPECT_EQ(run.exit, 1);
  EXPECT_EQ(run.lines()[0]["error"]["code"], "INTERNAL");
}

TEST(GenerateCommand, AnUnreachableServerIsAFailure) {
  const Output run =
      Generate({"--server", "127.0.0.1:1", "--prompt", "x", "--json", "--timeout", "5s"});
  EXPECT_EQ(run.exit, 1);
  EXPECT_EQ(run.lines()[0]["error"]["code"], "UNAVAILABLE");
}

TEST(GenerateCommand, ALineThatIsNotJsonExits2AndSendsNothing) {
  FakeInferenceService server(GoodAnswer);
  const Output run = Generate({"--server", server.address(), "--prompts", "-", "--json"},
                              "{\"prompt\":\"a\"}\nnot json\n");
  EXPECT_EQ(run.exit, 2);
  EXPECT_EQ(run.out, "");
  EXPECT_THAT(run.err, HasSubstr("standard input line 2"));
  EXPECT_TRUE(server.generate_requests().empty());
}

TEST(GenerateCommand, WrongUsageExits2) {
  EXPECT_EQ(Generate({}).exit, 2);
  EXPECT_EQ(Generate({"--prompt", "x", "--prompts", "f"}).exit, 2);
  EXPECT_EQ(Generate({"--prompts", "/nowhere.jsonl"}).exit, 2);
  EXPECT_EQ(Generate({"--prompts", "/"}).exit, 2);
  EXPECT_EQ(Generate({"--prompts", "/dev/null"}).exit, 2);
  EXPECT_EQ(Generate({"--prompts", "-"}, "").exit, 2);
  EXPECT_EQ(Generate({"--prompt", "x", "--max-tokens", "many"}).exit, 2);
  for (const char* server : {"", "localhost", "http://localhost:8000", "localhost:0"}) {
    EXPECT_EQ(Generate({"--server", server, "--prompt", "x"}).exit, 2) << server;
  }
  const Output tagged = Generate({"--prompt", "x", "--tag", std::string(65, 'x')});
  EXPECT_EQ(tagged.exit, 2);
  EXPECT_THAT(tagged.err, HasSubstr("found 65 bytes, expected at most 64"));
  const Output typo = Generate({"--prompt", "x", "--max-token", "5"});
  EXPECT_EQ(typo.exit, 2);
  EXPECT_THAT(typo.err, HasSubstr("Try: --max-tokens"));
  EXPECT_THAT(typo.err, StartsWith("baton generate: fatal: "));
}

}  // namespace
}  // namespace baton
