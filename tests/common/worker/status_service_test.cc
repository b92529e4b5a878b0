// StatusService.Watch as a router sees it.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tests/fakes/worker_harness.h"

namespace baton {
namespace {

// One open Watch.
class Watching final {
 public:
  explicit Watching(WorkerHarness& worker, int32_t major = 1, int32_t min_interval_ms = 0,
                    worker_pb::WorkerRole role = worker_pb::WORKER_ROLE_UNSPECIFIED)
      : min_interval_ms_(min_interval_ms),
        stub_(worker_pb::StatusService::NewStub(worker.channel())) {
    context_.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(20));
    worker_pb::WatchRequest request;
    request.mutable_protocol()->set_major(major);
    request.set_min_interval_ms(min_interval_ms_);
    request.set_watched_role(role);
    stream_ = stub_->Watch(&context_);
    stream_->Write(request);
  }
  ~Watching() { context_.TryCancel(); }
  void CloseItsSide() { stream_->WritesDone(); }
  void Want(int32_t held, int32_t wanted) {
    worker_pb::WatchRequest request;
    request.mutable_demand()->set_places_held(held);
    request.mutable_demand()->set_places_wanted(wanted);
    request.set_min_interval_ms(min_interval_ms_);
    stream_->Write(request);
  }
  void TellOfOthers(const worker_pb::Cluster& cluster) {
    worker_pb::WatchRequest request;
    *request.mutable_cluster() = cluster;
    stream_->Write(request);
  }
  void WantCached(bool want, int32_t restarts = 0) {
    worker_pb::WatchRequest request;
    request.mutable_demand()->set_places_wanted(1);
    request.set_want_cached(want);
    request.set_cached_restarts(restarts);
    stream_->Write(request);
  }
  // Reads until the worker tells of its prefix cache.
  bool ReadCached(worker_pb::CachedPrefixes* cached) {
    worker_pb::WatchResponse response;
    while (Read(&response)) {
      if (!response.has_cached()) continue;
      *cached = response.cached();
      return true;
    }
    return false;
  }
  bool Read(worker_pb::WatchResponse* response) { return stream_->Read(response); }
  grpc::Status Finish() { return stream_->Finish(); }
  // Reads until this router may have `places`.
  bool ReadUntilShare(int32_t places) {
    worker_pb::WatchResponse response;
    while (Read(&response)) {
      if (response.share().places() == places) return true;
    }
    return false;
  }
  // Reads until a load satisfies `done`.
  bool ReadUntil(const std::function<bool(const worker_pb::WorkerLoad&)>& done) {
    worker_pb::WatchResponse response;
    while (Read(&response)) {
      if (done(response.load())) return true;
    }
    return false;
  }

