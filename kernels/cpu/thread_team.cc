#include "kernels/cpu/thread_team.h"

#include <omp.h>

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "kernels/step_check.h"

namespace baton::kernels::cpu {

int AskForThreads(int wanted) {
  omp_set_dynamic(0);
  omp_set_num_threads(wanted);
  int come = 0;
#pragma omp parallel reduction(+ : come)
  come += 1;
  if (come < wanted) omp_set_num_threads(come);
  return come;
}

absl::Status ThreadTeam::Take() {
  const std::thread::id caller = std::this_thread::get_id();
  if (caller == taken_by_ && !omp_in_parallel()) {
    omp_set_dynamic(0);
    omp_set_num_threads(threads_);
    return absl::OkStatus();
  }
  const int come = AskForThreads(threads_);
  if (come < threads_) {
    return DeviceFault(absl::StrCat("OpenMP gives the calling thread a team of ", come,
                                    ", the backend was made for ", threads_,
                                    "; drive it outside of parallel regions"));
  }
  taken_by_ = caller;
  return absl::OkStatus();
}

}  // namespace baton::kernels::cpu
