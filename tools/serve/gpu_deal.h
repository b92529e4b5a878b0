#pragma once

#include <string>
#include <vector>

namespace baton {

// What a worker of `serve` gets of the GPUs of the machine.
struct GpuShare {
  std::string visible;  // value of CUDA_VISIBLE_DEVICES; "" = as it is here
  int sharers = 1;      // workers that have these GPUs
};

// The GPUs that a process here may use, as CUDA_VISIBLE_DEVICES names them: those of its value, or,
// where that is null, one for each nvidia0, nvidia1, … in `device_folder`.
std::vector<std::string> VisibleGpus(const char* cuda_visible_devices,
                                     const std::string& device_folder = "/dev");

// `per_worker` of `gpus` for each of `workers`: to every one its own as long as there are enough,
// else in turn. Nothing is dealt where not even one worker could have so many: it says so itself.
std::vector<GpuShare> DealGpus(const std::vector<std::string>& gpus, int workers, int per_worker);

}  // namespace baton
