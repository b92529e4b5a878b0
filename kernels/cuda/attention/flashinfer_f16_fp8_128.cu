#include "kernels/cuda/attention/flashinfer_attention.cuh"
#include "kernels/cuda/attention/flashinfer_instances.cuh"

namespace baton::kernels::cuda {

int NarrowF16Fp8Dim128(const FlashInferArgs& args, cudaStream_t stream) {
  return RunNarrow<__half, 128, __nv_fp8_e4m3>(args, stream);
}
int WideF16Fp8Dim128(const FlashInferArgs& args, cudaStream_t stream) {
  return RunWide<__half, 128, __nv_fp8_e4m3>(args, stream);
}

}  // namespace baton::kernels::cuda
