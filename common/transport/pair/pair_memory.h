#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/kv/block_layout.h"
#include "common/transport/pair/communicator.h"
#include "common/transport/pair/pair_protocol.h"

namespace baton {

// A part of a staging buffer and the places in blocks where it belongs, perhaps on several ranks.
struct ScatterPart {
  int64_t from = 0;  // offset in the staging buffer
  ByteParts to;
};

// The staging buffers of another process of this host, mapped here for reading.
class MappedRing {
 public:
  virtual ~MappedRing() = default;
  virtual int64_t bytes() const = 0;
  // Copies bytes of it into a staging buffer of this process, and waits for the copy.
  virtual absl::Status CopyOut(int64_t offset, int64_t count, std::byte* to) = 0;
};

// Staging buffers of one size that lie one after the other, taken once at the start. Used by one
// thread.
class StagingRing {
 public:
  virtual ~StagingRing() = default;
  virtual std::byte* buffer(int index) = 0;
  // The size of all buffers together.
  virtual int64_t ring_bytes() const = 0;
  // A handle by which another process of this host maps all of them.
  virtual absl::StatusOr<std::string> Export() = 0;
  // The buffers that `handle` names in another process. A handle whose buffers are gone, or are
  // fewer than `bytes`, is an error.
  virtual absl::StatusOr<std::unique_ptr<MappedRing>> Map(const std::string& handle,
                                                          int64_t bytes) = 0;
};

// The memory of one device as pairs use it: staging buffers, numbered from 0, and the copies
// between them and KV blocks. Used by one thread. The copies block it for the microseconds that
// they take, so that none is under way while the thread is inside a communicator.
class PairMemory : public StagingRing {
 public:
  // Must be the first call of the thread that uses this.
  virtual absl::Status BindThread() = 0;
  // The stream that communicators queue their transfers on.
  virtual DeviceStream stream() = 0;

  // Copies `sources` into a buffer, each to its place `offsets[i]` behind the header, and returns
  // their checksums, or none without `sums`.
  virtual absl::StatusOr<std::vector<uint64_t>> Gather(int buffer,
                                                       std::span<const SourcePart> sources,
                                                       std::span<const int64_t> offsets,
                                                       bool sums) = 0;
  // Zeroes the first `bytes` bytes of a buffer, so that a void parcel carries nobody's KV.
  virtual absl::Status Clear(int buffer, int64_t bytes) = 0;
  virtual absl::Status WriteHeader(int buffer, const std::string& header) = 0;
  virtual absl::StatusOr<std::string> ReadHeader(int buffer) = 0;
  // Copies parts of a buffer into their blocks. The checksums are of what stands in the blocks
  // afterwards; the parts in the buffer are of no use then.
  virtual absl::StatusOr<std::vector<uint64_t>> Scatter(int buffer,
                                                        std::span<const ScatterPart> parts,
                                                        bool sums) = 0;

  // Mark notes the end of what is queued on the stream now, under the number of a buffer; Reached
  // says whether the stream has come that far.
  virtual absl::Status Mark(int buffer) = 0;
  virtual absl::StatusOr<bool> Reached(int buffer) = 0;
};

// Blocks and staging buffers in host memory, for communicators that move such. It has no stream: a
// transfer is over when its communicator is no longer in progress.
absl::StatusOr<std::unique_ptr<PairMemory>> MakeHostPairMemory(int buffers, int64_t buffer_bytes);

}  // namespace baton
