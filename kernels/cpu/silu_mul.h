#pragma once

#include "kernels/cpu/isa.h"
#include "kernels/tensor_view.h"

namespace baton::kernels::cpu {

// Computes rows [begin, end) of Backend::SiluMul.
using SiluMulFn = void (*)(Matrix gate_up, Matrix out, int64_t begin, int64_t end);
SiluMulFn ChooseSiluMul(Isa isa);

}  // namespace baton::kernels::cpu
