#pragma once

#include <span>

#include "common/base/eos_signal.h"
#include "kernels/sample_processors.h"
#include "kernels/sampling.h"

namespace baton::kernels::reference {

// Samples one row as Backend::Sample.
void SampleRowInto(const SampleRow& row, std::span<const float> raw, SampleProcessors& processors,
                   SampledToken& result);

}  // namespace baton::kernels::reference
