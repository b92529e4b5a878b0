#include "common/base/eos_probe.h"

#include <gtest/gtest.h>

#include <functional>
#include <set>

namespace baton {
namespace {

TEST(EosProbeTest, ADigestTellsProbesApartThatMeanDifferentThings) {
  const EosProbe probe = {.hidden = 2, .dims = 2, .directions = {1, 2, 3, 4}};
  std::set<uint64_t> digests = {EosProbeDigest(probe)};
  const std::vector<std::function<void(EosProbe*)>> changes = {
      [](EosProbe* other) { other->layer = 0; },
      [](EosProbe* other) { other->layer = 1; },
      [](EosProbe* other) { other->directions[3] = 5; },
      [](EosProbe* other) {
        other->biases = {0, 1};
      },
      [](EosProbe* other) { other->hidden = 4, other->dims = 1; },
  };
  for (const auto& change : changes) {
    EosProbe other = probe;
    change(&other);
    EXPECT_TRUE(digests.insert(EosProbeDigest(other)).second) << digests.size();
  }
  EXPECT_EQ(digests.count(0), 0u) << "which says that there is none";
  EosProbe zeros = probe;
  zeros.biases = {0, 0};
  EXPECT_EQ(EosProbeDigest(zeros), EosProbeDigest(probe));
}

}  // namespace
}  // namespace baton
