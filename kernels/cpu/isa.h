#pragma once

#include <string_view>

#include "absl/status/statusor.h"
#include "kernels/dtype.h"

namespace baton::kernels::cpu {

// The instruction sets that kernels are compiled for. Every kernel of our own exists once for each,
// and a backend uses one of them from start to end.
enum class Isa { kAvx2, kAvx512 };

std::string_view Name(Isa isa);

// The instruction set that `wanted` ("auto", "avx512" or "avx2") stands for. "auto" is the best
// that this machine has for `compute_dtype`; with bf16 it is AVX-512 only where there is
// avx512_bf16. INVALID_ARGUMENT for another name, FAILED_PRECONDITION where the machine lacks what
// is wanted.
absl::StatusOr<Isa> ChooseIsa(std::string_view wanted, DType compute_dtype);

}  // namespace baton::kernels::cpu
