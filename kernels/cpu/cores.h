#pragma once

#include <vector>

namespace baton::kernels::cpu {

// The logical CPUs that OpenMP may use.
std::vector<int> UsableCpus();

// How many threads a backend computes with unless it is told: base::UsableCores of the CPUs that
// OpenMP may use.
int UsableCores();

}  // namespace baton::kernels::cpu
