#include "kernels/cuda/attention/flashinfer_attention.h"

#include "kernels/cuda/attention/flashinfer_instances.cuh"

namespace baton::kernels::cuda {
namespace {

bool IsBf16(const FlashInferArgs& args) { return args.dtype == DType::kBF16; }

}  // namespace

int LaunchNarrowAttention(const FlashInferArgs& args, CUstream_st* stream) {
  if (!FlashInferHas(args.dtype, args.kv_dtype, args.head_dim)) return cudaErrorInvalidValue;
  if (args.items == 0) return cudaSuccess;
  if (args.kv_dtype == DType::kFp8) {
    return IsBf16(args) ? NarrowBf16Fp8Dim128(args, stream) : NarrowF16Fp8Dim128(args, stream);
  }
  if (args.head_dim == 64) {
    return IsBf16(args) ? NarrowBf16Dim64(args, stream) : NarrowF16Dim64(args, stream);
  }
  return IsBf16(args) ? NarrowBf16Dim128(args, stream) : NarrowF16Dim128(args, stream);
}

int LaunchWideAttention(const FlashInferArgs& args, CUstream_st* stream) {
  if (!FlashInferHas(args.dtype, args.kv_dtype, args.head_dim)) return cudaErrorInvalidValue;
  if (args.items == 0) return cudaSuccess;
  if (args.kv_dtype == DType::kFp8) {
    return IsBf16(args) ? WideBf16Fp8Dim128(args, stream) : WideF16Fp8Dim128(args, stream);
  }
  if (args.head_dim == 64) {
    return IsBf16(args) ? WideBf16Dim64(args, stream) : WideF16Dim64(args, stream);
  }
  return IsBf16(args) ? WideBf16Dim128(args, stream) : WideF16Dim128(args, stream);
}

}  // namespace baton::kernels::cuda
