#include "common/nccl/library.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/fakes/fake_nccl/fake_nccl_access.h"

namespace baton {
namespace {

using testing::HasSubstr;

TEST(NcclLibraryTest, AMissingLibraryNamesTheFileAndTheWayOut) {
  const auto library = NcclLibrary::Load("/nonexistent/libnccl.so.2", "--kv-transport grpc");
  ASSERT_EQ(library.status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(library.status().message(), HasSubstr("/nonexistent/libnccl.so.2"));
  EXPECT_THAT(library.status().message(), HasSubstr("--kv-transport grpc"));
}

TEST(NcclLibraryTest, ALibraryWithoutTheSymbolsIsRefused) {
  const auto library = NcclLibrary::Load("libm.so.6", "--kv-transport grpc");
  ASSERT_EQ(library.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(library.status().message(), HasSubstr("ncclGetVersion"));
}

TEST(NcclLibraryTest, TheFakeLoadsAndSaysItsVersion) {
  const auto library = NcclLibrary::Load(FakeNcclPath(), "--kv-transport grpc");
  ASSERT_TRUE(library.ok()) << library.status();
  EXPECT_GE((*library)->version(), NcclLibrary::kOldest);
}

TEST(NcclLibraryTest, PeersNeedTheSameVersionToItsLastNumber) {
  EXPECT_TRUE(CheckPeerVersion(22809, 22809).ok());
  const absl::Status status = CheckPeerVersion(22809, 22803);
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(
      status.message(),
      "the prefill worker has NCCL 2.28.3, the decode worker 2.28.9; install the same version "
      "of both");
  EXPECT_EQ(CheckPeerVersion(22809, 22907).code(), absl::StatusCode::kFailedPrecondition);
}

}  // namespace
}  // namespace baton
