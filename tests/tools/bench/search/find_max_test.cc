#include "tools/bench/search/find_max.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <set>

#include "tests/tools/bench/figures/records.h"
#include "tests/tools/bench/search/mmc_server.h"

namespace baton::bench {
namespace {

using testing::HasSubstr;

Slo TtftSlo(double seconds, double percentile) {
  return {.limits = {{SloMetric::kTtft, 1e3 * seconds}}, .percentile = percentile, .reader = ""};
}

RunPoint OpenLoopOf(const MmcServer& server) {
  return [server](const PointRequest& request) -> absl::StatusOr<LoadResult> {
    return server.Serve(request.value, request.requests, request.seed);
  };
}

FindMaxOptions Options(const Slo& slo, double start, uint64_t seed) {
  FindMaxOptions options;
  options.slo = slo;
  options.start = start;
  options.seed = seed;
  return options;
}

// How often the knee is found within 5 %, over ten seeds; no point at or over capacity may pass.
int FoundWithin5(const MmcServer& server, double seconds, double percentile) {
  const double knee = server.Knee(seconds, 1 - percentile / 100);
  int found = 0;
  for (uint64_t seed = 1; seed <= 10; ++seed) {
    const double start = server.capacity() * (0.1 + 0.013 * static_cast<double>(seed));
    const FindMaxResult result =
        FindMax(Options(TtftSlo(seconds, percentile), start, 1000 * seed), OpenLoopOf(server));
    EXPECT_TRUE(result.converged) << result.ended;
    EXPECT_EQ(result.failed_metric.value_or(SloMetric::kE2e), SloMetric::kTtft) << seed;
    const double error = result.best.value_or(0) / knee - 1;
    found += std::abs(error) <= 0.05 ? 1 : 0;
    for (const SearchPoint& point : result.points) {
      EXPECT_FALSE(point.accepted && point.value >= server.capacity()) << point.value;
    }
  }
  return found;
}

TEST(FindMaxRate, FindsTheKneeOfAServerOfTenAtP99) {
  EXPECT_GE(FoundWithin5({.servers = 10, .service_rate = 1}, 1, 99), 9) << "seeds 1000 to 10000";
}

TEST(FindMaxRate, FindsTheKneeOfAServerOfThirtyTwoAtP99) {
  EXPECT_GE(FoundWithin5({.servers = 32, .service_rate = 1}, 0.5, 99), 9) << "seeds 1000 to 10000";
}

TEST(FindMaxRate, FindsTheKneeOfAServerOfTenAtP95) {
  EXPECT_GE(FoundWithin5({.servers = 10, .service_rate = 1}, 1, 95), 9) << "seeds 1000 to 10000";
}

// Whatever the limit: where arrivals reach what can be served, nothing passes, over many seeds.
TEST(FindMaxRate, NeverAcceptsASaturatedPoint) {
  const MmcServer server{.servers = 4, .service_rate = 1};
  for (const double seconds : {0.5, 2.0, 8.0}) {
    for (const double load : {1.0, 1.05, 1.3}) {
      for (uint64_t seed = 1; seed <= 12; ++seed) {
        FindMaxOptions options = Options(TtftSlo(seconds, 95), load * server.capacity(), seed);
        options.max_points = 1;
        const FindMaxResult result = FindMax(options, OpenLoopOf(server));
        ASSERT_EQ(result.points.size(), 1U);
        EXPECT_FALSE(result.points[0].accepted)
            << "limit " << seconds << " s, load " << load << ", seed " << seed;
      }
    }
  }
}

// A limit so wide that a short run keeps it: the slopes must tell.
TEST(FindMaxRate, RefusesASaturatedPointWhosePercentilesPass) {
  const MmcServer server{.servers = 4, .service_rate = 1};
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    FindMaxOptions options = Options(TtftSlo(1000, 99), 1.3 * server.capacity(), seed);
    options.least_limits = 0;
    options.max_points = 1;
    const FindMaxResult result = FindMax(options, OpenLoopOf(server));
    const SearchPoint& point = result.points.at(0);
    EXPECT_EQ(point.metrics[0].rule.verdict, Verdict::kPasses);
    EXPECT_TRUE(point.saturated);
    EXPECT_FALSE(point.accepted) << "seed " << seed;
    EXPECT_THAT(point.reason, HasSubstr("saturated"));
  }
}

TEST(FindMaxConcurrency, FindsTheMostUsersOfAClosedLoop) {
  const MmcServer server{.servers = 8, .service_rate = 1};
  const double limit = 3;
  int knee = server.servers;
  while (server.UserWaitsLonger(knee + 1, limit) <= 0.05) ++knee;
  int found = 0;
  for (uint64_t seed = 1; seed <= 10; ++seed) {
    FindMaxOptions options = Options(TtftSlo(limit, 95), 1, 100 * seed);
    options.variable = SearchFor::kConcurrency;
    const FindMaxResult result = FindMax(options, [&](const PointRequest& request) {
      EXPECT_EQ(request.value, std::round(request.value));
      return absl::StatusOr<LoadResult>(
          server.ServeUsers(static_cast<int>(request.value), request.requests, request.seed));
    });
    EXPECT_TRUE(result.converged) << result.ended;
    found += std::abs(result.best.value_or(0) - knee) <= 1 ? 1 : 0;
  }
  EXPECT_GE(found, 9) << "users: " << knee << ", seeds 100 to 1000";
}

// A server that answers everything in `ttft`, up to `capacity`, and everything late above.
RunPoint Cliff(double capacity) {
  return [capacity](const PointRequest& request) -> absl::StatusOr<LoadResult> {
    std::vector<RequestRecord> records;
    const double ttft = request.value <= capacity ? 0.1 : 3;
    for (int64_t i = 0; i < request.requests; ++i) {
      const double at = static_cast<double>(i) / request.value;
      records.push_back(RecordOf(i, at, {at + ttft, at + ttft + 0.1}));
    }
    return LoadOf(records);
  };
}

TEST(FindMax, NamesTheMetricThatFailedFirst) {
  Slo slo{.limits = {{SloMetric::kTpot, 500}, {SloMetric::kTtft, 1000}}, .percentile = 90};
  const FindMaxResult result = FindMax(Options(slo, 1, 1), Cliff(37));
  ASSERT_TRUE(result.best.has_value());
  EXPECT_LE(*result.best, 37);
  EXPECT_GT(*result.first_failing, 37);
  EXPECT_LE(*result.first_failing / *result.best, 1.02);
  EXPECT_EQ(result.failed_metric, SloMetric::kTtft);
  EXPECT_THAT(result.failed_because, HasSubstr("ttft: "));
  EXPECT_TRUE(result.converged);
}

TEST(FindMax, ComesDownFromAStartThatIsTooHigh) {
  const FindMaxResult result = FindMax(Options(TtftSlo(1, 90), 900, 1), Cliff(37));
  ASSERT_TRUE(result.best.has_value());
  EXPECT_NEAR(*result.best, 37, 0.02 * 37);
}

TEST(FindMax, SaysWhenALimitOfTheSearchIsReached) {
  FindMaxOptions options = Options(TtftSlo(1, 90), 1, 1);
  options.upper_limit = 10;
  const FindMaxResult up = FindMax(options, Cliff(37));
  EXPECT_EQ(up.best, 10);
  EXPECT_FALSE(up.first_failing.has_value());
  EXPECT_THAT(up.ended, HasSubstr("upper limit, 10"));
  EXPECT_TRUE(up.complete());
  options.lower_limit = 0.5;
  const FindMaxResult down = FindMax(options, Cliff(0.1));
  EXPECT_FALSE(down.best.has_value());
  EXPECT_THAT(down.ended, HasSubstr("nothing passes"));
  options.max_points = 2;
  options.upper_limit = 1e5;
  const FindMaxResult many = FindMax(options, Cliff(37));
  EXPECT_THAT(many.ended, HasSubstr("most points"));
  EXPECT_FALSE(many.complete());
}

TEST(FindMax, KeepsWhatWasMeasuredWhenInterrupted) {
  int runs = 0;
  const FindMaxResult result =
      FindMax(Options(TtftSlo(1, 90), 1, 1), [&](const PointRequest& request) {
        absl::StatusOr<LoadResult> load = Cliff(37)(request);
        if (++runs == 3) load->interrupted = true;
        return load;
      });
  EXPECT_TRUE(result.interrupted);
  EXPECT_EQ(result.points.size(), 3U);
  EXPECT_EQ(result.best, 2) << "two points were judged";
  EXPECT_TRUE(result.points.back().partial);
  EXPECT_FALSE(result.points.back().accepted);
  EXPECT_FALSE(result.complete());
  EXPECT_FALSE(result.first_failing.has_value()) << "a point that was not judged did not fail";
}

TEST(FindMax, KeepsWhatWasMeasuredWhenTheServerGoesAway) {
  int runs = 0;
  const FindMaxResult result =
      FindMax(Options(TtftSlo(1, 90), 1, 1),
              [&](const PointRequest& request) -> absl::StatusOr<LoadResult> {
                if (++runs == 3) return absl::UnavailableError("nobody there");
                return Cliff(37)(request);
              });
  EXPECT_EQ(result.status.code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(result.best, 2);
  EXPECT_THAT(result.ended, HasSubstr("nobody there"));
}

// The server of Cliff(capacity), asked by a program that is late in the looks that `late` names.
FindMaxResult SearchWithLag(double capacity,
                            const std::function<bool(const PointRequest&, int look)>& late) {
  std::map<double, int> looks;
  return FindMax(Options(TtftSlo(1, 90), 1, 1), [&](const PointRequest& request) {
    absl::StatusOr<LoadResult> load = Cliff(capacity)(request);
    const bool was_late = late(request, ++looks[request.value]);
    if (was_late) load->lag_ms.assign(load->lag_ms.size(), 6.0);
    return load;
  });
}

TEST(FindMax, EndsWhereThisProgramIsTooSlow) {
  const FindMaxResult result =
      SearchWithLag(1e9, [](const PointRequest& request, int) { return request.value > 20; });
  EXPECT_EQ(result.best, 16);
  EXPECT_EQ(result.too_slow_at, 32);
  EXPECT_EQ(result.points.size(), 5U + 3U) << "the late point, and twice again";
  EXPECT_FALSE(result.first_failing.has_value()) << "what was not judged did not fail";
  EXPECT_FALSE(result.complete());
  EXPECT_THAT(result.points.back().reason, HasSubstr("lag 6.0 ms"));
}

TEST(FindMax, NeverHalvesOnWhatThisProgramWasLateFor) {
  const FindMaxResult result = SearchWithLag(37, [](const PointRequest&, int) { return true; });
  EXPECT_FALSE(result.best.has_value());
  EXPECT_EQ(result.too_slow_at, 1);
  EXPECT_EQ(result.points.size(), 3U);
  for (const SearchPoint& point : result.points) {
    EXPECT_EQ(point.value, 1) << "no lower value was tried";
    EXPECT_EQ(point.runs, 1) << "a point is over with its first late run";
    EXPECT_FALSE(point.judged());
  }
}

TEST(FindMax, RepeatsAPointThatThisProgramWasLateFor) {
  for (const int late_looks : {1, 2}) {
    const FindMaxResult result =
        SearchWithLag(37, [=](const PointRequest&, int look) { return look <= late_looks; });
    EXPECT_TRUE(result.converged) << result.ended;
    EXPECT_NEAR(result.best.value_or(0), 37, 0.02 * 37);
    EXPECT_FALSE(result.too_slow_at.has_value());
  }
}

TEST(FindMax, KeepsAValueThatThisProgramIsTooSlowToLookAtAgain) {
  // Only the second look at a value that passed is that long.
  const FindMaxResult result = SearchWithLag(
      37, [](const PointRequest& request, int look) { return request.value > 30 && look > 1; });
  EXPECT_TRUE(result.best.has_value());
  EXPECT_TRUE(result.too_slow_at.has_value());
  EXPECT_FALSE(result.complete());
}

TEST(FindMax, NeverAcceptsFailedOrCutOffRequests) {
  for (const bool cut_off : {false, true}) {
    const FindMaxResult result =
        FindMax(Options(TtftSlo(1, 90), 1, 1), [&](const PointRequest& request) {
          absl::StatusOr<LoadResult> load = Cliff(1e9)(request);
          if (request.value <= 20) return load;
          RequestRecord& record = load->records.back();
          record.cancelled = cut_off;
          if (!cut_off) record.status = absl::ResourceExhaustedError("full");
          return load;
        });
    ASSERT_TRUE(result.best.has_value());
    EXPECT_LE(*result.best, 20);
    EXPECT_THAT(result.failed_because, HasSubstr("1 requests failed"));
  }
}

TEST(FindMax, AVoidRunEndsTheSearch) {
  FindMaxOptions options = Options(TtftSlo(1, 90), 1, 1);
  options.eos = EosMode::kMask;
  const FindMaxResult result = FindMax(options, [](const PointRequest& request) {
    absl::StatusOr<LoadResult> load = Cliff(37)(request);
    load->records[4].max_tokens = 9;
    return load;
  });
  EXPECT_EQ(result.points.size(), 1U);
  EXPECT_FALSE(result.best.has_value());
  EXPECT_THAT(result.ended, HasSubstr("expected 9 output tokens, found 2"));
  EXPECT_FALSE(result.status.ok());
}

TEST(FindMax, AValueThatFailedByChanceIsTriedAgain) {
  // The first look at every value between 20 and 24 fails.
  std::vector<double> seen;
  const FindMaxResult result =
      FindMax(Options(TtftSlo(1, 90), 1, 1), [&](const PointRequest& request) {
        const bool first = std::find(seen.begin(), seen.end(), request.value) == seen.end();
        seen.push_back(request.value);
        absl::StatusOr<LoadResult> load = Cliff(37)(request);
        if (!first || request.value < 20 || request.value > 24) return load;
        for (size_t i = 0; i < load->records.size() / 5; ++i) {
          for (Chunk& chunk : load->records[i].chunks) chunk.at += 3;
        }
        return load;
      });
  ASSERT_TRUE(result.best.has_value());
  EXPECT_GT(*result.best, 20);
}

TEST(FindMax, SpreadsAPointOverRunsThatAPlanCanHold) {
  FindMaxOptions options = Options(TtftSlo(1, 90), 8, 1);
  options.first_requests = 900;
  options.most_per_run = 400;
  options.max_points = 1;
  std::set<uint64_t> seeds;
  const FindMaxResult result = FindMax(options, [&](const PointRequest& request) {
    seeds.insert(request.seed);
    EXPECT_LE(request.requests, 400);
    return Cliff(37)(request);
  });
  EXPECT_TRUE(result.points[0].accepted) << result.points[0].reason;
  EXPECT_GE(result.points[0].requests, 900);
  EXPECT_EQ(result.points[0].runs, 3);
  EXPECT_EQ(seeds.size(), 3U);
}

// A closed loop in steps: every user's request takes half a second, whatever its time to the first
// token. Until `cold_s` that is late, and at more than `capacity` users always.
RunPoint Users(double capacity, double cold_s) {
  return [=](const PointRequest& request) -> absl::StatusOr<LoadResult> {
    std::vector<RequestRecord> records;
    for (int64_t i = 0; i < request.requests; ++i) {
      const double at = 0.5 * std::floor(static_cast<double>(i) / request.value);
      const bool late = at < cold_s || request.value > capacity;
      records.push_back(RecordOf(i, at, {at + (late ? 0.45 : 0.1), at + 0.5}));
    }
    return LoadOf(records);
  };
}

FindMaxOptions UsersOptions(double start) {
  FindMaxOptions options = Options(TtftSlo(0.2, 90), start, 1);
  options.variable = SearchFor::kConcurrency;
  options.least_requests_long = 0;
  return options;
}

TEST(FindMaxConcurrency, GoesDownByOneFromAValueThatWasTakenBack) {
  for (const double taken_back : {2.0, 4.0, 6.0}) {
    int looks = 0;
    const FindMaxResult result =
        FindMax(UsersOptions(taken_back), [&](const PointRequest& request) {
          const bool by_chance = request.value == taken_back && looks++ == 0;
          return Users(by_chance ? 1e9 : taken_back - 1, 0)(request);
        });
    EXPECT_EQ(result.best, taken_back - 1) << result.ended;
    EXPECT_EQ(result.first_failing, taken_back);
    EXPECT_TRUE(result.converged);
  }
}

TEST(FindMaxConcurrency, JudgesOnlyWhatComesAfterTheWarmUp) {
  FindMaxOptions options = UsersOptions(1);
  EXPECT_FALSE(FindMax(options, Users(8, 30)).best.has_value()) << "the cold part counts";
  for (const double warmup_s : {30.0, 300.0}) {
    options.warmup_s = warmup_s;
    const FindMaxResult result = FindMax(options, Users(8, warmup_s));
    EXPECT_EQ(result.best, 8) << result.ended;
    EXPECT_EQ(result.first_failing, 9);
  }
}

TEST(FindMaxRate, AsksForTheSameRequestsWhateverTheWarmUp) {
  std::set<int64_t> asked;
  for (const double warmup_s : {0.0, 60.0}) {
    FindMaxOptions options = Options(TtftSlo(1, 90), 8, 1);
    options.warmup_s = warmup_s;
    options.max_points = 1;
    FindMax(options, [&](const PointRequest& request) -> absl::StatusOr<LoadResult> {
      asked.insert(request.requests);
      return absl::UnavailableError("enough");
    });
  }
  EXPECT_EQ(asked.size(), 1U) << "the plan adds those of the warm-up";
}

// Of ten gaps of a request about one is late: nearly as many as are allowed.
TEST(FindMaxRate, CountsTheRequestsThatGapsNeed) {
  FindMaxOptions options =
      Options({.limits = {{SloMetric::kItl, 200}}, .percentile = 90, .reader = ""}, 8, 1);
  options.first_requests = 100;
  options.least_requests_long = 0;
  options.max_points = 1;
  std::vector<int64_t> asked;
  FindMax(options, [&](const PointRequest& request) {
    asked.push_back(request.requests);
    std::vector<RequestRecord> records;
    for (int64_t i = 0; i < request.requests; ++i) {
      double at = static_cast<double>(i) / request.value;
      std::vector<double> tokens = {at};
      for (int64_t gap = 0; gap < 10; ++gap) {
        tokens.push_back(at += (10 * i + gap) % 23 < 2 ? 0.3 : 0.1);
      }
      records.push_back(RecordOf(i, static_cast<double>(i) / request.value, tokens));
    }
    return absl::StatusOr<LoadResult>(LoadOf(records));
  });
  ASSERT_GE(asked.size(), 2U) << "the first look does not decide";
  EXPECT_LT(asked[1], 300) << "the rule wants some 1900 gaps more, not requests";
}

TEST(DefaultRequests, AreStatedInTheDocuments) {
  EXPECT_EQ(DefaultRequests(TtftSlo(1, 99)), 3304);
  EXPECT_EQ(DefaultRequests(TtftSlo(1, 95)), 631);
}

}  // namespace
}  // namespace baton::bench
