#include "common/rpc/descriptors.h"

#include <gtest/gtest.h>

namespace baton {
namespace {

TEST(Descriptors, ConnectionsLeaveFilesForTheRest) {
  EXPECT_EQ(ConnectionsWithin(16'384, 20'000), 16'384u);
  EXPECT_EQ(ConnectionsWithin(16'384, 8'000), 7'000u);
  EXPECT_EQ(ConnectionsWithin(16'384, 1'024), 768u);
  EXPECT_EQ(ConnectionsWithin(16'384, 100), 16u);
  EXPECT_GE(RaiseDescriptorLimit(), 16u);
  EXPECT_EQ(RaiseDescriptorLimit(), DescriptorLimit());
}

TEST(Descriptors, SomeAreKeptFromAllConnections) {
  EXPECT_EQ(FilesKept(1 << 20), size_t{1} << 15);
  EXPECT_EQ(FilesKept(1024), 32u);
  EXPECT_EQ(FilesKept(256), 32u);
  EXPECT_EQ(FilesKept(64), 8u);
  EXPECT_EQ(FilesKept(0), 0u);
}

// HTTP with all that it may have leaves room beyond what gRPC leaves to others.
TEST(Descriptors, HttpLeavesConnectionsToGrpc) {
  for (const size_t limit : {1024u, 4096u, 65'536u, 1u << 20}) {
    const size_t http = ConnectionsWithin(1 << 20, limit);
    EXPECT_GT(limit - http, 2 * FilesKept(limit)) << limit;
  }
}

}  // namespace
}  // namespace baton
