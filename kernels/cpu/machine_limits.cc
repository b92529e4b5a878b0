#include "kernels/machine_limits.h"

#include <immintrin.h>
#include <omp.h>

#include <algorithm>
#include <chrono>
#include <cstring>

#include "kernels/cpu/amx_tiles.h"
#include "kernels/cpu/isa.h"
#include "kernels/cpu/quantized_gemm.h"
#include "kernels/cpu/thread_team.h"
#include "kernels/host_memory.h"

namespace baton::kernels {
namespace {

using Clock = std::chrono::steady_clock;
double Seconds(Clock::duration duration) { return std::chrono::duration<double>(duration).count(); }

// 20 independent sums hide the latency of the adders. A turn is 2 operations in each of their
// lanes.
constexpr int kSums = 20;
constexpr int kTurns = 20000;

__attribute__((target("avx512f,avx512bf16"), noinline)) double DotLoop() {
  __m512 sums[kSums];
  for (__m512& sum : sums) sum = _mm512_setzero_ps();
  const __m512i zero = _mm512_setzero_si512();
  __m512bh x;
  std::memcpy(&x, &zero, sizeof(x));
  for (int turn = 0; turn < kTurns; ++turn) {
#pragma GCC unroll 20
    for (int i = 0; i < kSums; ++i) sums[i] = _mm512_dpbf16_ps(sums[i], x, x);
    asm volatile("" : "+v"(x));
  }
  for (int i = 1; i < kSums; ++i) sums[0] = _mm512_add_ps(sums[0], sums[i]);
  volatile float keep = _mm512_cvtss_f32(sums[0]);
  (void)keep;
  return 2.0 * 32 * kSums * kTurns;
}

// Products of tiles of zeros into four tiles of sums, which hide each other's latency.
__attribute__((noinline)) double AmxLoop() {
  cpu::TileConfig config;
  for (int tile = 0; tile < 8; ++tile) config.Set(tile, cpu::kTileRows);
  cpu::ConfigureTiles(config);
  for (int turn = 0; turn < kTurns; ++turn) {
    cpu::MultiplyTiles<0, 4, 6>();
    cpu::MultiplyTiles<1, 4, 7>();
    cpu::MultiplyTiles<2, 5, 6>();
    cpu::MultiplyTiles<3, 5, 7>();
  }
  cpu::ReleaseTiles();
  return 2.0 * 16 * 16 * 32 * 4 * kTurns;
}

__attribute__((target("avx512f"), noinline)) double Avx512FmaLoop() {
  __m512 sums[kSums];
  for (__m512& sum : sums) sum = _mm512_setzero_ps();
  __m512 x = _mm512_setzero_ps();
  for (int turn = 0; turn < kTurns; ++turn) {
#pragma GCC unroll 20
    for (int i = 0; i < kSums; ++i) sums[i] = _mm512_fmadd_ps(x, x, sums[i]);
    asm volatile("" : "+v"(x));
  }
  for (int i = 1; i < kSums; ++i) sums[0] = _mm512_add_ps(sums[0], sums[i]);
  volatile float keep = _mm512_cvtss_f32(sums[0]);
  (void)keep;
  return 2.0 * 16 * kSums * kTurns;
}

__attribute__((target("avx2,fma"), noinline)) double FmaLoop() {
  constexpr int kHalf = 12;
  __m256 sums[kHalf];
  for (__m256& sum : sums) sum = _mm256_setzero_ps();
  __m256 x = _mm256_setzero_ps();
  for (int turn = 0; turn < kTurns; ++turn) {
#pragma GCC unroll 12
    for (int i = 0; i < kHalf; ++i) sums[i] = _mm256_fmadd_ps(x, x, sums[i]);
    asm volatile("" : "+x"(x));
  }
  for (int i = 1; i < kHalf; ++i) sums[0] = _mm256_add_ps(sums[0], sums[i]);
  volatile float keep = _mm256_cvtss_f32(sums[0]);
  (void)keep;
  return 2.0 * 8 * kHalf * kTurns;
}

// The instruction is written out, because compilers copy the sums of its intrinsic, which takes
// longer than multiplying.
__attribute__((target("avx512f"), always_inline)) inline __m512i AddProducts(__m512i sum,
                                                                             __m512i x) {
  asm("vpdpbusd %1, %1, %0" : "+v"(sum) : "v"(x));
  return sum;
}

__attribute__((target("avx512f"), noinline)) double Avx512VnniLoop() {
  __m512i sums[kSums];
  for (__m512i& sum : sums) sum = _mm512_setzero_si512();
  __m512i x = _mm512_setzero_si512();
  for (int turn = 0; turn < kTurns; ++turn) {
#pragma GCC unroll 20
    for (int i = 0; i < kSums; ++i) sums[i] = AddProducts(sums[i], x);
  }
  for (int i = 1; i < kSums; ++i) sums[0] = _mm512_add_epi32(sums[0], sums[i]);
  volatile int keep = _mm512_cvtsi512_si32(sums[0]);
  (void)keep;
  return 2.0 * 64 * kSums * kTurns;
}

// Without VNNI a product of bytes takes another addition, of 16 bits. Sums are inputs as well, for
// products of the same two numbers would be one.
__attribute__((target("avx512f,avx512bw"), noinline)) double Avx512BytesLoop() {
  __m512i sums[kSums];
  for (__m512i& sum : sums) sum = _mm512_setzero_si512();
  __m512i x = _mm512_setzero_si512();
  for (int turn = 0; turn < kTurns; ++turn) {
#pragma GCC unroll 20
    for (int i = 0; i < kSums; ++i) {
      sums[i] = _mm512_add_epi16(_mm512_maddubs_epi16(x, sums[i]), x);
    }
    asm volatile("" : "+v"(x));
  }
  for (int i = 1; i < kSums; ++i) sums[0] = _mm512_add_epi16(sums[0], sums[i]);
  volatile int keep = _mm512_cvtsi512_si32(sums[0]);
  (void)keep;
  return 2.0 * 64 * kSums * kTurns;
}

__attribute__((target("avx2"), noinline)) double BytesLoop() {
  constexpr int kHalf = 12;
  __m256i sums[kHalf];
  for (__m256i& sum : sums) sum = _mm256_setzero_si256();
  __m256i x = _mm256_setzero_si256();
  for (int turn = 0; turn < kTurns; ++turn) {
#pragma GCC unroll 12
    for (int i = 0; i < kHalf; ++i) {
      sums[i] = _mm256_add_epi16(_mm256_maddubs_epi16(x, sums[i]), x);
    }
    asm volatile("" : "+x"(x));
  }
  for (int i = 1; i < kHalf; ++i) sums[0] = _mm256_add_epi16(sums[0], sums[i]);
  volatile int keep = _mm256_extract_epi32(sums[0], 0);
  (void)keep;
  return 2.0 * 32 * kHalf * kTurns;
}

__attribute__((target("avx2"), noinline)) void ReadLoop(const std::byte* from, size_t bytes) {
  __m256i sums[4] = {_mm256_setzero_si256(), _mm256_setzero_si256(), _mm256_setzero_si256(),
                     _mm256_setzero_si256()};
  for (size_t i = 0; i + 128 <= bytes; i += 128) {
#pragma GCC unroll 4
    for (size_t part = 0; part < 4; ++part) {
      const auto* at = reinterpret_cast<const __m256i*>(from + i + 32 * part);
      sums[part] = _mm256_xor_si256(sums[part], _mm256_loadu_si256(at));
    }
  }
  const __m256i all =
      _mm256_xor_si256(_mm256_xor_si256(sums[0], sums[1]), _mm256_xor_si256(sums[2], sums[3]));
  volatile int keep = _mm256_extract_epi32(all, 0);
  (void)keep;
}

// The sum over the threads of the best rate of each, in `budget` seconds of runs of `work`, which
// returns how many operations it did. Runs are short, so that moments without other load are found.
template <typename F>
double BestComputeRate(int threads, double budget, F work) {
  double sum = 0;
#pragma omp parallel num_threads(threads) reduction(+ : sum)
  {
    double best = 0;
    const auto start = Clock::now();
    do {
      const auto begin = Clock::now();
      const double amount = work();
      best = std::max(best, amount / Seconds(Clock::now() - begin));
    } while (Seconds(Clock::now() - start) < budget);
    sum += best;
  }
  return sum;
}

double MeasureReads(int threads) {
  constexpr size_t kBytes = size_t{128} << 20;
  const auto buffer = AllocateHost(kBytes);
  if (!buffer.ok()) return 0;
  auto* data = static_cast<std::byte*>((*buffer)->data());
  const size_t part = kBytes / static_cast<size_t>(threads);
#pragma omp parallel num_threads(threads)
  std::memset(data + part * static_cast<size_t>(omp_get_thread_num()), 1, part);
  double best = 0;
  const auto start = Clock::now();
  do {
    best = std::max(best, ReadRate(data, kBytes, threads));
  } while (Seconds(Clock::now() - start) < 0.05);
  return best;
}

}  // namespace

double ReadRate(const std::byte* data, size_t bytes, int threads) {
  const size_t part = bytes / static_cast<size_t>(threads) / 128 * 128;
  // The threads share the memory, so the pass counts as a whole.
  const auto begin = Clock::now();
#pragma omp parallel num_threads(threads)
  ReadLoop(data + part * static_cast<size_t>(omp_get_thread_num()), part);
  return static_cast<double>(part) * threads / Seconds(Clock::now() - begin);
}

std::string_view IntegerKernel(const BackendInfo& info) {
  if (info.device != Device::kCpu) return "";
  const auto isa = info.isa == cpu::Name(cpu::Isa::kAvx2) ? cpu::Isa::kAvx2 : cpu::Isa::kAvx512;
  return cpu::QuantizedKernelOf(isa, cpu::HasVnni()).name;
}

MachineLimits MeasureMachineLimits(const BackendInfo& info, bool integers) {
  const int threads = cpu::AskForThreads(info.threads);
  const std::string_view bytes = integers ? IntegerKernel(info) : "";
  const auto work = [&] {
    if (bytes == "vnni") return Avx512VnniLoop();
    if (bytes == "avx512") return Avx512BytesLoop();
    if (bytes == "avx2") return BytesLoop();
    if (info.isa == "amx") return AmxLoop();
    if (info.matmul.starts_with("pairs")) return DotLoop();
    return info.isa == "avx512" ? Avx512FmaLoop() : FmaLoop();
  };
  return {.flops_per_s = BestComputeRate(threads, 0.03, work),
          .read_bytes_per_s = MeasureReads(threads)};
}

}  // namespace baton::kernels
