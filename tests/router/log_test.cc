// What a router's log tells of the requests that it serves.
#include <atomic>
#include <future>
#include <memory>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "tests/fakes/log_text.h"
#include "tests/router/router_fixture.h"

namespace baton::testing {
namespace {

using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

class RouterLogTest : public RouterTest {
 protected:
  RouterLogTest() {
    AddDecode();
    AddPrefill();
  }
};

int Lines(const std::string& log, const std::string& with) {
  int count = 0;
  for (size_t at = log.find(with); at != std::string::npos; at = log.find(with, at + 1)) ++count;
  return count;
}

TEST_F(RouterLogTest, TheLoadIsToldWhileThereIsAnyAndOnceWhenThereIsNone) {
  const LogText log;
  options_.log_stats_interval = std::chrono::milliseconds(20);
  StartRouter();
  ASSERT_TRUE(Generate(Request("hello", 8)).status.ok());
  v1::GenerateRequest wrong = Request("hello", 8);
  wrong.mutable_spec()->mutable_sampling()->set_top_p(7);
  ASSERT_FALSE(Generate(wrong).status.ok());
  EXPECT_TRUE(Eventually([&] { return log.str().find("load: idle") != std::string::npos; }));
  EXPECT_THAT(log.str(), AllOf(HasSubstr("1 requests answered"), HasSubstr("1 failed")));
  router_.reset();
}

TEST_F(RouterLogTest, EachRequestHasALineAtLevelDebug) {
  const LogText log(spdlog::level::debug);
  StartRouter();
  v1::GenerateRequest request = Request("hello", 8);
  request.mutable_spec()->set_request_id("told");
  ASSERT_TRUE(Generate(request).status.ok());
  router_.reset();
  EXPECT_THAT(log.str(),
              ContainsRegex("request told ended: reason=length tenant=default prompt_tokens=6 "
                            "cached_tokens=[0-9]+ output_tokens=8 queue_ms=[0-9.]+ "
                            "ttft_ms=[0-9.]+ total_ms=[0-9.]+ attempts=1\n"));
}

TEST_F(RouterLogTest, AtLevelInfoAnAnsweredRequestHasNone) {
  const LogText log;
  StartRouter();
  v1::GenerateRequest request = Request("hello", 8);
  request.mutable_spec()->set_request_id("told");
  ASSERT_TRUE(Generate(request).status.ok());
  router_.reset();
  EXPECT_THAT(log.str(), Not(HasSubstr("told")));
  EXPECT_THAT(log.str(), Not(HasSubstr("load:")));
}

// However many answers a request has.
TEST_F(RouterLogTest, ARequestThatADrainEndsHasOneLine) {
  decode_.clear();
  AddDecode([](FakeWorkerOptions& worker) {
    worker.script = [](const FakeMoment& moment) {
      return moment.point == FakePoint::kToken ? FakeAction::Hang() : FakeAction::Go();
    };
  });
  const LogText log;
  StartRouter();
  std::vector<std::future<absl::Status>> requests;
  for (const std::string id : {"alone", "several"}) {
    v1::GenerateRequest request = Request("hello", 8);
    request.mutable_spec()->set_request_id(id);
    request.mutable_spec()->mutable_sampling()->set_n(id == "alone" ? 1 : 4);
    requests.push_back(
        std::async(std::launch::async, [this, request] { return Generate(request).status; }));
  }
  ASSERT_TRUE(Eventually([&] { return decode_[0]->decode_streams() == 5; }));
  router_->Drain(base::Duration::zero());
  for (auto& request : requests) EXPECT_EQ(ReasonText(request.get()), "DRAINED");
  router_.reset();
  for (const std::string id : {"alone", "several"}) {
    EXPECT_EQ(Lines(log.str(), "request " + id), 1) << log.str();
  }
}

class AttemptLogTest : public RouterTest {
 protected:
  // The log of a request whose first attempt a decode worker ends at `point`.
  std::string LogOfFailureAt(FakePoint point) {
    const auto failed = std::make_shared<std::atomic<bool>>(false);
    AddDecode([&](FakeWorkerOptions& worker) {
      worker.script = [point, failed](const FakeMoment& moment) {
        if (moment.point != point || failed->exchange(true)) return FakeAction::Go();
        return FakeAction::Fail(absl::UnavailableError("connection lost"));
      };
    });
    const LogText log;
    StartRouter();
    EXPECT_TRUE(Generate(Request("hello", 8)).status.ok());
    router_.reset();
    return log.str();
  }
};

TEST_F(AttemptLogTest, AnAttemptThatFailedNamesItsWorkersByRole) {
  AddPrefill();
  EXPECT_THAT(LogOfFailureAt(FakePoint::kToken),
              ContainsRegex("attempt 1 on decode worker [0-9.]+:[0-9]+, prefill worker "
                            "[0-9.]+:[0-9]+ ended "));
}

TEST_F(AttemptLogTest, AnAttemptThatFailedBeforeItsPrefillSaysSo) {
  AddPrefill();
  EXPECT_THAT(LogOfFailureAt(FakePoint::kDecodeOpen),
              HasSubstr(", prefill worker not asked yet ended "));
}

TEST_F(AttemptLogTest, AnAttemptWithoutPrefillWorkerIsLocal) {
  EXPECT_THAT(LogOfFailureAt(FakePoint::kToken), HasSubstr(", prefill worker local ended "));
}

// Without a word a decode worker would compute all prompts itself. However they come up, the lack
// is told once for all workers that have it.
TEST_F(RouterLogTest, WorkersThatCannotHandOverAreToldOf) {
  const LogText log;
  for (int i = 0; i < 2; ++i)
    AddDecode([](FakeWorkerOptions& worker) { worker.layout.set_dtype("int8"); });
  StartRouter();
  router_.reset();
  const std::string lack = "decode workers with KV blocks int8 block 16 ";
  EXPECT_THAT(log.str(), ContainsRegex(lack + ".*prefill worker; these have float32 block "
                                              "16 .*the same --kv-dtype and --block-size"));
  EXPECT_EQ(log.str().find(lack), log.str().rfind(lack));
}

}  // namespace
}  // namespace baton::testing
