#pragma once

#include <cstddef>
#include <memory>

#include "absl/status/statusor.h"
#include "kernels/backend.h"

namespace baton::kernels {

// Allocates memory of this process, 64-byte aligned. From 2 MiB on it is aligned to huge pages, and
// the kernel is asked to use them.
absl::StatusOr<std::unique_ptr<Buffer>> AllocateHost(size_t bytes);

// Returns `shard` with its -1 ends replaced by the size of `weight`. INVALID_ARGUMENT for a shard
// outside it.
absl::StatusOr<Shard> ResolveShard(const HostTensor& weight, const Shard& shard);

// A copy of `tensor` converted to `dtype` (fp32 or bf16, rounded to nearest even).
absl::StatusOr<std::unique_ptr<Buffer>> CopyConverted(const HostTensor& tensor, DType dtype);

}  // namespace baton::kernels
