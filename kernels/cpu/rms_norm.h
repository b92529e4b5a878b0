#pragma once

#include "kernels/cpu/isa.h"
#include "kernels/tensor_view.h"

namespace baton::kernels::cpu {

// Computes rows [begin, end) of Backend::RmsNorm. `weight` is fp32 [cols].
using RmsNormFn = void (*)(Matrix in, const float* weight, float eps, Matrix out, int64_t begin,
                           int64_t end);
RmsNormFn ChooseRmsNorm(Isa isa);

}  // namespace baton::kernels::cpu
