// What of the runtime wrapper needs no GPU: how errors read, and what is refused.
#include "kernels/cuda/device/runtime.h"

#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/base/status.h"
#include "kernels/cuda/device/shared_library.h"

namespace baton::kernels::cuda {
namespace {

using testing::HasSubstr;

TEST(CudaErrorTest, AStickyErrorIsADeviceFaultThatSaysWhatWasDone) {
  for (const cudaError_t error : {cudaErrorIllegalAddress, cudaErrorLaunchFailure,
                                  cudaErrorMisalignedAddress, cudaErrorECCUncorrectable}) {
    const absl::Status status = ToStatus(error, "running a step");
    EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
    EXPECT_EQ(DetailOf(status).reason, Reason::kDeviceFault) << status;
    EXPECT_THAT(status.ToString(), HasSubstr("running a step"));
    EXPECT_THAT(status.ToString(), HasSubstr(cudaGetErrorName(error)));
  }
}

TEST(CudaErrorTest, TooLittleMemoryIsNotAFault) {
  const absl::Status status = ToStatus(cudaErrorMemoryAllocation, "packing a weight");
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(status.ToString(), HasSubstr("packing a weight"));
}

TEST(CudaErrorTest, NoGpuSaysWhatToDo) {
  const absl::Status status = ToStatus(cudaErrorNoDevice, "starting");
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(status.ToString(), HasSubstr("--device cpu"));
}

TEST(CudaErrorTest, SuccessIsOk) { EXPECT_TRUE(ToStatus(cudaSuccess, "anything").ok()); }

TEST(CheckDeviceTest, AnOlderGpuIsRefusedWithFoundAndExpected) {
  const absl::Status status =
      CheckDevice({.name = "NVIDIA A100", .capability_major = 8, .capability_minor = 0});
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(status.ToString(), HasSubstr("NVIDIA A100"));
  EXPECT_THAT(status.ToString(), HasSubstr("8.0"));
  EXPECT_THAT(status.ToString(), HasSubstr("90a"));
}

TEST(CheckDeviceTest, ANewerGpuThanTheMachineCodeIsRefused) {
  const absl::Status status =
      CheckDevice({.name = "NVIDIA B200", .capability_major = 10, .capability_minor = 0});
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(status.ToString(), HasSubstr("BATON_CUDA_ARCHITECTURES=100-real"));
}

TEST(CheckDeviceTest, HopperIsAccepted) {
  EXPECT_TRUE(CheckDevice({.name = "NVIDIA H200", .capability_major = 9}).ok());
}

TEST(SharedLibraryTest, AMissingLibraryNamesWhatWasTriedAndWhatToDo) {
  const auto library = SharedLibrary::Open("libnot-here.so.1", "install it");
  ASSERT_FALSE(library.ok());
  EXPECT_EQ(library.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(library.status().ToString(), HasSubstr("libnot-here.so.1"));
  EXPECT_THAT(library.status().ToString(), HasSubstr("install it"));
}

TEST(SharedLibraryTest, AFunctionThatIsNotThereIsNamed) {
  const auto library = SharedLibrary::Open("libc.so.6", "");
  ASSERT_TRUE(library.ok()) << library.status();
  size_t (*length)(const char*) = nullptr;
  ASSERT_TRUE((*library)->Find("strlen", &length).ok());
  EXPECT_EQ(length("baton"), 5U);
  const absl::Status missing = (*library)->Find("no_such_function", &length);
  EXPECT_THAT(missing.ToString(), HasSubstr("no_such_function"));
}

TEST(SharedLibraryTest, WhatWasLoadedStays) {
  constexpr char kName[] = "libanl.so.1";  // of glibc, and needed by nothing here
  ASSERT_EQ(dlopen(kName, RTLD_NOW | RTLD_NOLOAD), nullptr);
  ASSERT_TRUE(SharedLibrary::Open(kName, "").ok());
  EXPECT_NE(dlopen(kName, RTLD_NOW | RTLD_NOLOAD), nullptr);
}

}  // namespace
}  // namespace baton::kernels::cuda
