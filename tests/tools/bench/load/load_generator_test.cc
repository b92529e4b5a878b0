#include "tools/bench/load/load_generator.h"

#include <algorithm>
#include <deque>
#include <thread>
#include <utility>

#include "common/base/mutex.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/tools/bench/load/load_helpers.h"

namespace baton::bench {
namespace {

using ::testing::HasSubstr;

base::Instant Now() { return std::chrono::steady_clock::now(); }

// Answers on a thread of its own, by a function of how many requests came before.
class ScriptedClient final : public StreamClient {
 public:
  struct Answer {
    base::Duration after{};
    absl::Status status;
    bool never = false;
  };
  using Script = std::function<Answer(int64_t index)>;

  // Nothing ends before `hold` requests were under way at once.
  explicit ScriptedClient(Script script, size_t hold = 0)
      : script_(std::move(script)), hold_(hold), thread_([this] { Work(); }) {}
  ~ScriptedClient() override {
    CancelAll();
    {
      base::MutexLock lock(&mutex_);
      over_ = true;
      changed_.NotifyAll();
    }
    thread_.join();
  }

  void Start(const PlannedRequest& request, std::shared_ptr<Observer> observer) override {
    Answer answer = script_(request.index);
    base::MutexLock lock(&mutex_);
    const base::Instant due = answer.never ? base::kNever : Now() + answer.after;
    streams_.push_back({due, std::move(answer.status), std::move(observer)});
    most_ = std::max(most_, streams_.size());
    ++starts_;
    if (streams_.size() >= hold_) hold_ = 0;
    changed_.NotifyAll();
  }

  void CancelAll() override {
    base::MutexLock lock(&mutex_);
    hold_ = 0;
    for (Stream& stream : streams_) {
      stream.due = base::Instant();
      stream.status = absl::CancelledError("by us");
    }
    changed_.NotifyAll();
  }

  void WaitForStarts(int count) {
    base::MutexLock lock(&mutex_);
    while (starts_ < count) changed_.Wait(&mutex_);
  }
  size_t most_at_once() {
    base::MutexLock lock(&mutex_);
    return most_;
  }

 private:
  struct Stream {
    base::Instant due;
    absl::Status status;
    std::shared_ptr<Observer> observer;
  };

  void Work() {
    base::MutexLock lock(&mutex_);
    while (!over_ || !streams_.empty()) {
      const auto next =
          std::min_element(streams_.begin(), streams_.end(),
                           [](const Stream& a, const Stream& b) { return a.due < b.due; });
      if (next == streams_.end() || next->due == base::kNever || hold_ > 0) {
        changed_.Wait(&mutex_);
      } else if (Now() < next->due) {
        changed_.WaitUntil(&mutex_, next->due);
      } else {
        Stream stream = std::move(*next);
        streams_.erase(next);
        mutex_.Unlock();
        End(std::move(stream));
        mutex_.Lock();
      }
    }
  }

  static void End(Stream stream) {
    RequestRecord result;
    result.cancelled = absl::IsCancelled(stream.status);
    if (stream.status.ok()) {
      stream.observer->OnChunk(Now(), 1);
      result.output_tokens = 1;
    }
    result.status = std::move(stream.status);
    stream.observer->OnEnd(Now(), std::move(result));
  }

