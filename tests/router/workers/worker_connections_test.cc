// Processes that are found at more than one address.
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "common/base/mutex.h"
#include "router/workers/worker_directory.h"
#include "tests/fakes/eventually.h"
#include "tests/fakes/fake_worker.h"
#include "tests/fakes/tcp_relay.h"

namespace baton {
namespace {

using testing::FakeCluster;
using testing::FakeWorker;
using testing::TcpRelay;

// A name whose addresses change.
class MovingName {
 public:
  void Set(std::vector<std::string> addresses) {
    base::MutexLock lock(&state_->mutex);
    state_->addresses = std::move(addresses);
  }
  TargetResolver::Lookup lookup() const {
    return [state = state_](const std::string&) -> absl::StatusOr<std::vector<std::string>> {
      base::MutexLock lock(&state->mutex);
      return state->addresses;
    };
  }

 private:
  struct State {
    base::Mutex mutex;
    std::vector<std::string> addresses ABSL_GUARDED_BY(mutex);
  };
  const std::shared_ptr<State> state_ = std::make_shared<State>();  // shared with lookups
};

int PortOf(const std::string& address) { return std::stoi(address.substr(address.rfind(':') + 1)); }

// Two ways to one worker.
class TwoAddressesTest : public ::testing::Test {
 protected:
  TwoAddressesTest()
      : worker_(&cluster_, {}),
        relays_{TcpRelay(PortOf(worker_.address())), TcpRelay(PortOf(worker_.address()))},
        timers_(&clock_) {
    name_.Set(Both());
  }
  ~TwoAddressesTest() override {
    if (directory_ != nullptr) directory_->Stop();
    timers_.Stop();
  }

  void Start(std::vector<std::string> prefill, std::vector<std::string> decode) {
    DirectoryOptions options;
    options.prefill_targets = std::move(prefill);
    options.decode_targets = std::move(decode);
    options.deadlines.resolve_every = std::chrono::milliseconds(20);
    options.lookup = name_.lookup();
    options.accept = [](WorkerKind, const WorkerFacts&) { return absl::OkStatus(); };
    directory_ = WorkerDirectory::Create(options, &clock_, &timers_);
    directory_->Start([] {});
  }
  // Starts with a list of decode workers, and waits until one is known; returns which relay leads
  // there.
  size_t StartWithOne() {
    Start({}, {"name:1"});
    EXPECT_TRUE(Eventually([&] { return OneIsKnown(); }));
    return Healthy(WorkerKind::kDecode) == std::vector{relays_[0].address()} ? 0 : 1;
  }

  std::vector<std::string> Both() const { return {relays_[0].address(), relays_[1].address()}; }
  std::vector<std::string> Healthy(WorkerKind kind) const {
    std::vector<std::string> addresses;
    for (const WorkerReport& worker : directory_->Report()) {
      if (worker.kind == kind && worker.healthy) addresses.push_back(worker.address);
    }
    return addresses;
  }
  bool IsHealthy(size_t relay) const {
    return Healthy(WorkerKind::kDecode) == std::vector{relays_[relay].address()};
  }
  // Where requests go.
  size_t NumOpen() {
    size_t open = 0;
    directory_->Use([&](const WorkerDirectory::Tables& tables) {
      tables.workers.Advance(tables.now);
      open = tables.workers.WithPlace(WorkerKind::kDecode).size();
    });
    return open;
  }
  bool OneIsKnown() {
    return directory_->Report().size() == 1 && Healthy(WorkerKind::kDecode).size() == 1 &&
           NumOpen() == 1;
  }