 private:
  const int32_t min_interval_ms_;
  std::unique_ptr<worker_pb::StatusService::Stub> stub_;
  grpc::ClientContext context_;
  std::unique_ptr<grpc::ClientReaderWriter<worker_pb::WatchRequest, worker_pb::WatchResponse>>
      stream_;
};

TEST(StatusServiceTest, IdentityComesFirstAndOnce) {
  WorkerHarness worker({});
  Watching watch(worker);
  worker_pb::WatchResponse first, second;
  ASSERT_TRUE(watch.Read(&first));
  ASSERT_TRUE(first.has_identity());
  EXPECT_EQ(first.identity().role(), worker_pb::WORKER_ROLE_DECODE);
  EXPECT_EQ(first.identity().incarnation(), worker.core().identity().incarnation);
  EXPECT_EQ(first.identity().model_fingerprint(), "fp-a");
  EXPECT_EQ(first.identity().max_model_len(), 256);
  EXPECT_EQ(KvShapeFromProto(first.identity().layout()), worker.shape());
  EXPECT_TRUE(first.load().ready());
  EXPECT_EQ(first.load().blocks_total(), 64);
  EXPECT_EQ(first.load().blocks_free(), 64);
  EXPECT_GT(first.load().prefill_places_free(), 0);
  // Nothing changes, yet a message comes: a sign of life.
  ASSERT_TRUE(watch.Read(&second));
  EXPECT_FALSE(second.has_identity());
}

TEST(StatusServiceTest, LoadFollowsTheEngine) {
  WorkerHarness worker({});
  Watching watch(worker);
  worker.control().Pause();
  DecodeCall call(worker, LocalStart());
  EXPECT_TRUE(watch.ReadUntil([](const auto& load) {
    return load.running() == 1 && load.blocks_used() > 0 &&
           load.blocks_free() + load.blocks_cached() + load.blocks_used() +
                   load.blocks_quarantined() ==
               load.blocks_total();
  }));
  worker.control().Resume();
  EXPECT_TRUE(watch.ReadUntil([](const auto& load) { return load.running() == 0; }));
  call.ReadAll();
  EXPECT_TRUE(call.Finish().ok());
}

TEST(StatusServiceTest, TellsHowLongStepsTakeOnceSomeWereComputed) {
  WorkerHarness worker({});
  Watching watch(worker);
  worker_pb::WatchResponse first;
  ASSERT_TRUE(watch.Read(&first));
  EXPECT_GT(first.load().step_prompt_tokens(), 0);
  EXPECT_EQ(first.load().prompt_token_seconds(), 0);
  for (int i = 0; i < 8; ++i) {
    DecodeCall call(worker, LocalStart());
    call.ReadAll();
    EXPECT_TRUE(call.Finish().ok());
  }
  EXPECT_TRUE(watch.ReadUntil([](const auto& load) { return load.step_seconds() > 0; }));
}

TEST(StatusServiceTest, WhoWantsToHearsWhatThePrefixCacheHoldsAndThenWhatChanges) {
  WorkerHarness worker({});
  Watching watch(worker), uninterested(worker);
  watch.WantCached(true);
  worker_pb::CachedPrefixes cached;
  ASSERT_TRUE(watch.ReadCached(&cached));
  EXPECT_TRUE(cached.whole());
  EXPECT_EQ(cached.stride(), 1);
  EXPECT_EQ(cached.added_size(), 0);
  const uint64_t begin = cached.version();
  EXPECT_GT(begin, 0u);
  DecodeCall call(worker, LocalStart());  // ten tokens of prompt in blocks of four
  call.ReadAll();
  ASSERT_TRUE(watch.ReadCached(&cached));
  EXPECT_FALSE(cached.whole());
  EXPECT_EQ(cached.since(), begin);
  EXPECT_GE(cached.added_size(), 2);
  EXPECT_EQ(cached.removed_size(), 0);
  watch.WantCached(true, /*restarts=*/1);
  do {
    ASSERT_TRUE(watch.ReadCached(&cached));
  } while (!cached.whole());
  EXPECT_EQ(cached.since(), 0u);
  EXPECT_GE(cached.added_size(), 2);
  worker_pb::WatchResponse response;
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(uninterested.Read(&response));
    EXPECT_FALSE(response.has_cached());
  }
}

TEST(StatusServiceTest, AWorkerWithoutAPrefixCacheSaysThatItHoldsNoBlockOfAnyPrompt) {
  WorkerHarness::Options options;
  options.engine.enable_prefix_caching = false;
  WorkerHarness worker(options);
  Watching watch(worker);
  watch.WantCached(true);
  worker_pb::CachedPrefixes cached;
  ASSERT_TRUE(watch.ReadCached(&cached));
  EXPECT_TRUE(cached.whole());
  EXPECT_EQ(cached.stride(), std::numeric_limits<int32_t>::max());
  EXPECT_EQ(cached.added_size(), 0);
}

TEST(StatusServiceTest, DrainShows) {
  WorkerHarness worker({});
  Watching watch(worker);
  worker.core().BeginDrain();
  EXPECT_TRUE(watch.ReadUntil([](const auto& load) { return load.draining() && !load.ready(); }));
}

TEST(StatusServiceTest, RouterThatAsksForFewStatusesHearsOfADrainAtOnceAndOfNothingElse) {
  WorkerHarness worker({.timeouts = {.status_max = std::chrono::hours(1)}});
  Watching rare(worker, 1, /*min_interval_ms=*/3'600'000);
  Watching often(worker);
  worker_pb::WatchResponse response;
  ASSERT_TRUE(rare.Read(&response));
  EXPECT_TRUE(response.load().ready());
  worker.control().Pause();
  DecodeCall call(worker, LocalStart());
  // By then the other one had several occasions to say so, too.
  ASSERT_TRUE(often.ReadUntil([](const auto& load) { return load.running() == 1; }));
  rare.Want(0, 100);
  ASSERT_TRUE(often.ReadUntilShare(0));
  worker.core().BeginDrain();
  ASSERT_TRUE(rare.Read(&response));
  EXPECT_TRUE(response.load().draining());
  EXPECT_EQ(response.load().running(), 1);
  worker.control().Resume();
  call.ReadAll();
}

