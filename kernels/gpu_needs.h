#pragma once

#include <algorithm>
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

// How many numbers the sampler's list for one launch has room for: what rows usually have together,
// and at least what one row can have. That is up to `context` ids of its history; and each id of
// the vocabulary as an EOS id, as a stop id, and with a bias, an EOS bias and a mask of two numbers
// each, beside its bit among those that are allowed.
constexpr int32_t SamplerListNumbers(int32_t vocab, int32_t context) {
  return std::max(1 << 20, context + 9 * vocab);
}

// The sampler's counts of penalties and processed logits, for steps that draw `samples` rows, and
// its list.
constexpr size_t SamplerBytes(int32_t vocab, int32_t samples, int32_t context) {
  return (sizeof(uint32_t) + sizeof(float)) * static_cast<size_t>(vocab) *
             static_cast<size_t>(samples) +
         sizeof(int32_t) * static_cast<size_t>(SamplerListNumbers(vocab, context));
}

// All buffers of a backend that do not grow with the model's size. No sequence is longer than
// `context`.
constexpr size_t GpuBackendBytes(int32_t vocab, int32_t samples, int32_t context) {
  return kProductWorkspaceBytes + kAttentionPartialBytes + kStepInputBytes +
         SamplerBytes(vocab, samples, context);
}

}  // namespace baton::kernels
