#pragma once

#include <string_view>

#include "absl/status/statusor.h"
#include "kernels/dtype.h"

namespace baton::kernels::cpu {

// The instruction sets that kernels are compiled for. Every kernel of our own but the product
// exists once for each, and a backend uses one of them from start to end.
enum class Isa { kAvx2, kAvx512 };

std::string_view Name(Isa isa);

// The instruction set that `wanted` ("auto", "avx512" or "avx2") stands for; "auto" is the best
// that this machine has. INVALID_ARGUMENT for another name, FAILED_PRECONDITION where the machine
// lacks what is wanted.
absl::StatusOr<Isa> ChooseIsa(std::string_view wanted);

// Whether products in `compute_dtype` gain from AVX-512 on a machine that has it: those in bf16 do
// only with avx512_bf16. Attention and all else compute in fp32 and always do.
bool HasAvx512Products(DType compute_dtype);

// Whether this machine multiplies tiles of bf16 (AMX).
bool HasAmxBf16();

}  // namespace baton::kernels::cpu
