#pragma once

#include <string_view>

#include "absl/status/statusor.h"
#include "kernels/dtype.h"

namespace baton::kernels::cpu {

// The two compiled instruction sets. Every own kernel exists once for each, and a backend uses one
// of them from start to end.
enum class Isa { kAvx2, kAvx512 };

std::string_view Name(Isa isa);

// `wanted` is auto, avx512 or avx2; `auto` takes the best this machine has for `compute_dtype`
// (bf16 takes avx512 only with avx512_bf16).
absl::StatusOr<Isa> ChooseIsa(std::string_view wanted, DType compute_dtype);

}  // namespace baton::kernels::cpu
