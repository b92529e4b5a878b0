#pragma once

#include <cstddef>
#include <memory>

#include "absl/status/statusor.h"
#include "kernels/backend.h"

namespace baton::kernels {

// Memory of this process, 64-byte aligned; from 2 MiB on aligned to and advised for huge pages.
absl::StatusOr<std::unique_ptr<Buffer>> AllocateHost(size_t bytes);

// `shard` with its -1 ends resolved against `weight`, or what is wrong with it.
absl::StatusOr<Shard> ResolveShard(const HostTensor& weight, const Shard& shard);

// A copy of `tensor` converted to `dtype` (fp32 or bf16, rounded to nearest even).
absl::StatusOr<std::unique_ptr<Buffer>> CopyConverted(const HostTensor& tensor, DType dtype);

}  // namespace baton::kernels
