#pragma once

#include <string_view>

namespace baton::kernels::cuda {

// Whether machine code for `architectures` runs on a GPU of compute capability major.minor. The
// text is entries of CMAKE_CUDA_ARCHITECTURES, separated by commas: "90a-real", "80", "90-virtual".
bool RunsOn(std::string_view architectures, int major, int minor);

}  // namespace baton::kernels::cuda