  const Script script_;
  base::Mutex mutex_;
  base::CondVar changed_;
  std::deque<Stream> streams_ ABSL_GUARDED_BY(mutex_);
  size_t most_ ABSL_GUARDED_BY(mutex_) = 0;
  int starts_ ABSL_GUARDED_BY(mutex_) = 0;
  size_t hold_ ABSL_GUARDED_BY(mutex_);
  bool over_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

TEST(RunLoad, OpenLoopSendsNothingBeforeItsTime) {
  ScriptedClient client([](int64_t) { return ScriptedClient::Answer{}; });
  const RequestPlan plan = PlanOf(50, 1, 4 * kMillisecond);
  const LoadResult result = LoadOf(plan, {}, &client);
  ASSERT_EQ(result.records.size(), 50u);
  ASSERT_EQ(result.lag_ms.size(), 50u);
  for (size_t i = 0; i < 50; ++i) {
    const RequestRecord& record = result.records[i];
    EXPECT_EQ(record.index, static_cast<int64_t>(i));
    EXPECT_DOUBLE_EQ(record.scheduled, 0.004 * static_cast<double>(i));
    EXPECT_GE(record.sent, record.scheduled);
    EXPECT_NEAR(result.lag_ms[i], 1e3 * (record.sent - record.scheduled), 1e-6);
    EXPECT_TRUE(record.ok());
    EXPECT_EQ(record.chunks.size(), 1u);
    EXPECT_GE(record.ended, record.last_token());
    EXPECT_EQ(record.max_tokens, 1);
    EXPECT_EQ(record.planned_prompt_tokens, 3);
  }
  EXPECT_GE(result.duration_s, 0.004 * 49);
  EXPECT_FALSE(result.interrupted);
  EXPECT_TRUE(result.gave_up.ok());
}

TEST(RunLoad, OpenLoopDoesNotWaitForAnswers) {
  ScriptedClient client([](int64_t index) {
    return ScriptedClient::Answer{.after = index == 0 ? 300 * kMillisecond : base::Duration{}};
  });
  const LoadResult result = LoadOf(PlanOf(20, 1, kMillisecond), {}, &client);
  ASSERT_EQ(result.records.size(), 20u);
  for (size_t i = 1; i < 20; ++i) EXPECT_LT(result.records[i].sent, result.records[0].ended);
}

// The lag of a generator that cannot keep up is not hidden: a client whose Start blocks delays what
// comes after it, and latency still counts from the planned arrival.
TEST(RunLoad, LagIsReportedAndPartOfTheLatency) {
  ScriptedClient client([](int64_t index) {
    if (index == 0) std::this_thread::sleep_for(100 * kMillisecond);
    return ScriptedClient::Answer{};
  });
  const LoadResult result = LoadOf(PlanOf(10, 1, kMillisecond), {}, &client);
  for (size_t i = 1; i < 10; ++i) {
    EXPECT_GE(result.lag_ms[i], 100 - static_cast<double>(i));
    EXPECT_GE(result.records[i].first_token() - result.records[i].scheduled,
              0.1 - 0.001 * static_cast<double>(i));
  }
}

TEST(RunLoad, ClosedLoopKeepsExactlySoManyUnderWay) {
  ScriptedClient client([](int64_t) { return ScriptedClient::Answer{.after = 2 * kMillisecond}; },
                        /*hold=*/7);
  const LoadResult result = LoadOf(PlanOf(60, 1), {.concurrency = 7}, &client);
  ASSERT_EQ(result.records.size(), 60u);
  EXPECT_EQ(client.most_at_once(), 7u);
  // The eighth waits for an end, and each later one for one more.
  std::vector<double> ends;
  for (const RequestRecord& record : result.records) ends.push_back(record.ended);
  std::sort(ends.begin(), ends.end());
  for (size_t i = 7; i < 60; ++i) {
    EXPECT_GE(result.records[i].sent, ends[i - 7]);
    EXPECT_DOUBLE_EQ(result.records[i].scheduled, result.records[i].sent);
    EXPECT_NEAR(result.lag_ms[i], 1e3 * (result.records[i].sent - ends[i - 7]), 1e-6);
  }
}

TEST(RunLoad, ClosedLoopSendsNothingAfterItsDuration) {
  ScriptedClient client([](int64_t) { return ScriptedClient::Answer{.after = 5 * kMillisecond}; });
  const LoadResult result =
      LoadOf(PlanOf(100'000, 1), {.concurrency = 2, .duration = 100 * kMillisecond}, &client);
  EXPECT_FALSE(result.records.empty());
  EXPECT_LE(result.records.size(), 42u);
  for (const RequestRecord& record : result.records) {
    EXPECT_TRUE(record.ok()) << record.status;
  }
}

TEST(RunLoad, StopKeepsWhatWasMeasured) {
  ScriptedClient client([](int64_t index) { return ScriptedClient::Answer{.never = index >= 5}; });
  const LoadResult result =
      LoadWhile(PlanOf(1000, 1), {.concurrency = 3}, &client, [&](std::atomic<bool>* stop) {
        client.WaitForStarts(8);
        *stop = true;
      });
  EXPECT_TRUE(result.interrupted);
  ASSERT_EQ(result.records.size(), 8u);
  for (size_t i = 0; i < 5; ++i) EXPECT_TRUE(result.records[i].ok());
  for (size_t i = 5; i < 8; ++i) {
    EXPECT_TRUE(result.records[i].cancelled);
    EXPECT_FALSE(result.records[i].ok());
  }
}

TEST(RunLoad, StopDoesNotWaitForTheNextArrival) {
  ScriptedClient client([](int64_t) { return ScriptedClient::Answer{}; });
  std::atomic<bool> stop = false;
  const auto progress = [&](const LoadProgress& live) { stop = live.done == 1; };
  const LoadResult result =
      RunLoad(PlanOf(2, 1, std::chrono::hours(1)), {}, &client, stop, progress);
  EXPECT_TRUE(result.interrupted);
  EXPECT_EQ(result.records.size(), 1u);
}

TEST(RunLoad, WhatDoesNotEndIsCancelledAfterTheDrain) {
  ScriptedClient client([](int64_t index) { return ScriptedClient::Answer{.never = index == 1}; });
  const LoadResult result = LoadOf(PlanOf(3, 1), {.drain = 50 * kMillisecond}, &client);
  ASSERT_EQ(result.records.size(), 3u);
  EXPECT_FALSE(result.interrupted);
  EXPECT_TRUE(result.records[0].ok());
  EXPECT_TRUE(result.records[1].cancelled);
  EXPECT_GE(result.records[1].ended, 0.05);
  EXPECT_TRUE(result.records[2].ok());
}

TEST(RunLoad, GivesUpWhenNobodyIsThere) {
  ScriptedClient client([](int64_t index) {
    return ScriptedClient::Answer{.status = index < 10 ? absl::OkStatus()
                                                       : absl::UnavailableError("refused")};
  });
  const LoadResult result =
      LoadOf(PlanOf(1'000'000, 1), {.concurrency = 1, .give_up_after = 20}, &client);
  EXPECT_EQ(result.gave_up.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(result.gave_up.message()), HasSubstr("refused"));
  EXPECT_FALSE(result.interrupted);
  ASSERT_GE(result.records.size(), 30u);
  EXPECT_LT(result.records.size(), 1'000'000u);
  for (size_t i = 0; i < 10; ++i) EXPECT_TRUE(result.records[i].ok());
}

TEST(RunLoad, DoesNotGiveUpOverRefusals) {
  ScriptedClient client([](int64_t index) {
    return ScriptedClient::Answer{.status = index % 2 == 0 ? absl::UnavailableError("gone")
                                                           : absl::ResourceExhaustedError("full")};
  });
  const LoadResult result = LoadOf(PlanOf(100, 1), {.concurrency = 1, .give_up_after = 2}, &client);
  EXPECT_TRUE(result.gave_up.ok());
  EXPECT_EQ(result.records.size(), 100u);
}

TEST(RunLoad, ProgressCountsUp) {
  ScriptedClient client([](int64_t index) {
    return ScriptedClient::Answer{
        .after = 10 * kMillisecond,
        .status = index == 3 ? absl::InternalError("broken") : absl::OkStatus()};
  });
  std::vector<LoadProgress> seen;
  const std::atomic<bool> stop = false;
  RunLoad(PlanOf(60, 1), {.concurrency = 1}, &client, stop,
          [&](const LoadProgress& live) { seen.push_back(live); });
  ASSERT_GE(seen.size(), 2u);  // 600 ms of load, and the last word
  EXPECT_GE(seen.front().elapsed_s, 0.25);
  EXPECT_LT(seen.front().done, 60);
  const LoadProgress& last = seen.back();
  EXPECT_EQ(last.planned, 60);
  EXPECT_EQ(last.sent, 60);
  EXPECT_EQ(last.done, 59);
  EXPECT_EQ(last.failed, 1);
  EXPECT_EQ(last.output_tokens, 59);
  EXPECT_GE(last.last_ttft_ms, 10);
}

TEST(RunLoad, AnEmptyPlanIsOverAtOnce) {
  ScriptedClient client([](int64_t) { return ScriptedClient::Answer{}; });
  EXPECT_TRUE(LoadOf({}, {}, &client).records.empty());
  EXPECT_TRUE(LoadOf({}, {.concurrency = 4}, &client).records.empty());
}

}  // namespace
}  // namespace baton::bench
