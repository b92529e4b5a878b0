// Thousands of random schedules. A failing seed is printed; BATON_SIM_SEED=<seed> runs it alone.
#include "tests/sim/cluster_sim.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "common/sched/policies/named.h"

namespace baton::sim {
namespace {

constexpr uint64_t kSchedules = 8000;
constexpr uint64_t kFirstSeed = 20260000;

std::atomic<uint64_t> current_seed{0};

// A failed BATON_CHECK ends the process; the seed must not be lost with it.
void PrintSeedAndAbort(int) {
  char line[80];
  const int length = std::snprintf(line, sizeof(line), "reproduce with BATON_SIM_SEED=%llu\n",
                                   static_cast<unsigned long long>(current_seed.load()));
  if (write(STDERR_FILENO, line, static_cast<size_t>(length)) < 0) _exit(2);
  std::signal(SIGABRT, SIG_DFL);
  std::raise(SIGABRT);
}

std::string RunSeed(uint64_t seed, Coverage* coverage) {
  current_seed = seed;
  ClusterSim sim(seed);
  return sim.Run(coverage);
}

void Print(const Coverage& coverage) {
  std::printf(
      "%llu schedules from seed %llu: steps %llu, attempts %llu (resumed %llu), finished %llu "
      "(at the first token %llu), cancelled %llu, deadlines %llu, refused %llu, imported %llu, "
      "preemptions %llu (swapped %llu, without room %llu, lost %llu), revocations %llu, chunks "
      "%llu, prefix hits %llu tokens, late returns "
      "%llu, late commits %llu; proposed ids accepted %llu, rejected %llu; forced ids %llu, of "
      "which %llu were jumped, answers ended by their grammar %llu; rows ahead %llu "
      "(discarded "
      "%llu), victims held back %llu, ended with two rows out %llu\n",
      static_cast<unsigned long long>(kSchedules), static_cast<unsigned long long>(kFirstSeed),
      static_cast<unsigned long long>(coverage.steps),
      static_cast<unsigned long long>(coverage.attempts),
      static_cast<unsigned long long>(coverage.resumed),
      static_cast<unsigned long long>(coverage.finished),
      static_cast<unsigned long long>(coverage.ended_at_first_token),
      static_cast<unsigned long long>(coverage.cancelled),
      static_cast<unsigned long long>(coverage.deadlines),
      static_cast<unsigned long long>(coverage.refused),
      static_cast<unsigned long long>(coverage.imported),
      static_cast<unsigned long long>(coverage.preemptions),
      static_cast<unsigned long long>(coverage.swaps),
      static_cast<unsigned long long>(coverage.swaps_without_room),
      static_cast<unsigned long long>(coverage.swaps_lost),
      static_cast<unsigned long long>(coverage.revocations),
      static_cast<unsigned long long>(coverage.chunks),
      static_cast<unsigned long long>(coverage.prefix_hits),
      static_cast<unsigned long long>(coverage.late_returns),
      static_cast<unsigned long long>(coverage.late_commits),
      static_cast<unsigned long long>(coverage.ids_accepted),
      static_cast<unsigned long long>(coverage.ids_rejected),
      static_cast<unsigned long long>(coverage.ids_forced),
      static_cast<unsigned long long>(coverage.ids_jumped),
      static_cast<unsigned long long>(coverage.ended_by_grammar),
      static_cast<unsigned long long>(coverage.rows_ahead),
      static_cast<unsigned long long>(coverage.rows_discarded),
      static_cast<unsigned long long>(coverage.held_back),
      static_cast<unsigned long long>(coverage.ended_behind_two));
}

TEST(ClusterSimTest, RandomSchedulesKeepEveryInvariantAndEnd) {
  std::signal(SIGABRT, &PrintSeedAndAbort);
  Coverage coverage;
  const char* const chosen = std::getenv("BATON_SIM_SEED");
  if (chosen != nullptr) {
    EXPECT_EQ(RunSeed(std::strtoull(chosen, nullptr, 10), &coverage), "");
    return;
  }
  for (uint64_t seed = kFirstSeed; seed < kFirstSeed + kSchedules; ++seed) {
    ASSERT_EQ(RunSeed(seed, &coverage), "") << "reproduce with BATON_SIM_SEED=" << seed;
  }
  Print(coverage);
  for (const uint64_t count : {coverage.resumed,
                               coverage.ended_at_first_token,
                               coverage.cancelled,
                               coverage.deadlines,
                               coverage.refused,
                               coverage.imported,
                               coverage.preemptions,
                               coverage.revocations,
                               coverage.swaps,
                               coverage.swaps_without_room,
                               coverage.blocks_swapped_in,
                               coverage.chunks,
                               coverage.prefix_hits,
                               coverage.late_returns,
                               coverage.late_commits,
                               coverage.ids_accepted,
                               coverage.ids_rejected,
                               coverage.scores,
                               coverage.ids_jumped,
                               coverage.ended_by_grammar,
                               coverage.rows_ahead,
                               coverage.rows_discarded,
                               coverage.held_back,
                               coverage.ended_behind_two}) {
    EXPECT_GT(count, 0u) << "a path was never taken";
  }
}

TEST(ClusterSimTest, ASeedAlwaysGivesTheSameRun) {
  Coverage first, second;
  EXPECT_EQ(RunSeed(kFirstSeed + 7, &first), "");
  EXPECT_EQ(RunSeed(kFirstSeed + 7, &second), "");
  EXPECT_EQ(std::memcmp(&first, &second, sizeof(Coverage)), 0);
}

// An order that changes with every moment and goes against age and estimates alike.
uint64_t Whim(const SequenceView& view, base::Instant now) {
  const auto moment = static_cast<uint64_t>(now.time_since_epoch().count());
  const uint64_t end = view.end ? static_cast<uint64_t>(view.end->expected_remaining) + 1 : 0;
  uint64_t whim = (view.id.value() + 7 * end) * 0x9E3779B97F4A7C15u ^ moment / 3;
  whim ^= whim >> 31;
  return whim * 0xBF58476D1CE4E5B9u;
}
bool AgainstAge(const SequenceView& a, const SequenceView& b, const PolicyMoment&) {
  return CameBefore(b, a);
}

// What a policy may say at worst, as orders of any moment.
constexpr Policy kLiars[] = {
    {.starts_before = AgainstAge,
     .admits = [](const SequenceView&, const AdmissionView&, const PolicyMoment&) { return false; },
     .yields_before = [](const SequenceView& a, const SequenceView& b,
                         const PolicyMoment&) { return CameBefore(a, b); }},
    {.starts_before = [](const SequenceView& a, const SequenceView& b,
                         const PolicyMoment& m) { return Whim(a, m.now) < Whim(b, m.now); },
     .admits =
         [](const SequenceView& candidate, const AdmissionView& view, const PolicyMoment& m) {
           return (Whim(candidate, m.now) + view.beside.size()) % 3 == 0;
         },
     .yields_before = [](const SequenceView& a, const SequenceView& b,
                         const PolicyMoment& m) { return Whim(a, m.now) > Whim(b, m.now); },
     .displaces = [](const SequenceView& a, const SequenceView& b,
                     const PolicyMoment& m) { return Whim(a, m.now) < Whim(b, m.now); }},
    // Not even an order.
    {.starts_before = [](const SequenceView&, const SequenceView&,
                         const PolicyMoment&) { return true; },
     .admits = [](const SequenceView&, const AdmissionView&, const PolicyMoment&) { return true; },
     .yields_before = [](const SequenceView&, const SequenceView&,
                         const PolicyMoment&) { return true; }},
};

TEST(ClusterSimTest, NoPolicyKeepsRequestsFromTheirEnd) {
  std::signal(SIGABRT, &PrintSeedAndAbort);
  Coverage coverage;
  for (const Policy& liar : kLiars) {
    for (uint64_t seed = kFirstSeed; seed < kFirstSeed + kSchedules / 8; ++seed) {
      current_seed = seed;
      ASSERT_EQ(ClusterSim(seed, liar).Run(&coverage), "")
          << "policy " << &liar - kLiars << ", seed " << seed;
    }
  }
  EXPECT_GT(coverage.preemptions, 0u);
  EXPECT_GT(coverage.revocations, 0u);
  EXPECT_GT(coverage.displaced, 0u);
  EXPECT_GT(coverage.finished, kSchedules);
}

TEST(ClusterSimTest, EveryPolicyKeepsEveryInvariantUnderWrongEstimates) {
  std::signal(SIGABRT, &PrintSeedAndAbort);
  const char* const more = std::getenv("BATON_SIM_SCHEDULES");
  const uint64_t schedules = more == nullptr ? 100 : std::strtoull(more, nullptr, 10);
  for (const std::string& name : PolicyNames()) {
    Coverage coverage;
    for (const Forecast forecast : {Forecast::kNoise, Forecast::kSoon, Forecast::kLate}) {
      for (uint64_t seed = kFirstSeed; seed < kFirstSeed + schedules; ++seed) {
        current_seed = seed;
        ASSERT_EQ(ClusterSim(seed, *PolicyNamed(name), forecast).Run(&coverage), "")
            << name << ", forecast " << static_cast<int>(forecast) << ", seed " << seed;
      }
    }
    std::printf(
        "%s: %llu schedules of each forecast: finished %llu, preemptions %llu, displaced "
        "%llu, revocations %llu\n",
        name.c_str(), static_cast<unsigned long long>(schedules),
        static_cast<unsigned long long>(coverage.finished),
        static_cast<unsigned long long>(coverage.preemptions),
        static_cast<unsigned long long>(coverage.displaced),
        static_cast<unsigned long long>(coverage.revocations));
    EXPECT_GT(coverage.preemptions, 0u) << name;
    EXPECT_GT(coverage.finished, schedules) << name;
    if (name != "remaining") {
      EXPECT_EQ(coverage.displaced, 0u) << name;
    }
  }
}

}  // namespace
}  // namespace baton::sim
