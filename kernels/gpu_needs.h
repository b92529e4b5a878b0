#pragma once

#include <cstddef>
#include <cstdint>

namespace baton::kernels {

// What a process takes of a GPU beside weights, activations and KV cache: what the backend of GPUs
// allocates by, and what is reckoned with before anything is loaded.

// Of the driver, cuBLASLt and NCCL for a process. Nothing tells how much that is.
inline constexpr size_t kGpuLibraryBytes = size_t{1} << 30;

inline constexpr size_t kProductWorkspaceBytes = size_t{32} << 20;   // as cuBLAS advises on Hopper
inline constexpr size_t kAttentionPartialBytes = size_t{128} << 20;  // results of split keys
inline constexpr size_t kStepInputBytes = size_t{8} << 20;  // grows where a step needs more

// The sampler's counts of penalties and processed logits, for steps that draw `samples` rows.
constexpr size_t SamplerBytes(int32_t vocab, int32_t samples) {
  return (sizeof(uint32_t) + sizeof(float)) * static_cast<size_t>(vocab) *
         static_cast<size_t>(samples);
}

// All buffers of a backend that do not grow with the model.
constexpr size_t GpuBackendBytes(int32_t vocab, int32_t samples) {
  return kProductWorkspaceBytes + kAttentionPartialBytes + kStepInputBytes +
         SamplerBytes(vocab, samples);
}

}  // namespace baton::kernels
