#pragma once

#include <cuda_runtime.h>

#include "kernels/cuda/attention/flashinfer_attention.h"

// The kernels that are built, by dtype and head size: those of one kind in each flashinfer_*.cu.
namespace baton::kernels::cuda {

int NarrowBf16Dim64(const FlashInferArgs& args, cudaStream_t stream);
int NarrowBf16Dim128(const FlashInferArgs& args, cudaStream_t stream);
int NarrowF16Dim64(const FlashInferArgs& args, cudaStream_t stream);
int NarrowF16Dim128(const FlashInferArgs& args, cudaStream_t stream);
int WideBf16Dim64(const FlashInferArgs& args, cudaStream_t stream);
int WideBf16Dim128(const FlashInferArgs& args, cudaStream_t stream);
int WideF16Dim64(const FlashInferArgs& args, cudaStream_t stream);
int WideF16Dim128(const FlashInferArgs& args, cudaStream_t stream);

// Of a cache of e4m3:
int NarrowBf16Fp8Dim128(const FlashInferArgs& args, cudaStream_t stream);
int NarrowF16Fp8Dim128(const FlashInferArgs& args, cudaStream_t stream);
int WideBf16Fp8Dim128(const FlashInferArgs& args, cudaStream_t stream);
int WideF16Fp8Dim128(const FlashInferArgs& args, cudaStream_t stream);

}  // namespace baton::kernels::cuda
