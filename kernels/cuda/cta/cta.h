#pragma once

#include <cstdint>

// C++17, for .cu files and for the host alike: device algorithms are written once against a Cta
// (the threads of one block between barriers), so that tests run them without a GPU.
#ifdef __CUDACC__
#define BATON_HD __host__ __device__ __forceinline__
#else
#define BATON_HD inline
#endif

namespace baton::kernels::cuda {

// The threads of one block on the device. An algorithm is a row of phases: in ForEach every thread
// runs `body(thread)`, then all wait; memory written in a phase is read in later ones only. State
// that outlives a phase is in shared memory. What decides the control flow is read with Read, since
// the next phase may overwrite it. The host twin is tests/kernels/cuda/cta/host_cta.h.
#ifdef __CUDACC__
class DeviceCta {
 public:
  BATON_HD int threads() const {
#ifdef __CUDA_ARCH__
    return static_cast<int>(blockDim.x);
#else
    return 1;
#endif
  }
  template <typename Body>
  BATON_HD void ForEach(Body body) {
#ifdef __CUDA_ARCH__
    body(static_cast<int>(threadIdx.x));
    __syncthreads();
#endif
  }
  // One thread works, all wait.
  template <typename Body>
  BATON_HD void Single(Body body) {
#ifdef __CUDA_ARCH__
    if (threadIdx.x == 0) body();
    __syncthreads();
#endif
  }
  template <typename T>
  BATON_HD T Read(const T& shared) {
    const T copy = shared;
#ifdef __CUDA_ARCH__
    __syncthreads();
#endif
    return copy;
  }
};
#endif

// Adds in any order; the sum is the same. Returns what stood there.
BATON_HD uint32_t AtomicAdd(uint32_t* to, uint32_t value) {
#ifdef __CUDA_ARCH__
  return atomicAdd(to, value);
#else
  const uint32_t before = *to;
  *to += value;
  return before;
#endif
}

// values[0] = op over values[0, count) in the fixed order of a binary tree; the rest is scratch.
// `count` is a power of two of at most the block's threads.
template <typename Cta, typename T, typename Op>
BATON_HD T TreeReduce(Cta& cta, T* values, int count, Op op) {
  for (int half = count / 2; half > 0; half /= 2) {
    cta.ForEach([&](int t) {
      if (t < half) values[t] = op(values[t], values[t + half]);
    });
  }
  return cta.Read(values[0]);
}

// values[i] = sum of values[0..i], by Hillis and Steele, in the fixed order that gives. `count` is
// at most the block's threads; `other` is scratch of that size. Returns where the sums are.
template <typename Cta, typename T>
BATON_HD T* InclusiveScan(Cta& cta, T* values, T* other, int count) {
  for (int distance = 1; distance < count; distance *= 2) {
    cta.ForEach([&](int t) {
      if (t < count) other[t] = t >= distance ? values[t - distance] + values[t] : values[t];
    });
    T* const swapped = values;
    values = other;
    other = swapped;
  }
  return values;
}

}  // namespace baton::kernels::cuda
