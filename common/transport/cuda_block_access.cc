#include <cstring>
#include <utility>

#include "common/base/mutex.h"
#include "common/base/status.h"
#include "common/transport/cuda_memory.h"
#include "common/transport/kv_transport.h"
#include "kernels/cuda/runtime.h"

namespace baton {
namespace {

namespace cuda = kernels::cuda;

constexpr int kLanes = 4;

class CudaBlockAccess final : public BlockAccess {
 public:
  explicit CudaBlockAccess(int device) : device_(device) {}

  absl::Status Allocate() {
    BATON_RETURN_IF_ERROR(cuda::SelectDevice(device_));
    for (int i = 0; i < kLanes; ++i) {
      BATON_ASSIGN_OR_RETURN(cuda::Stream stream, cuda::Stream::Create());
      BATON_ASSIGN_OR_RETURN(auto pinned, cuda::PinnedMemory::Allocate(kMaxPieceBytes));
      idle_.push_back(std::make_unique<Lane>(Lane{std::move(stream), std::move(pinned)}));
    }
    return absl::OkStatus();
  }

  absl::StatusOr<HostBytes> Read(std::span<const std::byte> block) const override {
    const Held lane(this);
    BATON_RETURN_IF_ERROR(cuda::SelectDevice(device_));
    void* const pinned = lane->pinned->data();
    BATON_RETURN_IF_ERROR(
        cuda::CopyToHost(pinned, block.data(), block.size(), lane->stream.handle()));
    BATON_RETURN_IF_ERROR(lane->stream.Synchronize());
    // The message may live on for long; the pinned buffer is wanted by others.
    std::shared_ptr<std::byte[]> copy(new std::byte[block.size()]);
    std::memcpy(copy.get(), pinned, block.size());
    const std::span<const std::byte> bytes(copy.get(), block.size());
    return HostBytes{.bytes = bytes, .copy = std::move(copy)};
  }

  absl::Status Write(const std::vector<std::span<const std::byte>>& parts,
                     std::span<std::byte> block) const override {
    const Held lane(this);
    BATON_RETURN_IF_ERROR(cuda::SelectDevice(device_));
    auto* to = static_cast<std::byte*>(lane->pinned->data());
    for (const std::span<const std::byte> part : parts) {
      std::memcpy(to, part.data(), part.size());
      to += part.size();
    }
    BATON_RETURN_IF_ERROR(cuda::CopyToDevice(block.data(), lane->pinned->data(), block.size(),
                                             lane->stream.handle()));
    return lane->stream.Synchronize();
  }

 private:
  struct Lane {
    cuda::Stream stream;
    std::unique_ptr<cuda::PinnedMemory> pinned;  // kMaxPieceBytes
  };
  // A lane for the time of one copy, microseconds.
  class Held final {
   public:
    explicit Held(const CudaBlockAccess* access) : access_(access), lane_(access->Take()) {}
    ~Held() { access_->Return(std::move(lane_)); }
    Held(const Held&) = delete;
    Held& operator=(const Held&) = delete;
    Lane* operator->() const { return lane_.get(); }

   private:
    const CudaBlockAccess* const access_;
    std::unique_ptr<Lane> lane_;
  };

  std::unique_ptr<Lane> Take() const {
    base::MutexLock lock(&mutex_);
    while (idle_.empty()) returned_.Wait(&mutex_);
    std::unique_ptr<Lane> lane = std::move(idle_.back());
    idle_.pop_back();
    return lane;
  }
  void Return(std::unique_ptr<Lane> lane) const {
    base::MutexLock lock(&mutex_);
    idle_.push_back(std::move(lane));
    returned_.NotifyOne();
  }

  const int device_;
  mutable base::Mutex mutex_;
  mutable base::CondVar returned_;
  mutable std::vector<std::unique_ptr<Lane>> idle_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace

absl::StatusOr<std::unique_ptr<BlockAccess>> MakeCudaBlockAccess(int device) {
  auto access = std::make_unique<CudaBlockAccess>(device);
  BATON_RETURN_IF_ERROR(access->Allocate());
  return access;
}

}  // namespace baton
