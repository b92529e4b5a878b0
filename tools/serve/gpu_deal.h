#pragma once

#include <string>
#include <vector>

namespace baton {

// The GPUs of the machine that one worker of `baton serve` gets.
struct GpuShare {
  std::string visible;  // value of CUDA_VISIBLE_DEVICES; "" = as it is here
  int sharers = 1;      // workers that have these GPUs
};

// The GPUs that a process here may use, as CUDA_VISIBLE_DEVICES names them: those of its value, or,
// where that is null, one for each nvidia0, nvidia1, … in `device_folder`.
std::vector<std::string> VisibleGpus(const char* cuda_visible_devices,
                                     const std::string& device_folder = "/dev");

// Deals `per_worker` of the GPUs to each worker: to every one its own as long as there are enough,
// else to all in turn. Nothing is dealt when there are fewer than one worker needs, which that
// worker then reports itself. Where none is known, as under WSL, whose driver has no files by these
// names, all workers take what CUDA shows them, and so share it.
std::vector<GpuShare> DealGpus(const std::vector<std::string>& gpus, int workers, int per_worker);

}  // namespace baton
