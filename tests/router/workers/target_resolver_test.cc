// A name server that does not answer holds up nobody.
#include "router/workers/target_resolver.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <atomic>
#include <memory>

#include "absl/synchronization/notification.h"
#include "common/base/timer_queue.h"
#include "router/workers/worker_directory.h"
#include "tests/fakes/eventually.h"

namespace baton {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr auto kEvery = std::chrono::milliseconds(1);

// Knows "live", whose address changes with every answer, and never answers "dead".
class DeadNameServer {
 public:
  ~DeadNameServer() { state_->go.Notify(); }
  TargetResolver::Lookup lookup() const {
    return [state = state_](const std::string& target) -> absl::StatusOr<std::vector<std::string>> {
      if (target == "dead:1") {
        ++state->dead;
        state->go.WaitForNotification();
        return absl::UnavailableError("too late");
      }
      if (target != "live:1") return absl::NotFoundError("no such name");
      return std::vector<std::string>{"127.0.0.1:" + std::to_string(++state->answers)};
    };
  }
  int answers() const { return state_->answers; }
  int dead_lookups() const { return state_->dead; }

 private:
  struct State {
    absl::Notification go;
    std::atomic<int> answers{0}, dead{0};
  };
  // Shared with the lookups, which outlive this.
  const std::shared_ptr<State> state_ = std::make_shared<State>();
};

TEST(TargetResolverTest, AddressesNeedNoLookup) {
  base::SteadyClock clock;
  TargetResolver resolver({"10.0.0.7:50051", "dns:///[::1]:5", "localhost"}, kEvery, &clock,
                          [](const std::string& target) {
                            ADD_FAILURE() << target;
                            return absl::InternalError("asked");
                          });
  EXPECT_THAT(resolver.Latest("10.0.0.7:50051").addresses, ElementsAre("10.0.0.7:50051"));
  EXPECT_THAT(resolver.Latest("dns:///[::1]:5").addresses, ElementsAre("[::1]:5"));
  EXPECT_EQ(resolver.Latest("localhost").status.code(), absl::StatusCode::kInvalidArgument);
  ASSERT_TRUE(resolver.Wait());
}

TEST(TargetResolverTest, ADeadNameHoldsUpNoOther) {
  base::SteadyClock clock;
  DeadNameServer server;
  TargetResolver resolver({"dead:1", "live:1", "dead:1"}, kEvery, &clock, server.lookup());
  while (server.answers() < 5) ASSERT_TRUE(resolver.Wait());
  EXPECT_FALSE(resolver.Latest("live:1").addresses.empty());
  EXPECT_THAT(resolver.Latest("dead:1").addresses, IsEmpty());
  EXPECT_THAT(std::string(resolver.Latest("dead:1").status.message()), HasSubstr("'dead:1'"));
  EXPECT_EQ(server.dead_lookups(), 1) << "one lookup of a name at a time";
  resolver.Stop();
  EXPECT_FALSE(resolver.Wait());
}

TEST(TargetResolverTest, WhatWasKnownStaysWhileTheNameFails) {
  base::SteadyClock clock;
  const auto asked = std::make_shared<std::atomic<int>>(0);  // lookups may outlive the resolver
  TargetResolver resolver({"once:1"}, kEvery, &clock,
                          [asked](const std::string&) -> absl::StatusOr<std::vector<std::string>> {
                            if (++*asked == 1) return std::vector<std::string>{"127.0.0.1:1"};
                            return absl::UnavailableError("gone");
                          });
  // A first answer that is only late is an error, too, and there is nothing known yet.
  while (resolver.Latest("once:1").status.message() != "gone") ASSERT_TRUE(resolver.Wait());
  EXPECT_THAT(resolver.Latest("once:1").addresses, ElementsAre("127.0.0.1:1"));
}

TEST(WorkerDirectoryTest, ADeadNameServerDelaysNeitherWorkersNorTheEnd) {
  base::SteadyClock clock;
  base::TimerQueue timers(&clock);
  DeadNameServer server;
  DirectoryOptions options;
  options.prefill_targets = {"dead:1"};
  options.decode_targets = {"dead:1", "127.0.0.1:65000", "live:1"};
  options.deadlines.resolve_every = kEvery;
  options.lookup = server.lookup();
  options.accept = [](WorkerKind, const WorkerFacts&) { return absl::OkStatus(); };
  const auto directory = WorkerDirectory::Create(options, &clock, &timers);
  directory->Start([] {});
  const auto knows = [&](const std::string& address) {
    const auto report = directory->Report();
    return std::any_of(report.begin(), report.end(),
                       [&](const WorkerReport& worker) { return worker.address == address; });
  };
  EXPECT_TRUE(knows("127.0.0.1:65000")) << "at once, as it is no name";
  EXPECT_TRUE(Eventually([&] { return server.answers() > 5; }));
  EXPECT_TRUE(Eventually([&] { return directory->Report().size() >= 2; }));
  directory->Stop();
  timers.Stop();
}

}  // namespace
}  // namespace baton
