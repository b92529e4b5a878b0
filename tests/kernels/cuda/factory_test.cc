// What the factory says of device cuda, on machines with and without a GPU.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kernels/backend_factory.h"
#include "kernels/cuda/device/runtime.h"

namespace baton::kernels {
namespace {

using testing::AnyOf;
using testing::HasSubstr;

TEST(CudaFactoryTest, WithoutAGpuItIsRefusedWithWhatToDo) {
  const auto count = cuda::DeviceCount();
  const auto backend = MakeBackend({.device = Device::kCuda, .compute_dtype = DType::kBF16});
  if (count.ok()) {
    EXPECT_TRUE(backend.ok()) << backend.status();
    return;
  }
  ASSERT_FALSE(backend.ok());
  EXPECT_EQ(backend.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(backend.status().ToString(),
              AnyOf(HasSubstr("no NVIDIA driver"), HasSubstr("no NVIDIA GPU"),
                    HasSubstr("driver is too old")));
  EXPECT_THAT(backend.status().ToString(), HasSubstr("--device cpu"));
}

TEST(CudaFactoryTest, ADeviceHasItsOwnMemory) {
  EXPECT_TRUE(HasOwnMemory(Device::kCuda));
  EXPECT_FALSE(HasOwnMemory(Device::kCpu));
  EXPECT_FALSE(HasOwnMemory(Device::kReference));
}

TEST(CudaFactoryTest, AGroupOfMoreGpusThanThereAreIsRefused) {
  const auto count = cuda::DeviceCount();
  const int ranks = count.value_or(0) + 1;
  const auto group = MakeGroup({.device = Device::kCuda, .ranks = ranks});
  ASSERT_EQ(group.status().code(), absl::StatusCode::kFailedPrecondition) << group.status();
  EXPECT_THAT(group.status().ToString(),
              HasSubstr(count.ok() ? "CUDA_VISIBLE_DEVICES" : "--device cpu"));
}

}  // namespace
}  // namespace baton::kernels
