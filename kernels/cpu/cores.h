#pragma once

namespace baton::kernels::cpu {

// How many threads a backend computes with unless it is told: base::UsableCores of the CPUs that
// OpenMP may use.
int UsableCores();

}  // namespace baton::kernels::cpu