TEST(StatusServiceTest, NoRouterCanAskForSilence) {
  WorkerHarness worker({.timeouts = {.status_min = std::chrono::milliseconds(1),
                                     .status_max = std::chrono::milliseconds(5)}});
  Watching watch(worker, 1, /*min_interval_ms=*/std::numeric_limits<int32_t>::max());
  worker_pb::WatchResponse response;
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(watch.Read(&response));
}

TEST(StatusServiceTest, RefusesAnotherProtocolMajor) {
  WorkerHarness worker({});
  Watching watch(worker, 2);
  worker_pb::WatchResponse response;
  EXPECT_FALSE(watch.Read(&response));
  const grpc::Status status = watch.Finish();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::FAILED_PRECONDITION);
  EXPECT_NE(status.error_message().find("protocol 2"), std::string::npos);
}

TEST(StatusServiceTest, PlacesAreLentByDemandAndComeBackWithTheRouter) {
  WorkerHarness worker({});
  const int32_t places = worker.core().engine().figures().places;
  ASSERT_GE(places, 4);
  Watching first(worker);
  EXPECT_TRUE(first.ReadUntilShare(places));
  first.Want(0, 100);
  {
    Watching second(worker);
    EXPECT_TRUE(second.ReadUntilShare(0));  // it asked for nothing, and another wants all
    second.Want(0, 100);
    EXPECT_TRUE(second.ReadUntilShare(places / 2));
    EXPECT_TRUE(first.ReadUntilShare(places - places / 2));
    second.Want(0, 1);
    EXPECT_TRUE(second.ReadUntilShare(1));
    EXPECT_TRUE(first.ReadUntilShare(places - 1));
  }
  EXPECT_TRUE(first.ReadUntilShare(places));
}

// A worker of both roles, as the last that decodes beside others, while nobody prefills.
class ElasticStatusTest : public ::testing::Test {
 protected:
  static WorkerHarness::Options Elastic() {
    WorkerHarness::Options options;
    options.elastic = true;
    options.roles.settle = std::chrono::milliseconds(100);
    return options;
  }
  void NobodyPrefills() {
    worker_pb::Cluster cluster;
    cluster.mutable_decode()->set_workers(2);
    cluster.mutable_decode()->set_lowest(1);
    cluster.mutable_decode()->set_highest(worker_.core().identity().incarnation);
    as_decode_.TellOfOthers(cluster);
  }

  WorkerHarness worker_{Elastic()};
  Watching as_decode_{worker_, 1, 0, worker_pb::WORKER_ROLE_DECODE};
  Watching as_prefill_{worker_, 1, 0, worker_pb::WORKER_ROLE_PREFILL};
  Watching older_{worker_};
};

TEST_F(ElasticStatusTest, EachRoleIsToldWhetherNewRequestsOfItAreTaken) {
  worker_pb::WatchResponse first;
  ASSERT_TRUE(as_decode_.Read(&first));
  EXPECT_EQ(first.identity().roles_size(), 2);
  EXPECT_TRUE(first.load().ready());
  ASSERT_TRUE(as_prefill_.Read(&first));
  EXPECT_FALSE(first.load().ready());
  EXPECT_TRUE(first.load().other_role());
  NobodyPrefills();
  EXPECT_TRUE(as_prefill_.ReadUntil([](const auto& load) { return load.ready(); }));
  EXPECT_TRUE(as_decode_.ReadUntil(
      [](const auto& load) { return !load.ready() && load.other_role() && !load.draining(); }));
  EXPECT_FALSE(worker_.core().Takes(WorkerRole::kDecode));
  // A router that does not say for which role it watches finds it ready all the time.
  ASSERT_TRUE(older_.Read(&first));
  EXPECT_TRUE(first.load().ready());
}

