#include "kernels/cuda/cta/sample_counts.h"
#include "kernels/cuda/cta/sample_draw.h"
#include "kernels/cuda/cta/sample_survey.h"
#include "kernels/cuda/sample/sampling.h"

namespace baton::kernels::cuda {
namespace {

constexpr int kResetThreads = 256;
constexpr int kResetBlocks = 32;  // per entry

__global__ void ZeroCounts(const CountsReset* resets, uint32_t* counts, int32_t vocab) {
  if (resets[blockIdx.y].append != 0) return;
  uint32_t* const entry = counts + static_cast<int64_t>(resets[blockIdx.y].entry) * vocab;
  const int32_t stride = gridDim.x * blockDim.x;
  for (int32_t id = blockIdx.x * blockDim.x + threadIdx.x; id < vocab; id += stride) entry[id] = 0;
}

__global__ void CountHistory(const CountsReset* resets, const int32_t* lists,
                             const int32_t* last_tokens, uint32_t* counts, int32_t vocab) {
  const CountsReset reset = resets[blockIdx.y];
  uint32_t* const entry = counts + static_cast<int64_t>(reset.entry) * vocab;
  const int32_t stride = gridDim.x * blockDim.x;
  for (int32_t i = blockIdx.x * blockDim.x + threadIdx.x; i < CountedIds(reset); i += stride) {
    CountId(reset, i, lists, last_tokens, vocab, entry);
  }
}

__global__ void __launch_bounds__(kSurveyThreads) Survey(const SampleLaunch launch) {
  __shared__ SurveyShared shared;
  DeviceCta cta;
  SurveyTile(cta, launch, static_cast<int32_t>(blockIdx.y), static_cast<int32_t>(blockIdx.x),
             shared);
}

__global__ void __launch_bounds__(kDrawThreads) Draw(const SampleLaunch launch) {
  __shared__ DrawShared shared;
  DeviceCta cta;
  FinishRow(cta, launch, static_cast<int32_t>(blockIdx.x), shared);
}

}  // namespace

int LaunchResetCounts(const CountsReset* resets, int32_t count, const SampleLaunch& launch,
                      CUstream_st* stream) {
  if (count == 0) return 0;
  const dim3 grid(kResetBlocks, static_cast<unsigned>(count));
  ZeroCounts<<<grid, kResetThreads, 0, stream>>>(resets, launch.counts, launch.vocab);
  CountHistory<<<grid, kResetThreads, 0, stream>>>(resets, launch.lists, launch.last_tokens,
                                                   launch.counts, launch.vocab);
  return cudaGetLastError();
}

int LaunchSample(const SampleLaunch& launch, CUstream_st* stream) {
  if (launch.rows == 0) return 0;
  const dim3 tiles(static_cast<unsigned>(NumTiles(launch.vocab)),
                   static_cast<unsigned>(launch.rows));
  Survey<<<tiles, kSurveyThreads, 0, stream>>>(launch);
  Draw<<<static_cast<unsigned>(launch.rows), kDrawThreads, 0, stream>>>(launch);
  return cudaGetLastError();
}

}  // namespace baton::kernels::cuda
