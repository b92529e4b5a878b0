#include "kernels/cuda/attention/flashinfer_attention.cuh"
#include "kernels/cuda/attention/flashinfer_instances.cuh"

namespace baton::kernels::cuda {

int NarrowF16Dim64(const FlashInferArgs& args, cudaStream_t stream) {
  return RunNarrow<__half, 64>(args, stream);
}
int WideF16Dim64(const FlashInferArgs& args, cudaStream_t stream) {
  return RunWide<__half, 64>(args, stream);
}

}  // namespace baton::kernels::cuda