  FakeCluster cluster_;
  FakeWorker worker_;
  TcpRelay relays_[2];
  MovingName name_;
  base::SteadyClock clock_;
  base::TimerQueue timers_;
  std::shared_ptr<WorkerDirectory> directory_;
};

TEST_F(TwoAddressesTest, AreOneWorker) { StartWithOne(); }

TEST_F(TwoAddressesTest, AreOneWorkerAgainWithTheNextProcess) {
  StartWithOne();
  worker_.Kill();
  ASSERT_TRUE(Eventually([&] { return Healthy(WorkerKind::kDecode).empty(); }));
  worker_.Restart();
  EXPECT_TRUE(Eventually([&] { return OneIsKnown(); }));
}

// What runs there is known by the address over which it was begun.
TEST_F(TwoAddressesTest, AConnectionThatBreaksIsMadeAnewAtTheSameAddress) {
  const size_t first = StartWithOne();
  relays_[first].Cut();
  ASSERT_TRUE(Eventually([&] { return Healthy(WorkerKind::kDecode).empty(); }));
  ASSERT_TRUE(Eventually([&] { return OneIsKnown(); }));
  EXPECT_TRUE(IsHealthy(first));
}

TEST_F(TwoAddressesTest, TheOneStandsInWhenTheOtherLeadsNowhere) {
  const size_t first = StartWithOne();
  relays_[first].Refuse(true);
  relays_[first].Cut();
  EXPECT_TRUE(Eventually([&] { return IsHealthy(1 - first); }));
  relays_[first].Refuse(false);
  // It stays so: the first is found again, to be the same.
  EXPECT_TRUE(Eventually([&] { return OneIsKnown(); }));
  EXPECT_TRUE(IsHealthy(1 - first));
}

TEST_F(TwoAddressesTest, TheOneStandsInWhenTheOtherIsListedNoMore) {
  const size_t first = StartWithOne();
  name_.Set({relays_[1 - first].address()});
  ASSERT_TRUE(Eventually([&] { return IsHealthy(1 - first); }));
  EXPECT_EQ(NumOpen(), 1u);
  // What ran over the first went on. Requests stay with the second.
  name_.Set(Both());
  EXPECT_TRUE(Eventually([&] { return directory_->Report().size() == 1; }));
  EXPECT_TRUE(IsHealthy(1 - first));
  EXPECT_EQ(NumOpen(), 1u);
  relays_[1 - first].Refuse(true);
  relays_[1 - first].Cut();
  EXPECT_TRUE(Eventually([&] { return IsHealthy(first) && NumOpen() == 1; }));
}

TEST_F(TwoAddressesTest, ANameThatLosesBothAndHasThemAgain) {
  StartWithOne();
  for (int i = 0; i < 5; ++i) {
    name_.Set({});
    ASSERT_TRUE(Eventually([&] { return Healthy(WorkerKind::kDecode).empty(); }));
    name_.Set(Both());
    ASSERT_TRUE(Eventually([&] { return OneIsKnown(); }));
  }
  EXPECT_TRUE(OneIsKnown());
}

TEST_F(TwoAddressesTest, WhatIsLeftOfAListIsShownThoughItDoesNotAnswer) {
  const size_t first = StartWithOne();
  worker_.Kill();
  ASSERT_TRUE(Eventually([&] { return Healthy(WorkerKind::kDecode).empty(); }));
  name_.Set({relays_[1 - first].address()});
  EXPECT_TRUE(Eventually([&] {
    const auto report = directory_->Report();
    return report.size() == 1 && report[0].address == relays_[1 - first].address();
  }));
}

TEST_F(TwoAddressesTest, AProcessOfBothRolesHasTheSameAddressInBoth) {
  Start({"name:1"}, {"name:1"});
  EXPECT_TRUE(Eventually([&] {
    return directory_->Report().size() == 2 && Healthy(WorkerKind::kPrefill).size() == 1 &&
           Healthy(WorkerKind::kDecode).size() == 1;
  }));
  EXPECT_EQ(Healthy(WorkerKind::kPrefill), Healthy(WorkerKind::kDecode));
}

TEST_F(TwoAddressesTest, OfTwoProcessesAreTwoWorkers) {
  FakeWorker second(&cluster_, {});
  name_.Set({worker_.address(), second.address()});
  Start({}, {"name:1"});
  EXPECT_TRUE(Eventually([&] { return Healthy(WorkerKind::kDecode).size() == 2; }));
  EXPECT_EQ(NumOpen(), 2u);
}

}  // namespace
}  // namespace baton
