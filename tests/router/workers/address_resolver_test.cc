#include "router/workers/address_resolver.h"

#include <gmock/gmock.h>

namespace baton {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;

TEST(AddressResolverTest, AddressStandsForItself) {
  EXPECT_THAT(*ResolveTarget("10.0.0.7:50051"), ElementsAre("10.0.0.7:50051"));
  EXPECT_THAT(*ResolveTarget("[::1]:50051"), ElementsAre("[::1]:50051"));
}

TEST(AddressResolverTest, NameStandsForItsAddressesWithAndWithoutScheme) {
  EXPECT_THAT(*ResolveTarget("localhost:5"), Contains("127.0.0.1:5"));
  EXPECT_EQ(*ResolveTarget("dns:///localhost:5"), *ResolveTarget("localhost:5"));
}

TEST(AddressResolverTest, WhatIsNoAddressIsRefusedWithTheFormExpected) {
  for (const char* target : {"", "localhost", "localhost:", ":50051"}) {
    const auto resolved = ResolveTarget(target);
    ASSERT_FALSE(resolved.ok()) << target;
    EXPECT_EQ(resolved.status().code(), absl::StatusCode::kInvalidArgument) << target;
  }
}

TEST(AddressResolverTest, UnknownNameIsUnavailable) {
  EXPECT_EQ(ResolveTarget("no-such-host.invalid:1").status().code(),
            absl::StatusCode::kUnavailable);
}

}  // namespace
}  // namespace baton
