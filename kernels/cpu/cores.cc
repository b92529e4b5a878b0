#include "kernels/cpu/cores.h"

#include <omp.h>

#include <vector>

#include "common/base/cores.h"

namespace baton::kernels::cpu {
namespace {

// The CPUs of OpenMP's places. Where it binds threads, it has bound the calling one as well, whose
// affinity is then one place.
std::vector<int> CpusOfPlaces() {
  std::vector<int> cpus;
  for (int place = 0; place < omp_get_num_places(); ++place) {
    std::vector<int> of_place(static_cast<size_t>(omp_get_place_num_procs(place)));
    omp_get_place_proc_ids(place, of_place.data());
    cpus.insert(cpus.end(), of_place.begin(), of_place.end());
  }
  return cpus;
}

}  // namespace

std::vector<int> UsableCpus() {
  std::vector<int> cpus = CpusOfPlaces();
  return cpus.empty() ? base::CpusOfThisThread() : cpus;
}

int UsableCores() { return base::UsableCores(UsableCpus()); }

}  // namespace baton::kernels::cpu
