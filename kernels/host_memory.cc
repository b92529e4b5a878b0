#include "kernels/host_memory.h"

#include <sys/mman.h>

#include <cstdlib>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "kernels/float_convert.h"

namespace baton::kernels {
namespace {

constexpr size_t kAlignment = 64;
constexpr size_t kHugePage = size_t{2} << 20;

class HostBuffer final : public Buffer {
 public:
  HostBuffer(void* data, size_t size) : data_(data), size_(size) {}
  ~HostBuffer() override { std::free(data_); }
  HostBuffer(const HostBuffer&) = delete;
  HostBuffer& operator=(const HostBuffer&) = delete;

  void* data() const override { return data_; }
  size_t size() const override { return size_; }

 private:
  void* data_;
  size_t size_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Buffer>> AllocateHost(size_t bytes) {
  const size_t alignment = bytes >= kHugePage ? kHugePage : kAlignment;
  // Rounds up to whole cache lines, so that a vector load at the end stays inside.
  const size_t rounded = (bytes + kAlignment - 1) / kAlignment * kAlignment + kAlignment;
  void* data = nullptr;
  if (posix_memalign(&data, alignment, rounded) != 0) {
    return absl::ResourceExhaustedError(absl::StrCat("cannot allocate ", bytes,
                                                     " bytes of host memory; free memory or lower "
                                                     "--kv-cache-memory"));
  }
  // This is only advice: without huge pages everything still works.
  if (bytes >= kHugePage) (void)madvise(data, rounded, MADV_HUGEPAGE);
  return std::make_unique<HostBuffer>(data, bytes);
}

absl::StatusOr<Shard> ResolveShard(const HostTensor& weight, const Shard& shard) {
  Shard resolved = shard;
  if (resolved.out_end < 0) resolved.out_end = weight.rows;
  if (resolved.in_end < 0) resolved.in_end = weight.cols;
  const bool rows_fit = 0 <= resolved.out_begin && resolved.out_begin < resolved.out_end &&
                        resolved.out_end <= weight.rows;
  const bool cols_fit = 0 <= resolved.in_begin && resolved.in_begin < resolved.in_end &&
                        resolved.in_end <= weight.cols;
  if (!rows_fit || !cols_fit) {
    return absl::InvalidArgumentError(
        absl::StrCat("shard rows [", resolved.out_begin, ", ", resolved.out_end, ") columns [",
                     resolved.in_begin, ", ", resolved.in_end, ") of a weight of ", weight.rows,
                     " x ", weight.cols, "; expected a non-empty part of it"));
  }
  return resolved;
}

absl::StatusOr<std::unique_ptr<Buffer>> CopyConverted(const HostTensor& tensor, DType dtype) {
  const int64_t count = tensor.rows * tensor.cols;
  if (count <= 0) return absl::InvalidArgumentError("an empty tensor");
  BATON_ASSIGN_OR_RETURN(auto buffer, AllocateHost(count * SizeOf(dtype)));
  void* data = buffer->data();
  if (tensor.dtype == dtype) {
    std::memcpy(data, tensor.data, count * SizeOf(dtype));
    return buffer;
  }
  for (int64_t i = 0; i < count; ++i) {
    StoreElement(data, dtype, i, LoadElement(tensor.data, tensor.dtype, i));
  }
  return buffer;
}

}  // namespace baton::kernels
