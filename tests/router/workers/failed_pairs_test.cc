#include "router/workers/failed_pairs.h"

#include <gtest/gtest.h>

namespace baton {
namespace {

TEST(FailedPairsTest, PairIsForgivenOnceItsLastFailureIsLongAgo) {
  const base::Instant begin(std::chrono::hours(1));
  const auto at = [&](int seconds) { return begin + std::chrono::seconds(seconds); };
  const auto has = [](const PairSet& pairs, const char* prefill) {
    return pairs.contains(AddressPairLess::Views(prefill, "d"));
  };
  FailedPairs failed;
  failed.Mark("p", "d", at(10));
  failed.Mark("q", "d", at(12));
  failed.Mark("p", "d", at(15));  // again
  EXPECT_TRUE(has(failed.At(at(11)), "p") && has(failed.At(at(11)), "q"));
  EXPECT_FALSE(has(failed.At(at(12)), "q"));
  EXPECT_TRUE(has(failed.At(at(14)), "p"));
  EXPECT_TRUE(failed.At(at(15)).empty());
}

}  // namespace
}  // namespace baton
