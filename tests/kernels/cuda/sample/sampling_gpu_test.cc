// The sampling kernels on the device.
#include <gtest/gtest.h>

#include "tests/kernels/cuda/sample/gpu_sampler.h"
#include "tests/kernels/cuda/sample/sample_state_suite.h"
#include "tests/kernels/cuda/sample/sampling_suite.h"

namespace baton::kernels::cuda {

INSTANTIATE_TYPED_TEST_SUITE_P(Gpu, SamplingSuite, GpuSampler);
INSTANTIATE_TYPED_TEST_SUITE_P(Gpu, SampleStateSuite, GpuSampler);

}  // namespace baton::kernels::cuda
