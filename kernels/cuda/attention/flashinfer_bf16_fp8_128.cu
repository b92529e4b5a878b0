#include "kernels/cuda/attention/flashinfer_attention.cuh"
#include "kernels/cuda/attention/flashinfer_instances.cuh"

namespace baton::kernels::cuda {

int NarrowBf16Fp8Dim128(const FlashInferArgs& args, cudaStream_t stream) {
  return RunNarrow<__nv_bfloat16, 128, __nv_fp8_e4m3>(args, stream);
}
int WideBf16Fp8Dim128(const FlashInferArgs& args, cudaStream_t stream) {
  return RunWide<__nv_bfloat16, 128, __nv_fp8_e4m3>(args, stream);
}

}  // namespace baton::kernels::cuda
