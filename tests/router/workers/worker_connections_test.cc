// Processes that are found at more than one address.
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "common/base/mutex.h"
#include "router/workers/worker_directory.h"
#include "tests/fakes/eventually.h"
#include "tests/fakes/fake_worker.h"

namespace baton {
namespace {

using testing::FakeCluster;
using testing::FakeWorker;

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

class TwoAddressesTest : public ::testing::Test {
 protected:
  TwoAddressesTest() : worker_(&cluster_, {}), timers_(&clock_) {
    other_ = "[::ffff:127.0.0.1]" + worker_.address().substr(worker_.address().rfind(':'));
    name_.Set({worker_.address(), other_});
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

  std::vector<std::string> Healthy(WorkerKind kind) const {
    std::vector<std::string> addresses;
    for (const WorkerReport& worker : directory_->Report()) {
      if (worker.kind == kind && worker.healthy) addresses.push_back(worker.address);
    }
    return addresses;
  }
  // Where requests go.
  size_t NumOpen(WorkerKind kind) {
    size_t open = 0;
    directory_->Use([&](const WorkerDirectory::Tables& tables) {
      tables.workers.Advance(tables.now);
      open = tables.workers.WithPlace(kind).size();
    });
    return open;
  }
  bool OneIsKnown(WorkerKind kind) {
    return directory_->Report().size() == 1 && Healthy(kind).size() == 1 && NumOpen(kind) == 1;
  }

  FakeCluster cluster_;
  FakeWorker worker_;
  std::string other_;
  MovingName name_;
  base::SteadyClock clock_;
  base::TimerQueue timers_;
  std::shared_ptr<WorkerDirectory> directory_;
};

TEST_F(TwoAddressesTest, AreOneWorker) {
  Start({}, {"name:1"});
  EXPECT_TRUE(Eventually([&] { return OneIsKnown(WorkerKind::kDecode); }));
}

TEST_F(TwoAddressesTest, AreOneWorkerAgainWithTheNextProcess) {
  Start({}, {"name:1"});
  ASSERT_TRUE(Eventually([&] { return OneIsKnown(WorkerKind::kDecode); }));
  worker_.Kill();
  ASSERT_TRUE(Eventually([&] { return Healthy(WorkerKind::kDecode).empty(); }));
  worker_.Restart();
  EXPECT_TRUE(Eventually([&] { return OneIsKnown(WorkerKind::kDecode); }));
}

TEST_F(TwoAddressesTest, TheOneStandsInWhenTheOtherIsListedNoMore) {
  Start({}, {"name:1"});
  ASSERT_TRUE(Eventually([&] { return OneIsKnown(WorkerKind::kDecode); }));
  const std::string first = Healthy(WorkerKind::kDecode)[0];
  const std::string second = first == other_ ? worker_.address() : other_;
  name_.Set({second});
  EXPECT_TRUE(Eventually([&] { return Healthy(WorkerKind::kDecode) == std::vector{second}; }));
  name_.Set({});
  EXPECT_TRUE(Eventually([&] { return Healthy(WorkerKind::kDecode).empty(); }));
}

TEST_F(TwoAddressesTest, AProcessOfBothRolesHasTheSameAddressInBoth) {
  Start({"name:1"}, {"name:1"});
  ASSERT_TRUE(Eventually([&] { return directory_->Report().size() == 2; }));
  EXPECT_TRUE(Eventually([&] {
    return Healthy(WorkerKind::kPrefill).size() == 1 && Healthy(WorkerKind::kDecode).size() == 1;
  }));
  EXPECT_EQ(Healthy(WorkerKind::kPrefill), Healthy(WorkerKind::kDecode));
}

TEST_F(TwoAddressesTest, OfTwoProcessesAreTwoWorkers) {
  FakeWorker second(&cluster_, {});
  name_.Set({worker_.address(), second.address()});
  Start({}, {"name:1"});
  EXPECT_TRUE(Eventually([&] { return Healthy(WorkerKind::kDecode).size() == 2; }));
  EXPECT_EQ(NumOpen(WorkerKind::kDecode), 2u);
}

}  // namespace
}  // namespace baton