TEST_F(ElasticStatusTest, WhatItHasItFinishesInTheOldRoleAndLendsWhatThatLeaves) {
  const int32_t places = worker_.core().engine().figures().places;
  worker_.control().Pause();
  DecodeCall call(worker_, LocalStart());
  as_decode_.Want(3, 3);
  NobodyPrefills();
  EXPECT_TRUE(as_prefill_.ReadUntilShare(places - 3));
  worker_.control().Resume();
  call.ReadAll();
  EXPECT_TRUE(call.Finish().ok());
  as_decode_.Want(0, 0);
  EXPECT_TRUE(as_prefill_.ReadUntilShare(places));
}

TEST_F(ElasticStatusTest, ARouterThatIsGoneIsForgotten) {
  {
    Watching gone(worker_, 1, 0, worker_pb::WORKER_ROLE_DECODE);
    worker_pb::WatchResponse response;
    ASSERT_TRUE(gone.Read(&response));
    worker_pb::Cluster cluster;  // it sees nobody else, so that nobody may leave
    cluster.mutable_decode()->set_workers(1);
    cluster.mutable_decode()->set_lowest(worker_.core().identity().incarnation);
    cluster.mutable_decode()->set_highest(worker_.core().identity().incarnation);
    gone.TellOfOthers(cluster);
    ASSERT_TRUE(gone.Read(&response));
  }
  NobodyPrefills();
  EXPECT_TRUE(as_prefill_.ReadUntil([](const auto& load) { return load.ready(); }));
}

TEST_F(ElasticStatusTest, ARouterThatNoLongerSaysWhatItSeesIsLeftOut) {
  Watching other(worker_, 1, 0, worker_pb::WORKER_ROLE_DECODE);
  worker_pb::WatchResponse response;
  ASSERT_TRUE(other.Read(&response));
  worker_pb::Cluster cluster;  // it sees nobody else, so that nobody may leave
  cluster.mutable_decode()->set_workers(1);
  cluster.mutable_decode()->set_lowest(worker_.core().identity().incarnation);
  cluster.mutable_decode()->set_highest(worker_.core().identity().incarnation);
  other.TellOfOthers(cluster);
  other.Want(0, 1);
  NobodyPrefills();
  EXPECT_TRUE(as_prefill_.ReadUntil([](const auto& load) { return load.ready(); }));
}

TEST(StatusServiceTest, ABeamSearchFillsAsManySeatsAsItIsWide) {
  WorkerHarness::Options options;
  options.num_blocks = 256;
  WorkerHarness worker(options);
  const int32_t seats = worker.core().engine().figures().seats;
  ASSERT_GE(seats, 4);
  Watching watch(worker);
  worker.control().Pause();
  worker_pb::Generation generation = MakeGeneration(10, 6);
  generation.mutable_beams()->set_width(3);
  generation.mutable_beams()->set_results(1);
  generation.mutable_beams()->set_length_penalty(1);
  DecodeCall call(worker, LocalStart(generation));
  const double expected = std::round(3000.0 / seats) / 1000;
  EXPECT_TRUE(watch.ReadUntil([&](const auto& load) { return load.fill() == expected; }));
  worker.control().Resume();
  call.Cancel();
}

TEST(StatusServiceTest, AWorkerOfOneRoleIsReadyForWhoeverWatches) {
  WorkerHarness worker({});
  Watching watch(worker, 1, 0, worker_pb::WORKER_ROLE_DECODE);
  worker_pb::WatchResponse first;
  ASSERT_TRUE(watch.Read(&first));
  EXPECT_EQ(first.identity().roles_size(), 1);
  EXPECT_TRUE(first.load().ready());
  EXPECT_FALSE(first.load().other_role());
}

TEST(StatusServiceTest, RouterThatSaysItsDemandOnlyOnceAndNoMoreStillListens) {
  WorkerHarness worker({});
  Watching watch(worker);
  watch.CloseItsSide();
  worker_pb::WatchResponse response;
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(watch.Read(&response));
}

TEST(StatusServiceTest, ManyRoutersWatchOneWorker) {
  WorkerHarness worker({});
  std::vector<std::unique_ptr<Watching>> watches;
  for (int i = 0; i < 20; ++i) watches.push_back(std::make_unique<Watching>(worker));
  for (auto& watch : watches) {
    worker_pb::WatchResponse response;
    EXPECT_TRUE(watch->Read(&response));
  }
}

}  // namespace
}  // namespace baton
