// The block kernels on the device, over pinned host memory that it reaches directly.
#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <utility>

#include "kernels/cuda/device/runtime.h"
#include "kernels/cuda/memory/blocks.h"
#include "tests/kernels/cuda/memory/block_copy_suite.h"

namespace baton::kernels::cuda {

class GpuCopier {
 public:
  GpuCopier() {
    const auto device = OpenDevice(0);
    EXPECT_TRUE(device.ok()) << device.status();
    auto stream = Stream::Create();
    if (stream.ok()) stream_ = std::make_unique<Stream>(*std::move(stream));
  }

  std::byte* Reach(size_t bytes) {
    auto memory = PinnedMemory::Allocate(bytes);
    if (!memory.ok()) {  // the suite still needs bytes to look at
      ADD_FAILURE() << memory.status();
      return plain_.emplace_back(new std::byte[bytes]).get();
    }
    return static_cast<std::byte*>(memory_.emplace_back(*std::move(memory))->data());
  }

  std::vector<uint64_t> Copy(const std::vector<BlockPart>& parts) {
    return Run(parts,
               [&](const BlockPart* on_device, int32_t count, int64_t largest, uint64_t* sums) {
                 return LaunchCopyParts(on_device, count, largest, sums, stream_->handle());
               });
  }
  std::vector<uint64_t> Sum(const std::vector<BlockPart>& parts) {
    return Run(parts,
               [&](const BlockPart* on_device, int32_t count, int64_t largest, uint64_t* sums) {
                 return LaunchSumParts(on_device, count, largest, sums, stream_->handle());
               });
  }

 private:
  template <typename Launch>
  std::vector<uint64_t> Run(const std::vector<BlockPart>& parts, Launch launch) {
    std::vector<uint64_t> sums(parts.size());
    if (stream_ == nullptr) return sums;
    const size_t part_bytes = sizeof(BlockPart) * parts.size();
    auto* const list = reinterpret_cast<BlockPart*>(Reach(part_bytes + 1));
    auto* const results = reinterpret_cast<uint64_t*>(Reach(sizeof(uint64_t) * parts.size() + 1));
    std::copy(parts.begin(), parts.end(), list);
    int64_t largest = 0;
    for (const BlockPart& part : parts) largest = std::max(largest, part.bytes);
    const int error = launch(list, static_cast<int32_t>(parts.size()), largest, results);
    EXPECT_EQ(error, 0) << ToStatus(error, "launching");
    const absl::Status done = stream_->Synchronize();
    EXPECT_TRUE(done.ok()) << done;
    std::copy(results, results + parts.size(), sums.begin());
    return sums;
  }

  std::unique_ptr<Stream> stream_;
  std::vector<std::unique_ptr<PinnedMemory>> memory_;
  std::vector<std::unique_ptr<std::byte[]>> plain_;
};

INSTANTIATE_TYPED_TEST_SUITE_P(Gpu, BlockCopySuite, GpuCopier);

}  // namespace baton::kernels::cuda
