#pragma once

#include <cstdint>

// The algorithms of the device are written once, against a Cta: the threads of one block between
// two barriers. Tests run them on the host, without a GPU. So this and what includes it is C++17.
#ifdef __CUDACC__
#define BATON_HD __host__ __device__ __forceinline__
#else
#define BATON_HD inline
#endif

// In front of a loop whose arrays are to stay in registers; and of one whose turns, a constant
// number of them at a time, are to wait for memory together.
#ifdef __CUDA_ARCH__
#define BATON_PRAGMA(text) _Pragma(#text)
#define BATON_UNROLL BATON_PRAGMA(unroll)
#define BATON_UNROLL_BY(turns) BATON_PRAGMA(unroll turns)
#else
#define BATON_UNROLL
#define BATON_UNROLL_BY(turns)
#endif

namespace baton::kernels::cuda {

constexpr int kLanes = 32;  // threads of a warp

#ifdef __CUDACC__
// Combines the values of a warp's lanes by `op`, which commutes, in the order of a butterfly. Every
// lane gets the same bits.
template <typename T, typename Op>
BATON_HD T Butterfly(T value, Op op) {
#ifdef __CUDA_ARCH__
  BATON_UNROLL
  for (int lane = kLanes / 2; lane > 0; lane /= 2) {
    value = op(value, __shfl_xor_sync(0xffffffffU, value, lane));
  }
#endif
  return value;
}

// The lanes of one warp on the device, within a phase of their block. They share no memory: a lane
// sees nothing that another one wrote in the same phase, and learns of the others by Reduce alone.
class DeviceWarp {
 public:
  // Its place in the block.
  BATON_HD int index() const {
#ifdef __CUDA_ARCH__
    return static_cast<int>(threadIdx.x) / kLanes;
#else
    return 0;
#endif
  }
  template <typename Body>
  BATON_HD void ForEach(Body body) {
#ifdef __CUDA_ARCH__
    body(static_cast<int>(threadIdx.x) % kLanes);
#endif
  }
  // Every lane makes a value: all of them, combined by `op`, which commutes. What a lane read for
  // its value the others may overwrite afterwards.
  template <typename Make, typename Op>
  BATON_HD auto Reduce(Make make, Op op) -> decltype(make(0)) {
#ifdef __CUDA_ARCH__
    return Butterfly(make(static_cast<int>(threadIdx.x) % kLanes), op);
#else
    return make(0);
#endif
  }
};
#endif

// The threads of one block on the device. An algorithm is a row of phases. In ForEach every thread
// runs `body(thread)` and then waits for the others; what a phase writes is read in later phases
// only, and state that outlives a phase lies in shared memory. A value that decides the control
// flow is taken with Read, because the next phase may overwrite it. The host has a twin of this
// class, tests/kernels/cuda/cta/host_cta.h.
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
  // One thread runs `body`, and all wait for it.
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
  // Every thread of kWarps warps makes a value: all of them, combined by `op`, which commutes, warp
  // by warp and then the warps in their order. `of_warps` is scratch, which the next phase leaves
  // alone. It takes one barrier, where TreeReduce takes one for each halving.
  template <typename T, int kWarps, typename Make, typename Op>
  BATON_HD T Reduce(T (&of_warps)[kWarps], Make make, Op op) {
#ifdef __CUDA_ARCH__
    const T of_warp = Butterfly(make(static_cast<int>(threadIdx.x)), op);
    if (threadIdx.x % kLanes == 0) of_warps[threadIdx.x / kLanes] = of_warp;
    __syncthreads();
    T all = of_warps[0];
    BATON_UNROLL
    for (int warp = 1; warp < kWarps; ++warp) all = op(all, of_warps[warp]);
    return all;
#else
    return T();
#endif
  }
  // The last phase of a kernel, thread by thread or warp by warp: nothing waits behind it.
  template <typename Body>
  BATON_HD void Finish(Body body) {
#ifdef __CUDA_ARCH__
    body(static_cast<int>(threadIdx.x));
#endif
  }
  template <typename Body>
  BATON_HD void FinishByWarps(Body body) {
#ifdef __CUDA_ARCH__
    DeviceWarp warp;
    body(warp);
#endif
  }
};
#endif

// Adds `value` atomically and returns what stood there. Integers add up to the same in any order.
BATON_HD uint32_t AtomicAdd(uint32_t* to, uint32_t value) {
#ifdef __CUDA_ARCH__
  return atomicAdd(to, value);
#else
  const uint32_t before = *to;
  *to += value;
  return before;
#endif
}

// Combines values[0, count) by `op` in the fixed order of a binary tree and returns the result; the
// values are scratch afterwards. `count` is a power of two, at most the number of threads.
template <typename Cta, typename T, typename Op>
BATON_HD T TreeReduce(Cta& cta, T* values, int count, Op op) {
  for (int half = count / 2; half > 0; half /= 2) {
    cta.ForEach([&](int t) {
      if (t < half) values[t] = op(values[t], values[t + half]);
    });
  }
  return cta.Read(values[0]);
}

// Running sums: entry i of the result is the sum of values[0..i], added in the fixed order of the
// algorithm of Hillis and Steele. `count` is at most the number of threads; `other` is scratch of
// that size. Returns where the sums are: in `values` or in `other`.
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
